-- Writes down what becomes of rules (limits/changing.ts), all of it or nothing, alone: what was decided holds only as long as
-- the rules are those that it was decided on.
--
-- expected: their number then. If it is another by now, nothing is changed, and the answer says so.
-- changes: a list; of each `name`, and what there is of
--   stored, rule      what is kept from now on; without the instants, which only the clock of the storage can tell:
--   held, blind       until when, as of a rule: a number: for so long from now, and not shorter than before; true: as before
--   removed           the rule, and all that was counted
--   adopts            jobs that run already hold of it what they would hold if they had started under it
--   resumed           nothing is in its way any more, whoever it was that held it
--   reset             what was counted is forgotten: of one state (`grp`), or of all (null)
--   loosened          whatever waited for it looks again
-- history: what was changed, as listeners and the history of limits are told (storage/limit-history.ts).
-- owners: the highest version that an owner has declared, by name; null: it is forgotten.
CREATE OR REPLACE FUNCTION {schema}.write_rules_{version}(expected bigint, changes jsonb, history jsonb, owners jsonb) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8;
  change jsonb;
  before {schema}.rules;
  first_grp text;
  instants jsonb;
  given {schema}.limit_given[] := '{}';
  news boolean := false;
  heard boolean := false;
BEGIN
  PERFORM {schema}.begin_step(true);
  IF (SELECT rules FROM {schema}.meta) <> expected THEN
    RETURN '{"again":true}';
  END IF;
  now := {schema}.moment();
  FOR change IN SELECT value FROM jsonb_array_elements(changes) LOOP
    SELECT * INTO before FROM {schema}.rules WHERE name = change ->> 'name';
    -- Of a limit by group nothing but what is kept for groups: the bare name is somebody else's.
    first_grp := CASE WHEN (before.rule ->> 'byGroup')::boolean THEN '-' ELSE '' END;
    IF change ? 'stored' THEN
      instants := {schema}.rule_instants(before.stored, change, now);
      INSERT INTO {schema}.rules (name, stored, rule, fields)
        VALUES (change ->> 'name', (change -> 'stored') || instants, (change -> 'rule') || instants,
          {schema}.read_rule((change -> 'rule') || instants))
        ON CONFLICT (name) DO UPDATE SET stored = excluded.stored, rule = excluded.rule, fields = excluded.fields;
    ELSIF change ? 'removed' THEN
      DELETE FROM {schema}.rules WHERE name = before.name;
      PERFORM {schema}.drop_limit(id) FROM {schema}.limits WHERE name = before.name AND grp >= first_grp;
    END IF;
    IF change ? 'resumed' THEN
      UPDATE {schema}.limits SET pause_until = NULL, told_left = NULL, told_until = NULL, failures = 0, open_until = NULL
        WHERE name = before.name AND grp >= first_grp;
    END IF;
    IF change ? 'reset' THEN
      PERFORM {schema}.reset_limit(id, now) FROM {schema}.limits
        WHERE name = before.name AND grp >= first_grp AND (change ->> 'reset' IS NULL OR grp = change ->> 'reset');
      IF change ->> 'reset' IS NOT NULL THEN
        given := given || {schema}.window_freed(before.name, change ->> 'reset', now);
      END IF;
    END IF;
    IF change ? 'loosened' THEN
      PERFORM {schema}.unblock_all(before.name);
      news := true;
    END IF;
    IF change ? 'adopts' THEN
      PERFORM {schema}.adopt(before.rule, (change -> 'rule') || instants, now);
    END IF;
  END LOOP;
  DELETE FROM {schema}.limit_owners o WHERE owners ? o.name;
  INSERT INTO {schema}.limit_owners (name, version)
    SELECT o.key, o.value::bigint FROM jsonb_each_text(owners) AS o WHERE o.value IS NOT NULL;
  IF owners <> '{}' OR jsonb_path_exists(changes, '$[*] ? (exists (@.stored) || exists (@.removed))') THEN
    UPDATE {schema}.meta SET rules = rules + 1;
  END IF;
  IF history <> '[]' THEN
    heard := {schema}.keep_history(history, now);
  END IF;
  RETURN json_build_object('everybody', news OR {schema}.is_news(given, now), 'events', heard);
END
$$;
