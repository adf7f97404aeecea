-- What of a queue has not started, and what it runs under (jobs/backlog.ts): one look, without any lock.
CREATE OR REPLACE FUNCTION {schema}.read_backlog(of_queue text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8 := {schema}.present();
  types jsonb;
  names text[];
  waiting jsonb;
  kept jsonb;
  brought jsonb := '[]';
BEGIN
  -- Along the index of the state, and the latest thousand that were completed: for people, not for a job.
  WITH waiting AS (
    SELECT w.type, sum(w.waiting) AS n, count(*) AS groups, max(w.waiting) AS most
    FROM {schema}.waiting_groups(of_queue, now) w GROUP BY w.type
  ), others AS (
    SELECT j.type, count(*) FILTER (WHERE j.state = 'active') AS active,
      count(*) FILTER (WHERE j.state = 'scheduled' AND (j.due_at > now OR NOT {schema}.has_passed(j.due_wall))) AS scheduled
    FROM {schema}.jobs j WHERE j.queue = of_queue AND j.state IN ('active', 'scheduled') GROUP BY j.type
  ), ran AS (
    SELECT c.type, sum(c.ms) / count(*) AS ms FROM (
      SELECT j.type, j.finished_at - j.started_at AS ms FROM {schema}.jobs j
      WHERE j.queue = of_queue AND j.state = 'completed' ORDER BY j.seq DESC LIMIT 1000
    ) c GROUP BY c.type
  )
  SELECT coalesce(jsonb_agg(jsonb_build_object('type', type, 'waiting', coalesce(w.n, 0),
      'scheduled', coalesce(o.scheduled, 0), 'active', coalesce(o.active, 0), 'groups', coalesce(w.groups, 0),
      'mostInGroup', coalesce(w.most, 0), 'ranMs', r.ms,
      'weights', CASE WHEN w.n > 0 THEN {schema}.waiting_weights(of_queue, type, now) ELSE '{}' END)), '[]'),
      coalesce(array_agg(type), '{}')
    INTO types, names
    FROM waiting w FULL JOIN others o USING (type) LEFT JOIN ran r USING (type);
  SELECT coalesce(jsonb_agg(to_jsonb(w)), '[]') INTO waiting FROM {schema}.waiting_jobs(NULL, now) w;
  SELECT coalesce(jsonb_agg(jsonb_build_object('stored', r.stored) || {schema}.seen_states(r.rule, NULL, now)), '[]')
    INTO kept FROM {schema}.rules r
    WHERE ((r.fields).queues IS NULL OR of_queue = ANY ((r.fields).queues))
      AND cardinality(names) > 0 AND ((r.fields).types IS NULL OR (r.fields).types && names);
  IF cardinality(names) > 0 THEN
    SELECT coalesce(jsonb_agg(jsonb_build_object('claim', c.value) || {schema}.seen_states(jsonb_build_object(
        'name', c.value ->> 'key', 'byGroup', false, 'quota', c.value), NULL, now) ORDER BY c.ordinality), '[]')
      INTO brought FROM {schema}.claims q, jsonb_array_elements(q.limits) WITH ORDINALITY c WHERE q.queue = of_queue;
  END IF;
  RETURN jsonb_build_object('skew', {schema}.skew(), 'types', types, 'waiting', waiting, 'limits', kept || brought,
    'workers', {schema}.live_workers(of_queue, now),
    'pauses', (SELECT coalesce(jsonb_agg(p.type), '[]') FROM {schema}.pauses p WHERE p.queue = of_queue));
END
$$;
