-- What a service says of a limit: holds, what is remaining, failures. The locks of the limits are held.

-- Nothing starts under a limit for so long, in one group; of a limit that is not by group, at all. It only ever extends. What
-- holds all groups of a limit is kept with its rule: write_rules.
CREATE OR REPLACE FUNCTION {schema}.hold_limit_{version}(limit_name text, grp text, hold_ms float8) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  rule {schema}.limit_rule;
  now float8;
BEGIN
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  rule := {schema}.rule_named(limit_name);
  IF rule.name IS NULL THEN
    RETURN '{"missing":true}';
  END IF;
  IF rule.by_group AND grp IS NULL THEN
    RETURN '{"again":true}';
  END IF;
  now := {schema}.moment();
  PERFORM {schema}.write_hold(limit_name, {schema}.state_grp(rule.by_group, grp), now + hold_ms, now);
  RETURN '{}';
END
$$;

-- May one of the starts with these tokens, in their order, hold something for itself? One look instead of one for each of them: where
-- limits are the same for all jobs of a claim, none does.
CREATE OR REPLACE FUNCTION {schema}.hold_alone(tokens bigint[]) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (SELECT FROM {schema}.holds AS h WHERE h.token >= tokens[1] AND h.token <= tokens[cardinality(tokens)]);
END
$$;

-- The names of the limits that a service holds up, by what a job said that got to hear of it: those that it named, and all
-- that it ran under and that are not by group.
CREATE OR REPLACE FUNCTION {schema}.names_to_hold(lease {schema}.ended_lease) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF lease.hold IS NULL THEN
    RETURN '{}';
  END IF;
  RETURN ARRAY(
    SELECT jsonb_array_elements_text(lease.hold -> 'names')
    UNION
    SELECT r.name FROM {schema}.rules AS r
      WHERE (lease.hold ->> 'scope')::boolean AND NOT coalesce((r.rule ->> 'byGroup')::boolean, false)
        AND (jsonb_typeof(r.rule -> 'queues') <> 'array' OR r.rule -> 'queues' ? lease.queue)
        AND (jsonb_typeof(r.rule -> 'types') <> 'array' OR r.rule -> 'types' ? lease.type));
END
$$;

-- The service says how much is left of a limit until its window begins anew; of a limit by group: to this group, or to jobs
-- without one (NULL).
--
-- Of what it says about the same window the least holds, for some of what has started may not have reached it yet; a later window is
-- another one. What is said about one window differs by the time that its answers took, and by how the service rounds: a second.
CREATE OR REPLACE FUNCTION {schema}.set_remaining_{version}(limit_name text, grp text, remaining float8, reset_ms float8) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  rule {schema}.limit_rule;
  kept {schema}.limits;
  now float8;
  until float8;
  wake_all boolean := false;
BEGIN
  PERFORM {schema}.begin_step();
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  rule := {schema}.rule_named(limit_name);
  IF rule.name IS NULL THEN
    RETURN '{"missing":true}';
  END IF;
  now := {schema}.moment();
  kept := {schema}.open_limit(limit_name, 0, {schema}.state_grp(rule.by_group, grp), now);
  until := now + reset_ms;
  IF now < kept.told_until AND until <= kept.told_until + 1500 THEN
    remaining := least(kept.told_left, remaining);
    until := greatest(kept.told_until, until);
  END IF;
  UPDATE {schema}.limits AS l SET told_left = set_remaining_{version}.remaining, told_until = until WHERE l.id = kept.id;
  IF remaining > kept.told_left THEN
    wake_all := {schema}.is_earlier({schema}.window_freed(limit_name, kept.grp, now), now);
  END IF;
  RETURN json_build_object('wakeAll', wake_all);
END
$$;

-- The breaker of a limit hears how leases have ended that held it, in their order: tokens and ats are of what they held;
-- leases is NULL where all of them went well. Does it close with that? It opens after so many failures in a row, and when a
-- probe fails; a probe that goes well closes it.
CREATE OR REPLACE FUNCTION {schema}.update_breaker(
  kept {schema}.limits, rule {schema}.limit_rule, leases {schema}.ended_lease[], tokens bigint[], ats float8[], now float8
) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  fails integer := kept.failures;
  opens float8 := kept.open_until;
  closed boolean := false;
  one record;
BEGIN
  FOR one IN
    SELECT coalesce(e.how, 'well') AS how, e.kinds, held.at
      FROM unnest(tokens, ats) AS held (token, at)
        LEFT JOIN unnest(leases) WITH ORDINALITY AS e ON e.token = held.token
      WHERE e.how IS NULL OR e.how <> 'gone' ORDER BY e.ordinality
  LOOP
    IF one.how = 'well' THEN
      fails := 0;
      IF opens <= one.at THEN
        opens := NULL;
        closed := true;
      END IF;
      CONTINUE;
    END IF;
    CONTINUE WHEN rule.kinds IS NOT NULL AND NOT rule.kinds && coalesce(one.kinds, '{}');
    IF opens IS NULL THEN
      fails := fails + 1;
      CONTINUE WHEN fails < rule.failures;
    ELSIF one.at < opens THEN
      -- It began before the breaker opened, and says nothing new.
      CONTINUE;
    END IF;
    fails := 0;
    opens := now + rule.open_ms;
  END LOOP;
  IF fails = kept.failures AND opens IS NOT DISTINCT FROM kept.open_until THEN
    RETURN false;
  END IF;
  UPDATE {schema}.limits AS l SET failures = fails, open_until = opens
    WHERE l.id = kept.id;
  RETURN closed;
END
$$;

-- Nothing starts under this limit, for one group or for all, until then. It only ever extends.
CREATE OR REPLACE FUNCTION {schema}.write_hold(name text, grp text, until float8, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  INSERT INTO {schema}.limits AS l (name, grp, longest, prune_at, pause_until)
    VALUES (write_hold.name, write_hold.grp, 0, write_hold.now, until)
    ON CONFLICT ON CONSTRAINT limits_name_grp_key DO UPDATE SET pause_until = greatest(l.pause_until, excluded.pause_until);
END
$$;

-- The start of this instant never was. When it was granted, the time after the one before it was over.
CREATE OR REPLACE FUNCTION {schema}.cancel_latest(id bigint, started_at float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  UPDATE {schema}.limits AS l SET latest_at = NULL, called_at = NULL, called_by = NULL
    WHERE l.id = cancel_latest.id AND l.latest_at = started_at;
END
$$;
