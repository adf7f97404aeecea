-- The clock of the storage: the clock of the server, which never runs backwards here.

-- The clock of the server, in milliseconds since 1970. Nothing else reads it: tests put another one in its place.
CREATE OR REPLACE FUNCTION {schema}.wall() RETURNS float8
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
  SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000)::pg_catalog.float8
$$;

-- The time of the storage. It does not run backwards: where the clock of the server was set back, all of the storage goes on
-- from the time that was seen last, and stays ahead of the clock by the difference.
--
-- The last time seen is written once in a while (every 100 ms at most), by a step that need not wait for the row. So
-- a step back that is smaller than that is not seen here; no log of starts goes backwards all the same (limits.newest).
--
-- The clock is read after what it is compared with, and again after a wait: else the time that passed in between would look like
-- a clock that was set back.
CREATE OR REPLACE FUNCTION {schema}.moment() RETURNS float8
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  seen record;
  now float8;
BEGIN
  SELECT last, skew INTO seen FROM {schema}.meta;
  now := {schema}.wall();
  IF now + seen.skew < seen.last THEN
    SELECT last, skew INTO seen FROM {schema}.meta FOR UPDATE;
    now := {schema}.wall();
    IF now + seen.skew < seen.last THEN
      UPDATE {schema}.meta SET skew = last - now RETURNING last, skew INTO seen;
    END IF;
  ELSIF now + seen.skew >= seen.last + 100 THEN
    PERFORM FROM {schema}.meta FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      UPDATE {schema}.meta SET last = greatest(last, now + seen.skew);
    END IF;
  END IF;
  RETURN now + seen.skew;
END
$$;

-- The time of the storage for functions that only read: what moment would say, without a write. VOLATILE: it looks
-- at the clock as it is when it is called, and not as it was when the statement around it began (repair_clock).
CREATE OR REPLACE FUNCTION {schema}.present() RETURNS float8
LANGUAGE sql VOLATILE AS $$
  SELECT greatest(last, {schema}.wall() + skew) FROM {schema}.meta
$$;

-- How far the clock of the storage is ahead of the clock of the server, as moment would say. Users give and see instants by the
-- clock of the server: those that come in are kept with this added, those that go out are shown without.
CREATE OR REPLACE FUNCTION {schema}.skew() RETURNS float8
LANGUAGE sql VOLATILE AS $$
  SELECT greatest(skew, last - {schema}.wall()) FROM {schema}.meta
$$;

-- Has an instant passed that was given by the clock of the server? NULL, for there is none: yes. Asked of what has passed by the
-- clock of the storage, which may have been set forward since the instant was given.
CREATE OR REPLACE FUNCTION {schema}.has_passed(given float8) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT CASE WHEN given IS NULL THEN true ELSE given <= {schema}.wall() END
$$;

-- Takes the offset out of the clock: every instant of the storage moves by it, in one transaction, so that ages, and with them all
-- decisions, stay as they are. Whole milliseconds, for those move any instant without rounding it. Answers by how many.
--
-- Whatever has read the clock holds the table `meta` until its transaction ends: once this has the table alone, all of them
-- are over, and later steps read the clock anew. It gives up soon where a transaction stays open (55P03).
--
-- instants: which columns of numbers hold instants, as a regular expression (storage/clock-repair.ts).
CREATE OR REPLACE FUNCTION {schema}.repair_clock(instants text) RETURNS float8
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  ahead float8;
  moved record;
BEGIN
  PERFORM set_config('lock_timeout', '5000', true);
  LOCK TABLE {schema}.meta IN ACCESS EXCLUSIVE MODE;
  ahead := trunc({schema}.skew());
  FOR moved IN
    SELECT c.relname AS name,
      string_agg(format('%1$I = CASE WHEN %1$I BETWEEN 1 AND 1e17 THEN %1$I - $1 ELSE %1$I END', a.attname), ', ') AS sets
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = '{schema}'::regnamespace AND c.relkind = 'r' AND c.relname <> 'meta'
      AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid = 'float8'::regtype AND a.attname ~ instants
    GROUP BY c.relname ORDER BY c.relname
  LOOP
    EXECUTE format('UPDATE {schema}.%I SET %s', moved.name, moved.sets) USING ahead;
  END LOOP;
  UPDATE {schema}.meta SET last = last - ahead, skew = greatest(skew, last - {schema}.wall()) - ahead, rules = rules + 1;
  UPDATE {schema}.jobs j SET due_at = j.due_wall + {schema}.skew() WHERE j.due_wall IS NOT NULL;
  UPDATE {schema}.jobs j SET deadline = j.deadline_wall + {schema}.skew()
    WHERE j.deadline_wall IS NOT NULL AND j.finished_at IS NULL;
  -- What running jobs took of limits: the fifth of each list is an instant, where there is one.
  UPDATE {schema}.jobs j SET limits = (
    SELECT jsonb_agg(CASE WHEN jsonb_typeof(t.value -> 4) = 'number'
      THEN jsonb_set(t.value, '{4}', to_jsonb((t.value ->> 4)::float8 - ahead)) ELSE t.value END ORDER BY t.ordinality)
    FROM jsonb_array_elements(j.limits) WITH ORDINALITY t)
  WHERE j.state = 'active' AND jsonb_typeof(j.limits) = 'array' AND jsonb_array_length(j.limits) > 0;
  UPDATE {schema}.rules r SET stored = r.stored || s.instants, rule = r.rule || s.instants,
    fields = {schema}.read_rule(r.rule || s.instants)
  FROM (
    SELECT k.name, jsonb_strip_nulls(jsonb_build_object('heldUntil', (k.rule ->> 'heldUntil')::float8 - ahead,
      'blindUntil', (k.rule ->> 'blindUntil')::float8 - ahead)) AS instants
    FROM {schema}.rules k
  ) s WHERE s.name = r.name AND s.instants <> '{}';
  RETURN ahead;
END
$$;
