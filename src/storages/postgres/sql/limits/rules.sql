-- Rules: the limits that are defined.
--
-- Locks: a step that changes rules has the lock of the rules alone.

-- Writes down what becomes of rules (limits/changing.ts), all of it or nothing, alone: what was decided holds only as long as
-- the rules are those that it was decided on.
--
-- expected: their number then. If it is another by now, nothing is changed, and the answer says so.
-- changes: a list; of each `name`, and what there is of
--   stored, rule      what is kept from now on; without the instants, which only the clock of the storage can tell:
--   held, blind       until when, as of a rule: a number: for so long from now, and not shorter than before; true: as before
--   removed           the rule, and all that was counted
--   forgets           it is by something else now: all that was counted for values of what it was by
--   adopts            jobs that run already hold of it what they would hold if they had started under it
--   resumed           holds, what a service said and the breaker are cleared
--   reset             what was counted is forgotten: of one state (`grp`), or of all (null)
--   loosened          whatever waited for it looks again
-- history: what was changed, as it is published and kept (storage/limit-history.ts).
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
  wake_all boolean := false;
  heard boolean := false;
BEGIN
  PERFORM {schema}.begin_step(true);
  IF (SELECT rules FROM {schema}.meta) <> expected THEN
    RETURN '{"again":true}';
  END IF;
  now := {schema}.moment();
  FOR change IN SELECT value FROM jsonb_array_elements(changes) LOOP
    SELECT * INTO before FROM {schema}.rules WHERE name = change ->> 'name';
    -- Of a limit by group only the states of groups: the state without a group is that of a rate of this name.
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
      UPDATE {schema}.limits SET held_until = NULL, remaining = NULL, remaining_until = NULL, failures = 0, open_until = NULL
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
      UPDATE {schema}.lanes SET blocked_until = NULL WHERE blocked_by = before.name AND blocked_until IS NOT NULL AND heavy IS NOT NULL;
      UPDATE {schema}.gates SET until = 0 WHERE name = before.name;
      wake_all := true;
    END IF;
    IF change ? 'forgets' THEN
      PERFORM {schema}.drop_limit(id) FROM {schema}.limits WHERE name = before.name AND grp <> '';
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
  RETURN json_build_object('wakeAll', wake_all OR {schema}.wakes_waiters(given, now), 'events', heard);
END
$$;

-- A rule holds from now on: so do the jobs that run already, as if they had started under it. Those that hold something of it
-- go on as they are, but where it only kept the group in mind. before, after: rules as JSON; before is NULL where there was
-- none. The step has the lock of the rules alone.
CREATE OR REPLACE FUNCTION {schema}.adopt(before jsonb, after jsonb, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  was {schema}.limit_rule;
  rule {schema}.limit_rule := {schema}.read_rule(after);
  job record;
  place bigint;
  amount float8;
BEGIN
  IF rule.probes IS NULL AND rule.concurrency IS NULL AND NOT EXISTS (
    SELECT FROM jsonb_each(coalesce(rule.groups, '{}')) AS own WHERE own.value ->> 'concurrency' IS NOT NULL)
  THEN
    RETURN;
  END IF;
  IF before IS NOT NULL THEN
    was := {schema}.read_rule(before);
  END IF;
  -- What jobs that were claimed together hold of the limit in one row, they hold each for itself from now on.
  WITH block AS (
    DELETE FROM {schema}.slots AS h USING {schema}.limits AS l
      WHERE l.name = rule.name AND h.limit_id = l.id AND h.token < 0 RETURNING h.limit_id, h.token, h.at
  )
  INSERT INTO {schema}.slots (limit_id, token, slots, at)
    SELECT block.limit_id, j.token, 1, block.at FROM block
      JOIN {schema}.jobs AS j ON j.state = 'active' AND {schema}.block_of(j.token) = block.token;
  -- Along the index of leases: every job that runs has one.
  FOR job IN
    SELECT j.token, {schema}.state_of(rule, j.grp, j.keys) AS state, j.weights, j.started_at FROM {schema}.jobs AS j
      WHERE j.state = 'active' AND j.lease_until IS NOT NULL
        AND (rule.queues IS NULL OR j.queue = ANY (rule.queues)) AND (rule.types IS NULL OR j.type = ANY (rule.types))
      ORDER BY j.token
  LOOP
    CONTINUE WHEN rule.probes IS NULL AND ({schema}.quota_of(rule, {schema}.group_of(job.state))).concurrency IS NULL;
    place := ({schema}.open_limit(rule.name, 0, job.state, now)).id;
    amount := ({schema}.charge_of(rule, job.weights)).slots;
    INSERT INTO {schema}.slots AS h (limit_id, token, slots, at) VALUES (place, job.token, amount, job.started_at)
      ON CONFLICT DO NOTHING;
    IF NOT FOUND AND was.by_group = rule.by_group AND was.probes IS NULL
      AND ({schema}.quota_of(was, {schema}.group_of(job.state))).concurrency IS NULL
    THEN
      UPDATE {schema}.slots AS h SET slots = amount WHERE h.limit_id = place AND h.token = job.token;
    END IF;
  END LOOP;
  UPDATE {schema}.limits AS l SET held = coalesce(
      (SELECT sum(h.slots) FROM {schema}.slots AS h WHERE h.limit_id = l.id AND h.until IS NULL), 0)
    WHERE l.name = rule.name;
END
$$;

-- All rules, as they are stored, the number of the book they are in, and the versions that owners have declared.
CREATE OR REPLACE FUNCTION {schema}.read_rules_{version}() RETURNS json
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT json_build_object('number', m.rules, 'stored',
    (SELECT coalesce(json_agg(json_build_array(r.name, r.stored)), '[]') FROM {schema}.rules r), 'owners',
    (SELECT coalesce(json_agg(json_build_array(o.name, o.version)), '[]') FROM {schema}.limit_owners o))
  FROM {schema}.meta m
$$;

-- A rule, taken out of its JSON (LimitRule in limits/rule.ts).
CREATE OR REPLACE FUNCTION {schema}.read_rule(rule jsonb) RETURNS {schema}.limit_rule
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  read {schema}.limit_rule;
  quota jsonb := rule -> 'quota';
  breaker jsonb := nullif(rule -> 'breaker', 'null');
BEGIN
  read.name := rule ->> 'name';
  read.by_group := coalesce((rule ->> 'byGroup')::boolean, false);
  read.by_keys := {schema}.texts_of(rule -> 'by');
  read.types := {schema}.texts_of(rule -> 'types');
  read.queues := {schema}.texts_of(rule -> 'queues');
  read.max := (quota ->> 'max')::float8;
  read.window_ms := (quota ->> 'windowMs')::float8;
  read.concurrency := (quota ->> 'concurrency')::float8;
  read.every_ms := (quota ->> 'everyMs')::float8;
  read.groups := nullif(nullif(rule -> 'groups', '{}'), 'null');
  read.weight := rule ->> 'weight';
  read.estimate := coalesce((rule ->> 'estimate')::float8, 1);
  read.paused := coalesce((rule ->> 'paused')::boolean, false);
  read.held_until := (rule ->> 'heldUntil')::float8;
  read.blind_until := (rule ->> 'blindUntil')::float8;
  IF breaker IS NOT NULL THEN
    read.failures := (breaker ->> 'failures')::integer;
    read.open_ms := (breaker ->> 'openMs')::float8;
    read.probes := (breaker ->> 'probes')::integer;
    read.kinds := {schema}.texts_of(breaker -> 'kinds');
  END IF;
  RETURN read;
END
$$;

-- A list of texts; NULL for what is no list.
CREATE OR REPLACE FUNCTION {schema}.texts_of(list jsonb) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  IF list IS NULL OR jsonb_typeof(list) <> 'array' THEN
    RETURN NULL;
  END IF;
  RETURN ARRAY(SELECT jsonb_array_elements_text(list));
END
$$;

-- The rule in force under this name. Its name is NULL where there is none.
CREATE OR REPLACE FUNCTION {schema}.rule_named(name text) RETURNS {schema}.limit_rule
LANGUAGE plpgsql STABLE AS $$
DECLARE
  rule {schema}.limit_rule;
BEGIN
  SELECT (r.fields).* INTO rule FROM {schema}.rules AS r WHERE r.name = rule_named.name;
  RETURN rule;
END
$$;

-- What the jobs that a claim may take run under: the rules in force, by name, and then what the claim brings along.
-- types: what it asks for; NULL: any. own: its list of { key, max, windowMs }, or NULL.
CREATE OR REPLACE FUNCTION {schema}.rules_for(queue text, types text[], own jsonb) RETURNS {schema}.limit_rule[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  rules {schema}.limit_rule[];
  brought {schema}.limit_rule;
  said jsonb;
BEGIN
  SELECT coalesce(array_agg(r.fields ORDER BY r.name), '{}') INTO rules FROM {schema}.rules AS r
    WHERE (r.queues IS NULL OR rules_for.queue = ANY (r.queues))
      AND (rules_for.types IS NULL OR r.types IS NULL OR r.types && rules_for.types);
  IF coalesce(jsonb_array_length(own), 0) = 0 THEN
    RETURN rules;
  END IF;
  brought.by_group := false;
  brought.estimate := 1;
  brought.paused := false;
  FOR said IN SELECT jsonb_array_elements(own) LOOP
    brought.name := said ->> 'key';
    brought.max := (said ->> 'max')::float8;
    brought.window_ms := (said ->> 'windowMs')::float8;
    rules := rules || brought;
  END LOOP;
  RETURN rules;
END
$$;

-- Under which names these rules count.
CREATE OR REPLACE FUNCTION {schema}.names_of(rules {schema}.limit_rule[]) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  names text[] := '{}';
  rule {schema}.limit_rule;
BEGIN
  FOREACH rule IN ARRAY rules LOOP
    IF NOT rule.name = ANY (names) THEN
      names := names || rule.name;
    END IF;
  END LOOP;
  RETURN names;
END
$$;

-- The names of the limits for which it matters how heavy jobs are.
CREATE OR REPLACE FUNCTION {schema}.weighing() RETURNS text[]
LANGUAGE sql STABLE AS $$
  SELECT coalesce(array_agg(name ORDER BY name), '{}') FROM {schema}.rules WHERE rule ->> 'weight' IS NOT NULL
$$;

-- Until when a rule holds everything, and until when its windows are full for want of knowledge: those of `heldUntil` and
-- `blindUntil` that there are, as write_rules is given them.
--
-- before: the rule as it was kept, or NULL. change: what becomes of it.
CREATE OR REPLACE FUNCTION {schema}.rule_instants(before jsonb, change jsonb, now float8) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object(
    'heldUntil', CASE jsonb_typeof(change -> 'held')
      WHEN 'number' THEN to_jsonb(greatest(now + (change ->> 'held')::float8, (before ->> 'heldUntil')::float8))
      WHEN 'boolean' THEN before -> 'heldUntil' END,
    'blindUntil', CASE jsonb_typeof(change -> 'blind')
      WHEN 'number' THEN to_jsonb(greatest(now + (change ->> 'blind')::float8, (before ->> 'blindUntil')::float8))
      WHEN 'boolean' THEN before -> 'blindUntil' END))
$$;

-- Keeps what was changed about limits, the latest 100 of each and 10,000 of all, and publishes it, if a listener wants events.
-- Answers whether it was published.
CREATE OR REPLACE FUNCTION {schema}.keep_history(changes jsonb, now float8) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  INSERT INTO {schema}.limit_changes (name, at_wall, change)
    SELECT c.value ->> 'limit', now - {schema}.skew(), c.value FROM jsonb_array_elements(changes) WITH ORDINALITY AS c ORDER BY c.ordinality;
  DELETE FROM {schema}.limit_changes l USING (
    SELECT n.name, (SELECT o.seq FROM {schema}.limit_changes o WHERE o.name = n.name ORDER BY o.seq DESC LIMIT 1 OFFSET 100) AS seq
    FROM (SELECT DISTINCT c.value ->> 'limit' AS name FROM jsonb_array_elements(changes) AS c) AS n) AS old
    WHERE l.name = old.name AND l.seq <= old.seq;
  DELETE FROM {schema}.limit_changes WHERE seq <= (SELECT max(seq) FROM {schema}.limit_changes) - 10000;
  IF NOT {schema}.events_wanted(now) THEN
    RETURN false;
  END IF;
  INSERT INTO {schema}.events (at, event)
    SELECT now, ('{"event":"limit-changed","queue":null}'::jsonb || c.value)::text
    FROM jsonb_array_elements(changes) WITH ORDINALITY AS c ORDER BY c.ordinality;
  RETURN true;
END
$$;

-- What was changed about limits, the newest first.
--
-- wanted: one limit, or NULL.
CREATE OR REPLACE FUNCTION {schema}.read_history_{version}(wanted text, most int) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(json_agg(l.change || jsonb_build_object('at', l.at_wall) ORDER BY l.seq DESC), '[]')::text FROM (
    SELECT * FROM {schema}.limit_changes WHERE wanted IS NULL OR name = wanted ORDER BY seq DESC LIMIT most) AS l
$$;
