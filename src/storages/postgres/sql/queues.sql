-- Reading queues: overview and backlog. No locks, but those of `show_due`.

-- What there is of each queue, by name; of one, if asked. A queue exists while it has jobs or is paused. Those that have come due
-- are counted as such.
--
-- Answer: [[queue, {state: count}, [paused: '' for the queue, ':' and the type for one], how long the first has waited]].
CREATE OR REPLACE FUNCTION {schema}.overview_{version}(queue text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET jit = off SET enable_seqscan = off AS $$
DECLARE
  now float8;
  names text[] := ARRAY[queue];
BEGIN
  IF queue IS NULL THEN
    names := {schema}.queue_names();
  END IF;
  PERFORM {schema}.show_due(n.name) FROM unnest(names) AS n (name);
  now := {schema}.present();
  RETURN (SELECT coalesce(json_agg(json_build_array(n.name, c.counts, p.pauses, {schema}.oldest_waiting(n.name, now)) ORDER BY n.no),
      '[]')
    FROM unnest(names) WITH ORDINALITY AS n (name, no)
    CROSS JOIN LATERAL (SELECT json_object_agg(s.state, s.count) AS counts FROM (
      SELECT 'active' AS state, count(*) AS count FROM {schema}.jobs j
      WHERE j.state = 'active' AND j.queue = n.name HAVING count(*) > 0
      UNION ALL
      SELECT j.state COLLATE "POSIX", count(*) FROM {schema}.jobs j
      WHERE j.queue COLLATE "POSIX" = n.name AND j.state COLLATE "POSIX" <> 'active' GROUP BY j.state COLLATE "POSIX") s) c
    CROSS JOIN LATERAL (SELECT json_agg(p.type ORDER BY p.type) AS pauses FROM {schema}.pauses p WHERE p.queue = n.name) p
    WHERE c.counts IS NOT NULL OR p.pauses IS NOT NULL);
END
$$;

-- All queues that have jobs or are paused, sorted. From one to the next along the index, however many jobs lie between them.
CREATE OR REPLACE FUNCTION {schema}.queue_names() RETURNS text[]
LANGUAGE sql STABLE AS $$
  WITH RECURSIVE listed AS (
    (SELECT j.queue COLLATE "POSIX" AS queue FROM {schema}.jobs j WHERE j.state COLLATE "POSIX" <> 'active'
      ORDER BY j.queue COLLATE "POSIX" LIMIT 1)
    UNION ALL
    SELECT (SELECT j.queue COLLATE "POSIX" FROM {schema}.jobs j WHERE j.state COLLATE "POSIX" <> 'active' AND j.queue COLLATE "POSIX" > l.queue
      ORDER BY j.queue COLLATE "POSIX" LIMIT 1)
    FROM listed l WHERE l.queue IS NOT NULL
  )
  SELECT coalesce(array_agg(n.queue ORDER BY n.queue COLLATE "C"), '{}') FROM (
    SELECT l.queue COLLATE "C" AS queue FROM listed l WHERE l.queue IS NOT NULL
    UNION
    SELECT j.queue FROM {schema}.jobs j WHERE j.state = 'active'
    UNION
    SELECT p.queue FROM {schema}.pauses p) n
$$;

-- How long the first of the waiting jobs of a queue has been due, in ms; NULL: none waits.
--
-- Jobs are due when they are added, or later: once one is found that was due before the next was even added, it is the oldest.
-- As a rule that is the first.
CREATE OR REPLACE FUNCTION {schema}.oldest_waiting(queue text, now float8) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
DECLARE
  job record;
  oldest float8;
BEGIN
  FOR job IN
    SELECT j.created_at, j.due_at FROM {schema}.jobs j
    WHERE j.queue COLLATE "POSIX" = oldest_waiting.queue AND j.state COLLATE "POSIX" = 'waiting' AND j.state COLLATE "POSIX" <> 'active'
    ORDER BY j.seq
  LOOP
    EXIT WHEN job.created_at >= oldest;
    oldest := least(oldest, job.due_at);
  END LOOP;
  RETURN greatest(0, now - oldest) + CASE WHEN oldest IS NULL THEN NULL ELSE 0 END;
END
$$;

-- What of a queue has not started, and what it runs under (jobs/backlog.ts): one look, without any lock.
CREATE OR REPLACE FUNCTION {schema}.read_backlog_{version}(of_queue text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8 := {schema}.present();
  types jsonb;
  names text[];
  waiting jsonb;
  kept jsonb;
  brought jsonb := '[]';
BEGIN
  -- Along the index of the state, and the latest thousand that were completed: for inspection, not on the path of a job.
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
  SELECT coalesce(jsonb_agg(to_jsonb(w)), '[]') INTO waiting FROM {schema}.waiting_jobs(now) w;
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
    'workers', {schema}.read_workers_{version}(of_queue),
    'pauses', (SELECT coalesce(jsonb_agg(p.type), '[]') FROM {schema}.pauses p WHERE p.queue = of_queue));
END
$$;

-- How many jobs wait, by queue and type. Those that have come due are among them, whether or not a claim came since. Along the indexes of
-- what waits: jobs that have ended cost nothing.
CREATE OR REPLACE FUNCTION {schema}.waiting_jobs(at float8)
RETURNS TABLE (queue text, type text, waiting bigint)
LANGUAGE sql STABLE AS $$
  SELECT w.queue, w.type, sum(w.n)::bigint FROM (
    SELECT j.queue, j.type, count(*) AS n FROM {schema}.jobs j
      WHERE j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL GROUP BY j.queue, j.type
    UNION ALL
    SELECT j.queue, j.type, count(*) FROM {schema}.jobs j
      WHERE j.state = 'waiting' AND coalesce(j.grp, j.keys) IS NOT NULL GROUP BY j.queue, j.type
    UNION ALL
    SELECT j.queue, j.type, count(*) FROM {schema}.jobs j
      WHERE j.state = 'scheduled' AND j.due_at <= at AND {schema}.has_passed(j.due_wall) GROUP BY j.queue, j.type
  ) w GROUP BY w.queue, w.type
$$;

-- How many jobs of a queue wait, by type and group, as a lane says it. Those that have come due are among them.
CREATE OR REPLACE FUNCTION {schema}.waiting_groups(of_queue text, at float8)
RETURNS TABLE (type text, grp text, waiting bigint)
LANGUAGE sql STABLE AS $$
  SELECT w.type, w.grp, sum(w.n)::bigint FROM (
    SELECT j.type, '' AS grp, count(*) AS n FROM {schema}.jobs j
      WHERE j.queue = of_queue AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL GROUP BY j.type
    UNION ALL
    SELECT j.type, coalesce(':' || j.grp, ''), count(*) FROM {schema}.jobs j
      WHERE j.queue = of_queue AND j.state = 'waiting' AND coalesce(j.grp, j.keys) IS NOT NULL GROUP BY j.type, j.grp
    UNION ALL
    SELECT j.type, coalesce(':' || j.grp, ''), count(*) FROM {schema}.jobs j
      WHERE j.queue = of_queue AND j.state = 'scheduled' AND j.due_at <= at AND {schema}.has_passed(j.due_wall) GROUP BY j.type, j.grp
  ) w GROUP BY w.type, w.grp
$$;

-- What waiting jobs of a type say that they weigh, by name: which part of them says so, and how much on average. Of the first
-- thousand that are found.
CREATE OR REPLACE FUNCTION {schema}.waiting_weights(of_queue text, of_type text, at float8) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  WITH seen AS MATERIALIZED (
    SELECT f.weights FROM (
      SELECT j.weights FROM {schema}.jobs j
        WHERE j.queue = of_queue AND j.type = of_type AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
      UNION ALL
      SELECT j.weights FROM {schema}.jobs j
        WHERE j.queue = of_queue AND j.type = of_type AND j.state = 'waiting' AND coalesce(j.grp, j.keys) IS NOT NULL
      UNION ALL
      SELECT j.weights FROM {schema}.jobs j
        WHERE j.queue = of_queue AND j.state = 'scheduled' AND j.due_at <= at AND {schema}.has_passed(j.due_wall) AND j.type = of_type
    ) f LIMIT 1000
  ), said AS (
    SELECT w.key, w.value::text::float8 AS weight
    FROM seen s, jsonb_each(CASE WHEN jsonb_typeof(s.weights) = 'object' THEN s.weights END) w
    WHERE jsonb_typeof(w.value) = 'number'
  )
  SELECT coalesce(jsonb_object_agg(t.key, jsonb_build_object(
      'part', t.count / (SELECT count(*) FROM seen)::float8, 'mean', t.sum / t.count)), '{}')
    FROM (SELECT key, sum(weight) AS sum, count(*)::float8 AS count FROM said GROUP BY key) t
$$;

-- The types of a queue of which jobs may wait, in order. From one type to the next along the indexes, however many jobs or lanes lie
-- between them. Names are not empty.
CREATE OR REPLACE FUNCTION {schema}.waiting_types(queue_name text) RETURNS text[]
LANGUAGE sql STABLE AS $$
  WITH RECURSIVE steps (type) AS (
    SELECT '' COLLATE "C"
    UNION ALL
    SELECT least(
      (SELECT j.type FROM {schema}.jobs j WHERE j.queue = queue_name AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
        AND j.type > s.type ORDER BY j.type LIMIT 1),
      (SELECT j.type FROM {schema}.jobs j WHERE j.queue = queue_name AND j.state = 'waiting' AND coalesce(j.grp, j.keys) IS NOT NULL
        AND j.type > s.type ORDER BY j.type LIMIT 1),
      (SELECT l.type FROM {schema}.lanes l WHERE l.queue = queue_name AND l.ready AND l.blocked_until IS NULL
        AND l.type > s.type ORDER BY l.type LIMIT 1),
      (SELECT g.type FROM {schema}.gates g WHERE g.queue = queue_name AND g.type > s.type ORDER BY g.type LIMIT 1))
    FROM steps s WHERE s.type IS NOT NULL
  )
  SELECT coalesce(array_agg(s.type), '{}') FROM steps s WHERE s.type <> ''
$$;
