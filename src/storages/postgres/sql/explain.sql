-- Why a job does not start: `job.explain()`. No locks.

-- Everything that decides when a job can start (jobs/explain.ts): one look, without any lock. NULL: there is no such job.
CREATE OR REPLACE FUNCTION {schema}.explain_job_{version}(job_id text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8 := {schema}.present();
  skew float8 := {schema}.skew();
  own {schema}.jobs;
  -- The same, with the due_at by which it is ordered: where it will be, if it backs off.
  place {schema}.jobs;
  standing jsonb := '{"ahead": {"higher": 0, "group": 0, "lane": 0, "turns": 0}, "before": {"lane": 0, "type": 0}, "lane": null}';
  ahead float8;
  -- So many may take of a limit before it.
  before float8;
  first jsonb;
  kept jsonb;
  brought jsonb;
BEGIN
  SELECT * INTO own FROM {schema}.jobs j WHERE j.id = job_id;
  IF own.id IS NULL THEN
    RETURN NULL;
  END IF;
  IF own.state IN ('waiting', 'scheduled') THEN
    place := own;
    place.due_at := coalesce(own.first_due_at, own.due_at);
    standing := {schema}.standing_of(place, now);
  END IF;
  ahead := (standing -> 'ahead' ->> 'lane')::float8;
  before := (standing -> 'before' ->> 'type')::float8;
  IF ahead > 0 THEN
    first := jsonb_build_object('weights', {schema}.head_weights(own, now));
  END IF;
  SELECT coalesce(jsonb_agg(jsonb_build_object('rule', r.rule)
      || {schema}.seen_standing(r.fields, own, standing -> 'lane', first -> 'weights', before, now)
      ORDER BY r.name), '[]')
    INTO kept FROM {schema}.rules r
    WHERE ((r.fields).queues IS NULL OR own.queue = ANY ((r.fields).queues))
      AND ((r.fields).types IS NULL OR own.type = ANY ((r.fields).types));
  SELECT coalesce(jsonb_agg(jsonb_build_object('claim', c.value, 'behind', 0, 'seen', {schema}.seen_limit(c.value ->> 'key', '',
      (c.value ->> 'windowMs')::float8, (c.value ->> 'max')::float8, 1, before, now)) ORDER BY c.ordinality), '[]')
    INTO brought FROM {schema}.claims q, jsonb_array_elements(q.limits) WITH ORDINALITY c WHERE q.queue = own.queue;
  IF own.state = 'scheduled' AND own.due_at <= now AND {schema}.has_passed(own.due_wall) THEN
    own := place;
  END IF;
  RETURN standing || jsonb_build_object('now', now, 'skew', skew, 'job', {schema}.job_json(own, skew), 'first', first,
    'workers', {schema}.read_workers_{version}(own.queue),
    'pauses', (SELECT coalesce(jsonb_agg(p.type), '[]') FROM {schema}.pauses p WHERE p.queue = own.queue),
    'limits', kept || brought);
END
$$;

-- How many jobs start before one that waits, or will, if nothing keeps them back (Standing in storage/limit-storage.ts): as if
-- all that have come due waited, and all that wait had a lane, though a claim opens it only when it has to. One that does not exist
-- yet would be where its unit is, behind those that do.
--
-- own: the job. at: now. Answers with `ahead`, with `before` (limits/behind.ts), and with its lane, if there is one: its id, the job that is too heavy for a
-- limit (`heavy`), for which (`by`), and since when.
CREATE OR REPLACE FUNCTION {schema}.standing_of(own {schema}.jobs, at float8) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  WITH types AS MATERIALIZED (
    SELECT t.type FROM unnest({schema}.waiting_types(own.queue)) AS t (type)
  ), due AS MATERIALIZED (
    -- Scheduled jobs of this priority or a higher one that have come due and do not wait in a lane yet. Up to 10,000.
    SELECT d.type, d.priority, coalesce(':' || d.grp, '') AS grp, coalesce(d.keys, '') AS keys, d.due_at, d.seq FROM (
      SELECT j.type, j.priority, j.grp, j.keys, coalesce(j.first_due_at, j.due_at) AS due_at, j.seq FROM {schema}.jobs j
      WHERE j.queue = own.queue AND j.state = 'scheduled' AND j.due_at <= at AND {schema}.has_passed(j.due_wall)
      ORDER BY j.due_at LIMIT 10000
    ) d WHERE d.priority >= own.priority
  ), open AS MATERIALIZED (
    -- Jobs without a group and keys that wait, by type: how many of a higher priority; of the same; of these, how many come before; and which
    -- is the first of them. Up to 10,000 of each.
    SELECT t.type,
      (SELECT count(*) FROM (SELECT FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = t.type AND j.state = 'waiting'
        AND j.grp IS NULL AND j.keys IS NULL AND j.priority > own.priority LIMIT 10000) h) AS higher,
      (SELECT count(*) FROM (SELECT FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = t.type AND j.state = 'waiting'
        AND j.grp IS NULL AND j.keys IS NULL AND j.priority = own.priority LIMIT 10000) w) AS waiting,
      (SELECT count(*) FROM (SELECT FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = t.type AND j.state = 'waiting'
        AND j.grp IS NULL AND j.keys IS NULL AND j.priority = own.priority AND (j.due_at, j.seq) < (own.due_at, own.seq)
        LIMIT 10000) b) AS before,
      (SELECT j.seq FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = t.type AND j.state = 'waiting'
        AND j.grp IS NULL AND j.keys IS NULL AND j.priority = own.priority ORDER BY j.due_at, j.seq LIMIT 1) AS first
    FROM types t
  ), places AS (
    SELECT g.type, g.grp, g.keys, g.waiting, g.before, g.first FROM {schema}.waiting_grouped(own) g
    UNION ALL
    SELECT o.type, '', '', o.waiting, o.before, o.first FROM open o
    UNION ALL
    SELECT d.type, d.grp, d.keys, count(*), count(*) FILTER (WHERE (d.due_at, d.seq) < (own.due_at, own.seq)), min(d.seq)
    FROM due d WHERE d.priority = own.priority GROUP BY d.type, d.grp, d.keys
  ), present AS (
    SELECT p.type, p.grp, p.keys = coalesce(own.keys, '') AS is_alike, p.grp = coalesce(':' || own.grp, '') AS is_own, p.waiting, p.before,
      coalesce(l.turn, (SELECT max(u.turn) FROM {schema}.lanes u WHERE u.queue = own.queue AND u.priority = own.priority
        AND u.grp = p.grp), 0)::float8 AS turn,
      coalesce(l.id::float8, 'Infinity') AS id, coalesce(p.first, 0) AS first,
      coalesce({schema}.blocked_until(l::{schema}.lanes) <= at, l.blocked_until IS NULL) AS free, l.heavy, l.blocked_by, l.blocked_grp,
      l.heavy_since
    FROM (SELECT type, grp, keys, sum(waiting) AS waiting, sum(before) AS before, min(first) AS first FROM places
      GROUP BY type, grp, keys) p
    LEFT JOIN LATERAL (SELECT k.* FROM {schema}.lanes k WHERE k.queue = own.queue AND k.priority = own.priority
      AND k.grp = p.grp AND k.keys = p.keys AND k.type = p.type LIMIT 1) l ON true
    WHERE p.waiting > 0
  ), speaker AS (
    -- The lane that was served the longest ago decides for its group. Where there is none, all that never were come first.
    SELECT turn, id, first FROM (
      SELECT turn, id, first FROM present WHERE is_own
      UNION ALL SELECT 0, 'Infinity', 9223372036854775807 WHERE NOT EXISTS (SELECT FROM present WHERE is_own)
    ) s ORDER BY turn, id, first LIMIT 1
  ), mine AS (
    SELECT coalesce(sum(before), 0) AS unit, coalesce(sum(before) FILTER (WHERE type = own.type AND is_alike), 0) AS lane
    FROM present WHERE is_own
  ), others AS (
    -- Every other group has its turn as often as the job's own does before it; once more, if it is the other's turn first.
    SELECT least(sum(p.waiting),
      (SELECT unit FROM mine) + CASE WHEN bool_or((p.turn, p.id, p.first) < (s.turn, s.id, s.first)) THEN 1 ELSE 0 END) AS turns
    FROM present p, speaker s
    WHERE NOT p.is_own AND p.free
      AND NOT EXISTS (SELECT FROM {schema}.pauses u WHERE u.queue = own.queue AND u.type = ':' || p.type)
    GROUP BY p.grp
  ), alike AS (
    -- The same of its own type alone, which every worker that handles the job asks for: of groups where nothing else waits.
    SELECT least(sum(p.waiting),
      (SELECT lane FROM mine) + CASE WHEN bool_or((p.turn, p.id, p.first) < (s.turn, s.id, s.first)) THEN 1 ELSE 0 END) AS turns
    FROM present p, speaker s
    WHERE NOT p.is_own AND p.free
    GROUP BY p.grp HAVING bool_and(p.type = own.type)
  ), above AS (
    SELECT (SELECT count(*) FROM (SELECT FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = own.type
        AND j.state = 'waiting' AND coalesce(j.grp, j.keys) IS NOT NULL AND j.priority > own.priority LIMIT 10000) w)
      + coalesce((SELECT sum(o.higher) FROM open o WHERE o.type = own.type), 0)
      + (SELECT count(*) FROM due d WHERE d.priority > own.priority AND d.type = own.type) AS n
  ), higher AS (
    SELECT coalesce(sum(n), 0) AS n FROM (
      SELECT (SELECT count(*) FROM (SELECT FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = t.type
        AND j.state = 'waiting' AND coalesce(j.grp, j.keys) IS NOT NULL AND j.priority > own.priority LIMIT 10000) w) AS n
      FROM types t
      UNION ALL SELECT o.higher FROM open o
      UNION ALL SELECT count(*) FROM due d WHERE d.priority > own.priority
    ) h
  )
  SELECT jsonb_build_object(
    'before', (SELECT jsonb_build_object('lane', least(10000, m.lane), 'type', least(10000,
      m.lane + a.n + (SELECT coalesce(sum(turns), 0) FROM alike))) FROM mine m, above a),
    'ahead', (SELECT jsonb_build_object('higher', least(10000, h.n), 'group', least(10000, m.unit), 'lane', least(10000, m.lane),
      'turns', least(10000, (SELECT coalesce(sum(turns), 0) FROM others))) FROM higher h, mine m),
    'lane', (SELECT jsonb_build_object('id', p.id, 'heavy', p.heavy, 'by', p.blocked_by, 'state', p.blocked_grp, 'since', p.heavy_since)
      FROM present p WHERE p.is_own AND p.is_alike AND p.type = own.type AND p.id < 'Infinity'))
$$;

-- Jobs with a group or keys that wait in the priority of a job, by type, group and keys: how many; in its own group how many of them come
-- before it; and which is the first of them. Up to 10,000 of each, in up to 10,000 lanes: from one lane to the next along the index.
--
-- grp, keys: as a lane says it.
CREATE OR REPLACE FUNCTION {schema}.waiting_grouped(own {schema}.jobs)
RETURNS TABLE (type text, grp text, keys text, waiting bigint, before bigint, first bigint)
LANGUAGE sql STABLE AS $$
  WITH RECURSIVE types AS MATERIALIZED (
    SELECT t.type FROM unnest({schema}.waiting_types(own.queue)) AS t (type)
  ), lanes AS (
    SELECT t.type, n.grp, n.keys FROM types t CROSS JOIN LATERAL (SELECT j.grp, j.keys FROM {schema}.jobs j
      WHERE j.queue = own.queue AND j.type = t.type AND j.priority = own.priority AND j.state = 'waiting'
        AND coalesce(j.grp, j.keys) IS NOT NULL
      ORDER BY {schema}.lane_of(j.grp, j.keys) LIMIT 1) n
    UNION ALL
    SELECT l.type, n.grp, n.keys FROM lanes l CROSS JOIN LATERAL (SELECT j.grp, j.keys FROM {schema}.jobs j
      WHERE j.queue = own.queue AND j.type = l.type AND j.priority = own.priority AND j.state = 'waiting'
        AND coalesce(j.grp, j.keys) IS NOT NULL AND {schema}.lane_of(j.grp, j.keys) > {schema}.lane_of(l.grp, l.keys)
      ORDER BY {schema}.lane_of(j.grp, j.keys) LIMIT 1) n
  ), known AS (
    SELECT t.type, own.grp AS grp, own.keys AS keys FROM types t WHERE num_nonnulls(own.grp, own.keys) > 0
    UNION
    SELECT f.type, f.grp, f.keys FROM (SELECT l.type, l.grp, l.keys FROM lanes l LIMIT 10000) f
  )
  SELECT k.type, coalesce(':' || k.grp, ''), coalesce(k.keys, ''),
    (SELECT count(*) FROM (SELECT FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = k.type AND j.priority = own.priority
      AND j.state = 'waiting' AND {schema}.in_lane(j.grp, j.keys, {schema}.lane_of(k.grp, k.keys)) LIMIT 10000) w),
    CASE WHEN k.grp IS NOT DISTINCT FROM own.grp THEN (SELECT count(*) FROM (SELECT FROM {schema}.jobs j
      WHERE j.queue = own.queue AND j.type = k.type AND j.priority = own.priority AND j.state = 'waiting'
        AND {schema}.in_lane(j.grp, j.keys, {schema}.lane_of(k.grp, k.keys)) AND (j.due_at, j.seq) < (own.due_at, own.seq)
      LIMIT 10000) b) ELSE 0 END,
    (SELECT j.seq FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = k.type AND j.priority = own.priority
      AND j.state = 'waiting' AND {schema}.in_lane(j.grp, j.keys, {schema}.lane_of(k.grp, k.keys)) ORDER BY j.due_at, j.seq LIMIT 1)
  FROM known k
$$;

-- What the first of the jobs weighs that wait with this one: of its queue, type, priority, group and keys.
--
-- own: the job. at: now: what has come due waits.
CREATE OR REPLACE FUNCTION {schema}.head_weights(own {schema}.jobs, at float8) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT f.weights FROM (
    (SELECT j.weights, j.due_at, j.seq FROM {schema}.jobs j
      WHERE j.queue = own.queue AND j.type = own.type AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
        AND j.priority = own.priority AND own.grp IS NULL AND own.keys IS NULL ORDER BY j.due_at, j.seq LIMIT 1)
    UNION ALL
    (SELECT j.weights, j.due_at, j.seq FROM {schema}.jobs j
      WHERE j.queue = own.queue AND j.type = own.type AND j.state = 'waiting'
        AND j.priority = own.priority AND {schema}.in_lane(j.grp, j.keys, {schema}.lane_of(own.grp, own.keys)) ORDER BY j.due_at, j.seq LIMIT 1)
    UNION ALL
    (SELECT j.weights, coalesce(j.first_due_at, j.due_at), j.seq FROM {schema}.jobs j
      WHERE j.queue = own.queue AND j.state = 'scheduled' AND j.due_at <= at AND {schema}.has_passed(j.due_wall) AND j.type = own.type
        AND j.priority = own.priority AND j.grp IS NOT DISTINCT FROM own.grp AND j.keys IS NOT DISTINCT FROM own.keys ORDER BY 2, 3 LIMIT 1)
  ) f ORDER BY f.due_at, f.seq LIMIT 1
$$;
