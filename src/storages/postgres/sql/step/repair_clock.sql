-- Takes the offset out of the clock: every instant of the storage moves by it, in one transaction, so that ages, and with them all
-- decisions, stay as they are. Whole milliseconds, for those move any instant without rounding it. Answers by how many.
--
-- Whatever has read the clock holds the table `meta` until its transaction ends: who has it alone knows that all of them are over,
-- and whoever comes reads it anew. He gives up soon where a transaction stays open (55P03).
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
