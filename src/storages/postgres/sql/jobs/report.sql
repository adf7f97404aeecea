-- Writes progress, log lines and real weights of running jobs.
--
-- reports: [{n, id, token, progress: its text, log: [text], warnings: [{about, message}],
-- weights: {name: weight}}]. Answer: {lost: [n], everybody, events}.
CREATE OR REPLACE FUNCTION {schema}.report(reports json) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
  SET enable_mergejoin = off AS $$
DECLARE
  now float8;
  alone boolean := {schema}.many_rules();
  ids text[];
  leased bigint[];
  ns integer[];
  tokens bigint[];
  taken jsonb[];
  one record;
  given {schema}.limit_given[] := '{}';
  told boolean;
  warned boolean;
BEGIN
  PERFORM {schema}.begin_step(alone);
  SELECT array_agg(o.id), array_agg(o.token) INTO ids, leased FROM json_to_recordset(reports) AS o (id text, token bigint);
  -- Each is looked up by its id (complete_plainly.sql).
  WITH locked AS MATERIALIZED (
    SELECT j.id, j.token, j.limits FROM {schema}.jobs j
    WHERE j.id = ANY (ids) AND j.token = ANY (leased) AND j.lease_until IS NOT NULL ORDER BY j.id FOR UPDATE
  )
  SELECT coalesce(array_agg(o.n), '{}'), array_agg(l.token) FILTER (WHERE o.weights IS NOT NULL),
    array_agg(l.limits) FILTER (WHERE o.weights IS NOT NULL)
  INTO ns, tokens, taken
  FROM locked l JOIN json_to_recordset(reports) AS o (n integer, id text, token bigint, weights json)
    ON o.token = l.token AND o.id = l.id;
  IF tokens IS NOT NULL AND NOT alone THEN
    PERFORM {schema}.lock_limits({schema}.limits_of_report(tokens, taken));
  END IF;
  now := {schema}.moment();
  told := {schema}.events_wanted(now);
  PERFORM {schema}.write_log(reports, ns, now);
  FOR one IN
    SELECT o.id, o.weights FROM json_to_recordset(reports) AS o (n integer, id text, weights jsonb)
    WHERE o.weights IS NOT NULL AND o.n = ANY (ns) ORDER BY o.n
  LOOP
    given := given || (SELECT {schema}.correct_weights(j.seq, j.token, j.started_at, j.limits, one.weights, now)
      FROM {schema}.jobs j WHERE j.id = one.id);
  END LOOP;
  INSERT INTO {schema}.events (at, event)
  SELECT now, json_build_object('event', 'warning', 'queue', j.queue, 'id', j.id, 'type', j.type, 'attempt', j.attempt,
    'about', w.warning->>'about', 'message', w.warning->>'message')
  FROM json_to_recordset(reports) AS o (n integer, id text, warnings json)
  JOIN {schema}.jobs j ON j.id = o.id
  CROSS JOIN LATERAL json_array_elements(o.warnings) WITH ORDINALITY AS w (warning, i)
  WHERE told AND o.n = ANY (ns) ORDER BY o.n, w.i;
  warned := FOUND;
  WITH said AS (
    SELECT o.n, o.id, o.progress FROM json_to_recordset(reports) AS o (n integer, id text, progress text)
    WHERE o.progress IS NOT NULL AND o.n = ANY (ns)
  ), latest AS (
    SELECT DISTINCT ON (s.id) s.id, s.progress FROM said s ORDER BY s.id, s.n DESC
  ), written AS (
    UPDATE {schema}.jobs j SET progress = l.progress FROM latest l WHERE j.id = l.id RETURNING j.id, j.queue, j.type
  )
  INSERT INTO {schema}.events (at, event)
  SELECT now, json_build_object('event', 'progress', 'queue', w.queue, 'id', w.id, 'type', w.type, 'progress', s.progress::json)
  FROM said s JOIN written w ON w.id = s.id WHERE told ORDER BY s.n;
  told := FOUND OR warned;
  RETURN json_build_object('events', told, 'everybody', {schema}.is_news(given, now), 'lost', ARRAY(
    SELECT o.n FROM json_to_recordset(reports) AS o (n integer) WHERE o.n <> ALL (ns) ORDER BY o.n));
END
$$;
