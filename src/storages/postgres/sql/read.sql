-- What there is, for people: queues and their backlog, limits, workers, and why a job does not start.
--
-- Locks: none, but those of `show_due`.

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
  WITH everywhere AS MATERIALIZED (
    SELECT w.* FROM {schema}.waiting_jobs(now) w
  ), waiting AS (
    SELECT w.type, sum(w.waiting) AS n, count(*) AS groups, max(w.waiting) AS most
    FROM everywhere w WHERE w.queue = of_queue GROUP BY w.type
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
      coalesce(array_agg(type), '{}'), (SELECT coalesce(jsonb_agg(to_jsonb(e)), '[]')
        FROM (SELECT w.queue, w.type, sum(w.waiting) AS waiting FROM everywhere w GROUP BY w.queue, w.type) e)
    INTO types, names, waiting
    FROM waiting w FULL JOIN others o USING (type) LEFT JOIN ran r USING (type);
  SELECT coalesce(jsonb_agg(jsonb_build_object('stored', r.stored) || {schema}.read_states(r.rule, NULL, now)), '[]')
    INTO kept FROM {schema}.rules r
    WHERE ((r.fields).queues IS NULL OR of_queue = ANY ((r.fields).queues))
      AND cardinality(names) > 0 AND ((r.fields).types IS NULL OR (r.fields).types && names);
  IF cardinality(names) > 0 THEN
    SELECT coalesce(jsonb_agg(jsonb_build_object('claim', c.value) || {schema}.read_states(jsonb_build_object(
        'name', c.value ->> 'key', 'byGroup', false, 'quota', c.value), NULL, now) ORDER BY c.ordinality), '[]')
      INTO brought FROM {schema}.claims q, jsonb_array_elements(q.limits) WITH ORDINALITY c WHERE q.queue = of_queue;
  END IF;
  RETURN jsonb_build_object('skew', {schema}.skew(), 'types', types, 'waiting', waiting, 'limits', kept || brought,
    'workers', {schema}.read_workers_{version}(of_queue),
    'pauses', (SELECT coalesce(jsonb_agg(p.type), '[]') FROM {schema}.pauses p WHERE p.queue = of_queue));
END
$$;

-- How many jobs wait, by queue, type and group, as a lane says it. Those that have come due are among them, whether or not a claim came
-- since. Along the indexes of what waits: jobs that have ended cost nothing.
CREATE OR REPLACE FUNCTION {schema}.waiting_jobs(at float8)
RETURNS TABLE (queue text, type text, grp text, waiting bigint)
LANGUAGE sql STABLE AS $$
  SELECT w.queue, w.type, w.grp, sum(w.n)::bigint FROM (
    SELECT j.queue, j.type, '' AS grp, count(*) AS n FROM {schema}.jobs j
      WHERE j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL GROUP BY j.queue, j.type
    UNION ALL
    SELECT j.queue, j.type, coalesce(':' || j.grp, ''), count(*) FROM {schema}.jobs j
      WHERE j.state = 'waiting' AND coalesce(j.grp, j.keys) IS NOT NULL GROUP BY j.queue, j.type, j.grp
    UNION ALL
    SELECT j.queue, j.type, coalesce(':' || j.grp, ''), count(*) FROM {schema}.jobs j
      WHERE j.state = 'scheduled' AND j.due_at <= at AND {schema}.has_passed(j.due_wall) GROUP BY j.queue, j.type, j.grp
  ) w GROUP BY w.queue, w.type, w.grp
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

-- What there is of limits, by name, and what waits in all queues (limits/reading.ts): one look, without any lock.
--
-- wanted: one limit, or NULL. asked: of limits by group this group, or NULL.
CREATE OR REPLACE FUNCTION {schema}.read_limits_{version}(wanted text, asked text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8 := {schema}.present();
  waiting jsonb;
  limits jsonb;
BEGIN
  SELECT coalesce(jsonb_agg(to_jsonb(w)), '[]') INTO waiting
    FROM (SELECT j.queue, j.type, sum(j.waiting) AS waiting FROM {schema}.waiting_jobs(now) j GROUP BY j.queue, j.type) w;
  SELECT coalesce(jsonb_agg(jsonb_build_object('stored', r.stored) || {schema}.read_states(r.rule, asked, now)
      ORDER BY r.name), '[]')
    INTO limits FROM {schema}.rules r WHERE wanted IS NULL OR r.name = wanted;
  RETURN jsonb_build_object('skew', {schema}.skew(), 'waiting', waiting, 'limits', limits)::text;
END
$$;

-- What is kept of a limit, of how many groups, for people: of the group that is asked for, or of those that were used last,
-- a hundred at the most.
--
-- rule: as it is in force. asked: a group, or NULL. at: now.
CREATE OR REPLACE FUNCTION {schema}.read_states(rule jsonb, asked text, at float8) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
  limit_name text := rule ->> 'name';
  by_group boolean := (rule ->> 'byGroup')::boolean;
  known bigint;
  grps text[];
  states jsonb;
BEGIN
  SELECT count(*) INTO known FROM {schema}.limits WHERE name = limit_name AND (grp <> '') = by_group;
  IF NOT by_group THEN
    grps := ARRAY[''];
  ELSIF asked IS NOT NULL THEN
    grps := ARRAY[':' || asked];
  ELSE
    SELECT array_agg(l.grp ORDER BY l.grp <> '-', l.latest_at DESC NULLS LAST, l.id DESC) INTO grps FROM (
      SELECT id, grp, latest_at FROM {schema}.limits WHERE name = limit_name AND grp <> ''
      ORDER BY grp <> '-', latest_at DESC NULLS LAST, id DESC LIMIT 100
    ) l;
  END IF;
  SELECT coalesce(jsonb_agg({schema}.read_state(limit_name, g.grp, (g.quota ->> 'windowMs')::float8,
      (g.quota ->> 'max')::float8, 1, 0, at) || jsonb_build_object('grp', g.grp) ORDER BY g.place), '[]')
    INTO states FROM (
      SELECT grp, place, (rule -> 'quota') || CASE WHEN left(grp, 1) = ':' THEN coalesce(rule -> 'groups' -> substr(grp, 2), '{}')
        ELSE '{}' END AS quota
      FROM unnest(grps) WITH ORDINALITY AS u (grp, place)
    ) g;
  RETURN jsonb_build_object('groups', known, 'states', states);
END
$$;

-- What is kept of a limit, for one group or for all, as a reader sees it (limits/kept-key.ts): its row, what is in use
-- of the window and what leaves it first, and what is held.
--
-- limit_name, state_grp: whose. window_ms, most: its window, or NULL. more: what is asked for, when `ahead` others have
-- started: as many of the starts that leave the window are told as decide about that. at: now.
CREATE OR REPLACE FUNCTION {schema}.read_state(
  limit_name text, state_grp text, window_ms float8, most float8, more float8, ahead float8, at float8
) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
  kept {schema}.limits;
  moment float8;
  used float8 := 0;
  needed float8;
  leaving json;
  held record;
BEGIN
  SELECT * INTO kept FROM {schema}.limits l WHERE l.name = limit_name AND l.grp = state_grp;
  -- Whatever is decided comes after all that is known.
  moment := greatest(at, kept.newest, kept.latest_at);
  IF window_ms IS NOT NULL AND most IS NOT NULL THEN
    used := {schema}.window_used(kept.id, kept.window_ms, kept.used, kept.seen_at, window_ms, moment);
    needed := greatest(0, used + more - most) + ahead;
    leaving := {schema}.leaving_list(kept.id, window_ms, needed, moment);
  END IF;
  held := {schema}.slots_in_use(kept.id, kept.held, kept.open_until, moment);
  RETURN jsonb_build_object('now', moment, 'row', CASE WHEN kept.id IS NOT NULL THEN to_jsonb(kept) END, 'used', used,
    'leaving', coalesce(leaving, '[]'), 'slots', held.slots, 'probes', held.probes, 'expiresIn', nullif(held.expires_in, 'Infinity'));
END
$$;

-- Everything that decides when a job can start (jobs/explain.ts): one look, without any lock. NULL: there is no such job.
--
-- Of each limit what is kept (read_state), and how long the job waits for jobs that wait for the limit already and come before it (`behind`;
-- NULL: until something is given back).
CREATE OR REPLACE FUNCTION {schema}.explain_job_{version}(job_id text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8 := {schema}.present();
  skew float8 := {schema}.skew();
  own {schema}.jobs;
  -- The same, with the due_at by which it is ordered: where it will be, if it backs off.
  place {schema}.jobs;
  around jsonb;
  lane record;
  -- So many may take of a limit before it, at the most.
  before float8 := 0;
  -- The first of its lane, if that is another one.
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
    around := {schema}.surroundings_of(place, now);
    before := least(10000, (around ->> 'higherOfType')::float8
      + (SELECT coalesce(sum((l.value ->> 2)::float8), 0) FROM jsonb_array_elements((around -> 'own') || (around -> 'others')) l));
  END IF;
  SELECT * INTO lane FROM jsonb_to_record(nullif(around -> 'lane', 'null')) AS l (id bigint, heavy bigint, "by" text, state text, since float8);
  IF EXISTS (SELECT FROM jsonb_array_elements(around -> 'own') l WHERE (l.value ->> 3)::boolean AND l.value ->> 2 <> '0') THEN
    first := jsonb_build_object('weights', (SELECT f.weights FROM (
      SELECT j.weights, j.due_at, j.seq FROM {schema}.first_jobs(own.queue, own.type, own.priority,
        coalesce({schema}.lane_of(own.grp, own.keys), ''), 1, '-Infinity', '{}') j
      UNION ALL
      (SELECT j.weights, coalesce(j.first_due_at, j.due_at), j.seq FROM {schema}.jobs j
        WHERE j.queue = own.queue AND j.state = 'scheduled' AND j.due_at <= now AND {schema}.has_passed(j.due_wall) AND j.type = own.type
          AND j.priority = own.priority AND j.grp IS NOT DISTINCT FROM own.grp AND j.keys IS NOT DISTINCT FROM own.keys ORDER BY 2, 3 LIMIT 1)
    ) f ORDER BY f.due_at, f.seq LIMIT 1));
  END IF;
  SELECT coalesce(jsonb_agg(jsonb_build_object('rule', r.rule, 'state', s.state, 'behind',
      CASE WHEN (r.fields).weight IS NULL THEN 0 ELSE nullif({schema}.heavy_wait(r.name, k.grp, own.priority, coalesce(lane.id, 0),
        CASE WHEN lane.heavy IS NOT NULL AND lane."by" = r.name AND lane.state = k.grp THEN lane.since ELSE 'Infinity' END,
        (s.state ->> 'now')::float8, true), 'Infinity') END) ORDER BY r.name), '[]')
    INTO kept FROM {schema}.rules r
      CROSS JOIN LATERAL (SELECT {schema}.state_of(r.fields, own.grp, own.keys) AS grp OFFSET 0) k
      CROSS JOIN LATERAL {schema}.quota_of(r.fields, {schema}.group_of(k.grp)) AS quota
      CROSS JOIN LATERAL (SELECT {schema}.read_state(r.name, k.grp, quota.window_ms, quota.max,
        greatest(({schema}.charge_of(r.fields, own.weights)).weight, ({schema}.charge_of(r.fields, first -> 'weights')).weight),
        before, now) AS state OFFSET 0) s
    WHERE ((r.fields).queues IS NULL OR own.queue = ANY ((r.fields).queues))
      AND ((r.fields).types IS NULL OR own.type = ANY ((r.fields).types));
  SELECT coalesce(jsonb_agg(jsonb_build_object('claim', c.value, 'behind', 0, 'state', {schema}.read_state(c.value ->> 'key', '',
      (c.value ->> 'windowMs')::float8, (c.value ->> 'max')::float8, 1, before, now)) ORDER BY c.ordinality), '[]')
    INTO brought FROM {schema}.claims q, jsonb_array_elements(q.limits) WITH ORDINALITY c WHERE q.queue = own.queue;
  IF own.state = 'scheduled' AND own.due_at <= now AND {schema}.has_passed(own.due_wall) THEN
    own := place;
  END IF;
  RETURN jsonb_build_object('now', now, 'around', around, 'skew', skew, 'job', {schema}.job_json(own, skew), 'first', first,
    'workers', {schema}.read_workers_{version}(own.queue),
    'pauses', (SELECT coalesce(jsonb_agg(p.type), '[]') FROM {schema}.pauses p WHERE p.queue = own.queue),
    'limits', kept || brought);
END
$$;

-- What waits around a job that waits, or will (planner/position.ts): as if all that have come due waited, and all that wait had a lane, though
-- a claim opens it only when it has to. A lane that does not exist yet comes after those that do, by its first job. Of each kind of job up
-- to 10,000 are counted.
--
-- own: the job. at: now. higher, higherOfType: how many jobs of higher priorities wait; own: [turn, id, how many come before the job, whether
-- it is the job's] for each lane of its group; others: [turn, id, how many wait, whether jobs of other types wait as well] for each other
-- group; lane: its lane, if there is one: its id, the job that is too heavy for a limit (`heavy`), for which (`by`), and since when.
CREATE OR REPLACE FUNCTION {schema}.surroundings_of(own {schema}.jobs, at float8) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  WITH RECURSIVE types AS MATERIALIZED (
    SELECT t.type FROM unnest({schema}.waiting_types(own.queue)) AS t (type)
  ), due AS MATERIALIZED (
    -- Scheduled jobs of this priority or a higher one that have come due and do not wait in a lane yet.
    SELECT d.type, d.priority, coalesce(':' || d.grp, '') AS grp, coalesce(d.keys, '') AS keys, d.due_at, d.seq FROM (
      SELECT j.type, j.priority, j.grp, j.keys, coalesce(j.first_due_at, j.due_at) AS due_at, j.seq FROM {schema}.jobs j
      WHERE j.queue = own.queue AND j.state = 'scheduled' AND j.due_at <= at AND {schema}.has_passed(j.due_wall)
      ORDER BY j.due_at LIMIT 10000
    ) d WHERE d.priority >= own.priority
  ), grouped AS (
    -- The groups and keys that jobs of its priority wait with: from one lane to the next along the index.
    SELECT t.type, n.grp, n.keys FROM types t CROSS JOIN LATERAL (SELECT j.grp, j.keys FROM {schema}.jobs j
      WHERE j.queue = own.queue AND j.type = t.type AND j.priority = own.priority AND j.state = 'waiting'
        AND coalesce(j.grp, j.keys) IS NOT NULL
      ORDER BY {schema}.lane_of(j.grp, j.keys) LIMIT 1) n
    UNION ALL
    SELECT l.type, n.grp, n.keys FROM grouped l CROSS JOIN LATERAL (SELECT j.grp, j.keys FROM {schema}.jobs j
      WHERE j.queue = own.queue AND j.type = l.type AND j.priority = own.priority AND j.state = 'waiting'
        AND coalesce(j.grp, j.keys) IS NOT NULL AND {schema}.lane_of(j.grp, j.keys) > {schema}.lane_of(l.grp, l.keys)
      ORDER BY {schema}.lane_of(j.grp, j.keys) LIMIT 1) n
  ), known AS (
    SELECT f.type, coalesce(':' || f.grp, '') AS grp, coalesce(f.keys, '') AS keys FROM (SELECT * FROM grouped LIMIT 10000) f
    UNION
    SELECT t.type, o.grp, o.keys FROM types t, (VALUES ('', ''), (coalesce(':' || own.grp, ''), coalesce(own.keys, ''))) AS o (grp, keys)
  ), places AS (
    SELECT k.type, k.grp, k.keys, w.waiting, w.before, w.first FROM known k CROSS JOIN LATERAL (
      SELECT count(*) AS waiting, count(*) FILTER (WHERE (j.due_at, j.seq) < (own.due_at, own.seq)) AS before, (array_agg(j.seq))[1] AS first
      FROM {schema}.first_jobs(own.queue, k.type, own.priority, k.keys || k.grp, 10000, '-Infinity', '{}') j) w
    UNION ALL
    SELECT d.type, d.grp, d.keys, count(*), count(*) FILTER (WHERE (d.due_at, d.seq) < (own.due_at, own.seq)), min(d.seq)
    FROM due d WHERE d.priority = own.priority GROUP BY d.type, d.grp, d.keys
  ), present AS (
    SELECT p.type, p.grp, p.grp = coalesce(':' || own.grp, '') AS is_group,
      p.grp = coalesce(':' || own.grp, '') AND p.keys = coalesce(own.keys, '') AND p.type = own.type AS is_own, p.waiting, p.before,
      coalesce(l.turn, (SELECT max(u.turn) FROM {schema}.lanes u WHERE u.queue = own.queue AND u.priority = own.priority
        AND u.grp = p.grp), 0) AS turn, coalesce(l.id, 1e15 + p.first) AS id,
      coalesce({schema}.blocked_until(l::{schema}.lanes) <= at, l.blocked_until IS NULL)
        AND NOT EXISTS (SELECT FROM {schema}.pauses u WHERE u.queue = own.queue AND u.type = ':' || p.type) AS ready,
      l.id AS lane, l.heavy, l.blocked_by, l.blocked_grp, l.heavy_since
    FROM (SELECT type, grp, keys, sum(waiting) AS waiting, sum(before) AS before, min(first) AS first FROM places
      GROUP BY type, grp, keys) p
    LEFT JOIN LATERAL (SELECT k.* FROM {schema}.lanes k WHERE k.queue = own.queue AND k.priority = own.priority
      AND k.grp = p.grp AND k.keys = p.keys AND k.type = p.type LIMIT 1) l ON true
    WHERE p.waiting > 0
  ), others AS (
    SELECT (array_agg(p.turn ORDER BY p.turn, p.id) FILTER (WHERE p.ready))[1] AS turn,
      (array_agg(p.id ORDER BY p.turn, p.id) FILTER (WHERE p.ready))[1] AS id,
      sum(p.waiting) FILTER (WHERE p.ready) AS waiting, bool_or(p.type <> own.type) AS mixed
    FROM present p WHERE NOT p.is_group GROUP BY p.grp
  ), higher AS (
    SELECT t.type, (SELECT count(*) FROM (SELECT FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = t.type
      AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL AND j.priority > own.priority LIMIT 10000) w) AS n FROM types t
    UNION ALL
    SELECT t.type, (SELECT count(*) FROM (SELECT FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = t.type
      AND j.state = 'waiting' AND coalesce(j.grp, j.keys) IS NOT NULL AND j.priority > own.priority LIMIT 10000) w) FROM types t
    UNION ALL
    SELECT d.type, count(*) FROM due d WHERE d.priority > own.priority GROUP BY d.type
  )
  SELECT jsonb_build_object(
    'higher', (SELECT coalesce(sum(h.n), 0) FROM higher h),
    'higherOfType', (SELECT coalesce(sum(h.n), 0) FROM higher h WHERE h.type = own.type),
    'own', (SELECT coalesce(jsonb_agg(jsonb_build_array(p.turn, p.id, p.before, p.is_own)), '[]') FROM present p WHERE p.is_group),
    'others', (SELECT coalesce(jsonb_agg(jsonb_build_array(o.turn, o.id, o.waiting, o.mixed)), '[]') FROM others o WHERE o.waiting > 0),
    'lane', (SELECT jsonb_build_object('id', p.lane, 'heavy', p.heavy, 'by', p.blocked_by, 'state', p.blocked_grp, 'since', p.heavy_since)
      FROM present p WHERE p.is_own AND p.lane IS NOT NULL))
$$;

-- Registers workers as live for ttl_ms from now, or again, and removes those that are gone.
--
-- entries: [{id, queue, info, upMs}]. gone: [id]. Answer: {first}: one of the entries is the live worker that began first.
CREATE OR REPLACE FUNCTION {schema}.register_workers_{version}(entries jsonb, ttl_ms float8, gone jsonb) RETURNS json
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8 := {schema}.present();
BEGIN
  DELETE FROM {schema}.workers w WHERE w.id IN (SELECT jsonb_array_elements_text(gone));
  INSERT INTO {schema}.workers AS w (id, queue, info, since, seen_at, until)
    SELECT e ->> 'id', e ->> 'queue', e ->> 'info', now - (e ->> 'upMs')::float8, now, now + ttl_ms
    FROM jsonb_array_elements(entries) AS e ORDER BY e ->> 'id' COLLATE "C"
    ON CONFLICT ON CONSTRAINT workers_pkey DO UPDATE
      SET queue = excluded.queue, info = excluded.info, seen_at = excluded.seen_at, until = excluded.until;
  RETURN json_build_object('first', EXISTS (
    SELECT FROM (SELECT w.id FROM {schema}.workers w WHERE w.until > now ORDER BY w.since, w.id LIMIT 1) AS f
    WHERE f.id IN (SELECT e ->> 'id' FROM jsonb_array_elements(entries) AS e)));
END
$$;

-- The live workers of a queue, or of all (NULL), the one that began first in front: [{id, queue, info, since, seenAt}].
CREATE OR REPLACE FUNCTION {schema}.read_workers_{version}(of_queue text) RETURNS jsonb
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(jsonb_agg(jsonb_build_object('id', w.id, 'queue', w.queue, 'info', w.info, 'since', w.since - {schema}.skew(),
      'seenAt', w.seen_at - {schema}.skew()) ORDER BY w.since, w.id), '[]')
    FROM {schema}.workers w WHERE w.until > {schema}.present() AND (of_queue IS NULL OR w.queue = of_queue)
$$;

-- Of each queue the types of which jobs wait, and what is paused; and all live workers (workers.ts).
--
-- Of jobs that have come due and are not shown as such yet the first thousand are looked at. Lanes are not asked: one may be ready
-- though its last job was cancelled, until a claim looks at it.
CREATE OR REPLACE FUNCTION {schema}.read_waiting_types_{version}() RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
  SET jit = off SET enable_seqscan = off AS $$
DECLARE
  now float8 := {schema}.present();
BEGIN
  RETURN json_build_object('workers', {schema}.read_workers_{version}(NULL), 'queues', (
    SELECT coalesce(json_agg(json_build_object('queue', n.name,
      'pauses', (SELECT coalesce(json_agg(p.type), '[]') FROM {schema}.pauses p WHERE p.queue = n.name),
      'types', (SELECT coalesce(json_agg(w.type ORDER BY w.type), '[]') FROM (
        SELECT t.type FROM unnest({schema}.waiting_types(n.name)) AS t (type)
        WHERE EXISTS (SELECT FROM {schema}.jobs j
            WHERE j.queue = n.name AND j.type = t.type AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL)
          OR EXISTS (SELECT FROM {schema}.jobs j
            WHERE j.queue = n.name AND j.type = t.type AND j.state = 'waiting' AND coalesce(j.grp, j.keys) IS NOT NULL)
        UNION
        SELECT d.type FROM (SELECT j.type FROM {schema}.jobs j
          WHERE j.queue = n.name AND j.state = 'scheduled' AND j.due_at <= now AND {schema}.has_passed(j.due_wall) ORDER BY j.due_at LIMIT 1000) AS d) AS w)
      ) ORDER BY n.no), '[]')
    FROM unnest({schema}.queue_names()) WITH ORDINALITY AS n (name, no)));
END
$$;
