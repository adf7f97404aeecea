-- Lanes: the jobs of one queue, type, priority, group and keys that wait. Which are there, ready, or blocked by a limit.

-- The lane that jobs of this group and keys wait in, in the words of the index jobs_lanes; NULL: they have neither, and need none.
-- A row of `lanes` says the same as keys || grp.
CREATE OR REPLACE FUNCTION {schema}.lane_of(grp text, keys text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN keys IS NULL THEN ':' || grp ELSE keys || coalesce(':' || grp, '') END
$$;

-- Does a job of this group and keys wait in this lane, as `lanes` says it? Its first part is that of the index.
CREATE OR REPLACE FUNCTION {schema}.in_lane(grp text, keys text, lane text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT coalesce(grp, keys) IS NOT NULL
    AND CASE WHEN keys IS NULL THEN ':' || grp ELSE keys || coalesce(':' || grp, '') END = lane
$$;

-- A job as its lane sees it. It is made part of the statement that calls it.
CREATE OR REPLACE FUNCTION {schema}.lane_job_of(j {schema}.jobs) RETURNS {schema}.lane_job
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT (j.seq, j.queue, j.type, j.priority, j.grp, j.keys, j.state, j.due_at)::{schema}.lane_job
$$;

-- Groups and keys that jobs have come into since the last claim have a lane that is ready from now on. What has arrived is read by
-- priority and in its order, so many of the types that are asked for, and as many of others: whatever their type, so that lanes
-- come to be in the order in which jobs came, whichever types are claimed. Of the types that are asked for the lane of jobs without a group is
-- ready while there are any.
--
-- One claim at a time does this, and the others go on without, unless they have nothing else to do (`waits`). A lane is looked at only
-- under the lock of its row: another claim may be about to set it not ready. Where a row is locked the jobs are as if they had only just
-- arrived. Lanes that are blocked stay so, unless by a limit that weighs: look_again decides.
--
-- queue_name: of which queue. types: those that the claim asks for, whose limits are locked. names: of limits that weigh and are locked.
-- most: how many are read. at: now. outside: some may be left; NULL: another transaction is about to change these lanes. unopened: lanes of
-- jobs without a group may be left. wake_all: all waiting workers are to be woken.
CREATE OR REPLACE FUNCTION {schema}.fold_arrivals(
  queue_name text, types text[], names text[], most integer, waits boolean, at float8,
  OUT outside boolean, OUT unopened boolean, OUT wake_all boolean
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- What has arrived, one of each lane: the first of its jobs; and all jobs that were named.
  k_types text[];
  k_priorities float8[];
  k_grps text[];
  k_keys text[];
  k_dues float8[];
  k_jobs bigint[];
  jobs bigint[];
  too_many boolean := false;
  -- The lane of each, if it is there; those that no other claim has locked. Has one?
  found bigint[];
  locked bigint[];
  busy boolean := false;
  -- Lanes that are not there yet, and the first that waits in each.
  new_types text[];
  priorities float8[];
  grps text[];
  lane_keys text[];
  dues float8[];
  seqs bigint[];
  -- Lanes in which no job waited; lanes that are blocked.
  idle bigint[];
  blocked bigint[];
BEGIN
  unopened := false;
  wake_all := false;
  IF NOT pg_try_advisory_xact_lock({schema}.lock_key('fold', queue_name)) THEN
    IF NOT waits OR NOT EXISTS (SELECT FROM {schema}.arrivals a WHERE a.queue = queue_name) THEN
      RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock({schema}.lock_key('fold', queue_name));
  END IF;
  IF EXISTS (SELECT FROM {schema}.arrivals a WHERE a.queue = queue_name) THEN
    WITH RECURSIVE arrived AS (
      (SELECT a.type FROM {schema}.arrivals a WHERE a.queue = queue_name ORDER BY a.type LIMIT 1)
      UNION ALL
      SELECT n.type FROM arrived o CROSS JOIN LATERAL (SELECT a.type FROM {schema}.arrivals a
        WHERE a.queue = queue_name AND a.type > o.type ORDER BY a.type LIMIT 1) n
    ), parts AS MATERIALIZED (
      SELECT a.type, ceil(most / count(*) OVER (PARTITION BY a.type = ANY (types))::float8)::integer AS most FROM arrived a
    ), met AS (
      DELETE FROM {schema}.arrivals a WHERE a.ctid = ANY (ARRAY(
        SELECT w.place FROM parts p CROSS JOIN LATERAL (
          SELECT f.ctid AS place FROM {schema}.arrivals f WHERE f.queue = queue_name AND f.type = p.type
          ORDER BY f.priority DESC, f.seq LIMIT p.most FOR UPDATE SKIP LOCKED) w))
      RETURNING a.type, a.priority, coalesce(':' || a.grp, '') AS grp, coalesce(a.keys, '') AS keys, a.due_at, a.job
    ), kinds AS (
      SELECT m.type, m.priority, m.grp, m.keys, min(m.due_at) AS due_at, min(m.job) AS job FROM met m
      GROUP BY m.type, m.priority, m.grp, m.keys
    )
    SELECT array_agg(k.type), array_agg(k.priority), array_agg(k.grp), array_agg(k.keys), array_agg(k.due_at), array_agg(k.job),
        (SELECT array_agg(m.job) FROM met m), (SELECT count(*) FROM met) >= (SELECT min(p.most) FROM parts p)
      INTO k_types, k_priorities, k_grps, k_keys, k_dues, k_jobs, jobs, too_many FROM kinds k;
  END IF;
  IF k_types IS NOT NULL THEN
    SELECT array_agg(k.type) FILTER (WHERE l.id IS NULL), array_agg(k.priority) FILTER (WHERE l.id IS NULL),
        array_agg(k.grp) FILTER (WHERE l.id IS NULL), array_agg(k.keys) FILTER (WHERE l.id IS NULL),
        array_agg(k.due_at) FILTER (WHERE l.id IS NULL), array_agg(k.job) FILTER (WHERE l.id IS NULL), array_agg(l.id)
      INTO new_types, priorities, grps, lane_keys, dues, seqs, found
      FROM unnest(k_types, k_priorities, k_grps, k_keys, k_dues, k_jobs) AS k (type, priority, grp, keys, due_at, job)
        LEFT JOIN LATERAL (SELECT n.id FROM {schema}.lanes n
          WHERE n.queue = queue_name AND n.priority = k.priority AND n.grp = k.grp AND n.keys = k.keys AND n.type = k.type LIMIT 1) l ON true;
    locked := ARRAY(SELECT l.id FROM {schema}.lanes l WHERE l.id = ANY (found) FOR UPDATE SKIP LOCKED);
    SELECT array_agg(l.id) FILTER (WHERE NOT l.ready), array_agg(l.id) FILTER (WHERE l.blocked_until IS NOT NULL)
      INTO idle, blocked FROM {schema}.lanes l WHERE l.id = ANY (locked);
    busy := EXISTS (SELECT FROM unnest(found) AS f (id) WHERE f.id IS NOT NULL AND f.id <> ALL (locked));
    IF busy THEN
      INSERT INTO {schema}.arrivals (queue, type, priority, grp, keys, due_at, job)
      SELECT queue_name, k.type, k.priority, nullif(substr(k.grp, 2), ''), nullif(k.keys, ''), k.due_at, k.job
      FROM unnest(k_types, k_priorities, k_grps, k_keys, k_dues, k_jobs, found) AS k (type, priority, grp, keys, due_at, job, lane)
      WHERE k.lane IS NOT NULL AND k.lane <> ALL (locked);
    END IF;
  END IF;
  IF types <> '{}' OR new_types IS NOT NULL THEN
    unopened := {schema}.open_lanes(queue_name, types, new_types, priorities, grps, lane_keys, dues, seqs, at);
  END IF;
  IF idle IS NOT NULL OR EXISTS (SELECT FROM unnest(k_keys) AS k (keys) WHERE k.keys <> '') THEN
    -- A lane with keys goes by its first job.
    UPDATE {schema}.lanes l SET ready = true, used_at = CASE WHEN l.ready THEN l.used_at ELSE at END,
      head_at = CASE WHEN l.keys <> '' THEN k.due_at ELSE 0 END, head_seq = CASE WHEN l.keys <> '' THEN k.job ELSE 0 END
    FROM unnest(found, k_dues, k_jobs) AS k (lane, due_at, job)
    WHERE l.id = k.lane AND l.id = ANY (locked)
      AND (NOT l.ready OR (l.keys <> '' AND (k.due_at, k.job) < (l.head_at, l.head_seq)));
  END IF;
  IF blocked IS NOT NULL THEN
    names := names || {schema}.lock_blocking(queue_name, blocked, names);
  END IF;
  IF names <> '{}' THEN
    -- Lanes that jobs have come into, and all lanes of jobs without a group and keys.
    wake_all := {schema}.look_again(ARRAY(
      SELECT l.id FROM {schema}.lanes l
      WHERE l.id = ANY (blocked) AND l.blocked_until IS NOT NULL AND l.blocked_by = ANY (names)
        AND l.heavy IS DISTINCT FROM {schema}.head_of(l) AND ({schema}.head_of(l) = ANY (jobs) OR l.heavy = ANY (jobs))
      UNION
      SELECT l.id FROM {schema}.lanes l
      WHERE l.blocked_by = ANY (names) AND l.blocked_until IS NOT NULL AND l.grp = '' AND l.keys = ''
        AND l.queue = queue_name AND l.type = ANY (types) AND l.heavy IS NOT NULL AND l.heavy IS DISTINCT FROM {schema}.head_of(l)), at);
  END IF;
  IF NOT busy THEN
    outside := unopened OR coalesce(too_many, false);
  END IF;
END
$$;

-- Opens lanes for groups and keys that have none yet, and for jobs without a group and keys of each type and priority. New lanes are
-- numbered in the order in which their first jobs came to wait, and have the turn of those that differ only in their keys, or else
-- of their unit: a group is not served twice because it has jobs of another type or with other keys now.
--
-- queue_name, types: of which queue and types. arrived, priorities, grps, lane_keys: the lanes of groups and keys; NULL: none. dues,
-- seqs: the first that waits in each. at: now. Answers whether some may be left: of jobs without a group and keys a thousand are opened at
-- most.
CREATE OR REPLACE FUNCTION {schema}.open_lanes(
  queue_name text, types text[], arrived text[], priorities float8[], grps text[], lane_keys text[], dues float8[], seqs bigint[], at float8
) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  most CONSTANT integer := 1000;
  is_full boolean;
  ids bigint[];
  opened bigint[];
BEGIN
  -- From one priority to the next along the index, however many jobs lie between them.
  WITH RECURSIVE open AS (
    SELECT t.type, j.priority, j.due_at, j.seq FROM unnest(types) AS t (type) CROSS JOIN LATERAL (
      SELECT w.priority, w.due_at, w.seq FROM {schema}.jobs w
      WHERE w.queue = queue_name AND w.type = t.type AND w.state = 'waiting' AND w.grp IS NULL AND w.keys IS NULL
      ORDER BY w.priority DESC, w.due_at, w.seq LIMIT 1) j
    UNION ALL
    SELECT o.type, j.priority, j.due_at, j.seq FROM open o CROSS JOIN LATERAL (
      SELECT w.priority, w.due_at, w.seq FROM {schema}.jobs w
      WHERE w.queue = queue_name AND w.type = o.type AND w.state = 'waiting' AND w.grp IS NULL AND w.keys IS NULL
        AND w.priority < o.priority
      ORDER BY w.priority DESC, w.due_at, w.seq LIMIT 1) j
  ), found AS (
    SELECT o.type, o.priority, o.due_at, o.seq, l.id
    FROM open o
      LEFT JOIN LATERAL (SELECT k.id, k.ready FROM {schema}.lanes k
        WHERE k.queue = queue_name AND k.priority = o.priority AND k.grp = '' AND k.keys = '' AND k.type = o.type LIMIT 1) l ON true
    WHERE l.ready IS NOT TRUE LIMIT most
  )
  SELECT count(*) = most, array_agg(id) FILTER (WHERE id IS NOT NULL), arrived || array_agg(type) FILTER (WHERE id IS NULL),
      priorities || array_agg(priority) FILTER (WHERE id IS NULL), grps || array_agg(''::text) FILTER (WHERE id IS NULL),
      lane_keys || array_agg(''::text) FILTER (WHERE id IS NULL),
      dues || array_agg(due_at) FILTER (WHERE id IS NULL), seqs || array_agg(seq) FILTER (WHERE id IS NULL)
    INTO is_full, ids, arrived, priorities, grps, lane_keys, dues, seqs FROM found;
  IF ids IS NOT NULL THEN
    UPDATE {schema}.lanes SET ready = true WHERE id = ANY (ids);
  END IF;
  IF arrived IS NULL THEN
    RETURN is_full;
  END IF;
  WITH opened AS (
    INSERT INTO {schema}.lanes (id, queue, type, priority, grp, keys, own, turn, head_at, head_seq, used_at) OVERRIDING SYSTEM VALUE
    SELECT n.id, queue_name, n.type, n.priority, n.grp, n.keys,
      coalesce(o.own, first_value(n.id) OVER (PARTITION BY n.type, n.priority, n.grp ORDER BY n.id)), coalesce(o.turn, u.turn, 0),
      CASE WHEN n.keys <> '' THEN n.due_at ELSE 0 END, CASE WHEN n.keys <> '' THEN n.seq ELSE 0 END, at
    FROM (
      SELECT nextval('{schema}.lanes_id_seq') AS id, f.* FROM (
        SELECT f.* FROM unnest(arrived, priorities, grps, lane_keys, dues, seqs) AS f (type, priority, grp, keys, due_at, seq)
        ORDER BY f.due_at, f.seq) f
    ) n
      LEFT JOIN LATERAL (
        SELECT f.own, f.turn FROM (
          (SELECT l.own, l.turn FROM {schema}.lanes l
            WHERE l.queue = queue_name AND l.priority = n.priority AND l.grp = n.grp AND l.keys = '' AND l.type = n.type)
          UNION ALL
          (SELECT l.own, l.turn FROM {schema}.lanes l
            WHERE l.queue = queue_name AND l.priority = n.priority AND l.grp = n.grp AND l.keys <> '' AND l.type = n.type
            ORDER BY l.turn DESC LIMIT 1)) f
        ORDER BY f.turn DESC LIMIT 1) o ON true
      -- Of its unit all lanes without keys, and some of the others.
      CROSS JOIN LATERAL (
        SELECT max(f.turn) AS turn FROM (
          (SELECT l.turn FROM {schema}.lanes l
            WHERE l.queue = queue_name AND l.priority = n.priority AND l.grp = n.grp AND l.keys = '')
          UNION ALL
          (SELECT l.turn FROM {schema}.lanes l
            WHERE l.queue = queue_name AND l.priority = n.priority AND l.grp = n.grp AND l.keys <> '' LIMIT 20)) f) u
    RETURNING id
  ) SELECT array_agg(o.id) INTO opened FROM opened o;
  IF EXISTS (SELECT FROM {schema}.gates g WHERE g.queue = queue_name) THEN
    -- Where others wait for the same key already they stand at the gate that opens last, so that no claim has to look at each of them.
    -- Limits that weigh may refuse one lane and not another. The row of the gate is locked as one that is referred to: it is not deleted
    -- until the lane is there.
    UPDATE {schema}.lanes l SET blocked_until = 1e18, blocked_by = c.name, blocked_grp = c.grp, heavy = NULL
    FROM (
      SELECT DISTINCT ON (o.id) o.id, g.name, g.grp FROM (SELECT k.* FROM {schema}.lanes k WHERE k.id = ANY (opened) OFFSET 0) o
        JOIN {schema}.rules r ON (r.fields).by_group AND (r.fields).weight IS NULL
          AND (r.queues IS NULL OR queue_name = ANY (r.queues)) AND (r.types IS NULL OR o.type = ANY (r.types))
        CROSS JOIN LATERAL (SELECT a.name, a.grp, a.until FROM {schema}.gates a
          WHERE a.name = r.name AND a.grp = {schema}.state_of(r.fields, nullif(substr(o.grp, 2), ''), o.keys)
            AND {schema}.place_of(a.queue, a.type) = {schema}.place_of(queue_name, o.type)
          FOR KEY SHARE SKIP LOCKED) g
      ORDER BY o.id, g.until DESC
    ) c WHERE l.id = c.id;
  END IF;
  RETURN is_full;
END
$$;

-- Jobs have come into lanes that wait for limits, and the claim that found them does not hold the locks of all of these: where a limit
-- weighs, the lane may have another job in front now. Takes the locks that are free, and answers with their names. Where another step has
-- one, it is not waited for: the jobs are as if they had only just arrived.
--
-- queue_name, blocked: the lanes. held: the names of limits that are held already.
CREATE OR REPLACE FUNCTION {schema}.lock_blocking(queue_name text, blocked bigint[], held text[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  name text;
  taken text[] := '{}';
BEGIN
  FOR name IN
    SELECT DISTINCT l.blocked_by FROM {schema}.lanes l
    WHERE l.id = ANY (blocked) AND l.blocked_by = ANY ({schema}.weighing()) AND l.blocked_by <> ALL (held)
  LOOP
    IF pg_try_advisory_xact_lock({schema}.lock_key('limit', name)) THEN
      taken := taken || name;
    ELSE
      -- Of a lane that is empty now, since a job was replaced, it is that job that others may wait behind.
      INSERT INTO {schema}.arrivals (queue, type, priority, grp, keys, due_at, job)
      SELECT l.queue, l.type, l.priority, nullif(substr(l.grp, 2), ''), nullif(l.keys, ''), coalesce(j.due_at, 0), coalesce(j.seq, l.heavy)
      FROM {schema}.lanes l
        LEFT JOIN LATERAL {schema}.first_jobs(l.queue, l.type, l.priority, l.keys || l.grp, 1, '-Infinity', '{}') j ON true
      WHERE l.id = ANY (blocked) AND l.blocked_by = name AND num_nonnulls(j.seq, l.heavy) > 0;
    END IF;
  END LOOP;
  RETURN taken;
END
$$;

-- These lanes waited for limits that weigh, and have another job in front now than the one that was too heavy: it may fit where that one
-- did not, and what waited behind it may look as well. The locks of the limits are held. Answers whether all waiting workers are to be woken.
CREATE OR REPLACE FUNCTION {schema}.look_again(ids bigint[], at float8) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  other record;
BEGIN
  FOR other IN UPDATE {schema}.lanes l SET blocked_until = NULL WHERE l.id = ANY (ids) RETURNING l.blocked_by, l.blocked_grp LOOP
    PERFORM {schema}.unblock_lanes(other.blocked_by, ARRAY[other.blocked_grp], at);
  END LOOP;
  RETURN FOUND;
END
$$;

-- The types of the lanes with keys of a priority and group. From one to the next along the index.
CREATE OR REPLACE FUNCTION {schema}.keyed_types(queue_name text, of_priority float8, of_grp text) RETURNS text[]
LANGUAGE sql STABLE AS $$
  WITH RECURSIVE types AS (
    (SELECT l.type FROM {schema}.lanes l WHERE l.queue = queue_name AND l.priority = of_priority AND l.grp = of_grp AND l.keys <> ''
      ORDER BY l.type LIMIT 1)
    UNION ALL
    SELECT n.type FROM types t CROSS JOIN LATERAL (SELECT l.type FROM {schema}.lanes l
      WHERE l.queue = queue_name AND l.priority = of_priority AND l.grp = of_grp AND l.keys <> '' AND l.type > t.type
      ORDER BY l.type LIMIT 1) n
  )
  SELECT coalesce(array_agg(t.type), '{}') FROM types t
$$;

-- The first jobs of a lane, so many at most, in their order. It is made part of the statement that calls it.
--
-- lane: keys || grp of its row. now: jobs whose deadline has passed by then are left out. without: so are these.
CREATE OR REPLACE FUNCTION {schema}.first_jobs(
  queue_name text, of_type text, of_priority float8, lane text, most integer, now float8, without bigint[]
) RETURNS TABLE (seq bigint, due_at float8, place tid, weights jsonb, bytes integer)
LANGUAGE sql STABLE AS $$
  SELECT o.* FROM (SELECT j.seq, j.due_at, j.ctid, j.weights, octet_length(j.data) FROM {schema}.jobs j
    WHERE j.queue = queue_name AND j.type = of_type AND j.priority = of_priority AND j.state = 'waiting' AND j.grp IS NULL
      AND j.keys IS NULL AND (j.deadline IS NULL OR j.deadline > now) AND j.seq <> ALL (without)
    ORDER BY j.due_at, j.seq LIMIT most) o WHERE lane = ''
  UNION ALL
  SELECT o.* FROM (SELECT j.seq, j.due_at, j.ctid, j.weights, octet_length(j.data) FROM {schema}.jobs j
    WHERE j.queue = queue_name AND j.type = of_type AND j.priority = of_priority AND j.state = 'waiting'
      AND {schema}.in_lane(j.grp, j.keys, lane) AND (j.deadline IS NULL OR j.deadline > now) AND j.seq <> ALL (without)
    ORDER BY j.due_at, j.seq LIMIT most) o WHERE lane <> ''
$$;

-- The number of the job that is first in a lane; NULL: no job waits there.
CREATE OR REPLACE FUNCTION {schema}.head_of(l {schema}.lanes) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT j.seq FROM {schema}.first_jobs(l.queue, l.type, l.priority, l.keys || l.grp, 1, '-Infinity', '{}') j);
END
$$;

-- Jobs that waited do not any more, and have not started. Lanes with keys go by the jobs that are first in them now; one that another
-- transaction has locked goes by the old one, which is too early. Where limits weigh, and another job is in front now than the one that was
-- too heavy, its lane looks again. The locks of these limits are held. Answers whether all waiting workers are to be woken: they are where
-- limits weigh.
CREATE OR REPLACE FUNCTION {schema}.left_lane(gone {schema}.lane_job[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  names text[];
  ids bigint[];
BEGIN
  IF coalesce(cardinality(gone), 0) = 0 THEN
    RETURN false;
  END IF;
  ids := ARRAY(SELECT l.id FROM (
      SELECT DISTINCT g.queue, g.type, g.priority, g.grp, g.keys FROM unnest(gone) AS g WHERE g.keys IS NOT NULL
    ) g CROSS JOIN LATERAL (SELECT k.id FROM {schema}.lanes k WHERE k.queue = g.queue AND k.priority = g.priority
      AND k.grp = coalesce(':' || g.grp, '') AND k.keys = g.keys AND k.type = g.type LIMIT 1 FOR UPDATE SKIP LOCKED) l);
  IF ids <> '{}' THEN
    PERFORM {schema}.write_heads(ids);
  END IF;
  names := {schema}.weighing();
  IF names = '{}' THEN
    RETURN false;
  END IF;
  PERFORM {schema}.look_again(ARRAY(SELECT DISTINCT l.id FROM unnest(gone) AS g
      CROSS JOIN LATERAL (SELECT k.* FROM {schema}.lanes k WHERE k.queue = g.queue AND k.priority = g.priority
        AND k.grp = coalesce(':' || g.grp, '') AND k.keys = coalesce(g.keys, '') AND k.type = g.type LIMIT 1) l
    WHERE l.blocked_until IS NOT NULL AND l.blocked_by = ANY (names)
      AND l.heavy IS DISTINCT FROM {schema}.head_of(l::{schema}.lanes)), {schema}.present());
  RETURN true;
END
$$;

-- Lanes with keys, which are locked, go by the jobs that are first in them now.
CREATE OR REPLACE FUNCTION {schema}.write_heads(ids bigint[]) RETURNS void
LANGUAGE sql VOLATILE AS $$
  UPDATE {schema}.lanes l SET head_at = h.due_at, head_seq = h.seq
  FROM unnest(ids) AS g (id) CROSS JOIN LATERAL (SELECT a.* FROM {schema}.lanes a WHERE a.id = g.id OFFSET 0) k
    CROSS JOIN LATERAL {schema}.first_jobs(k.queue, k.type, k.priority, k.keys || k.grp, 1, '-Infinity', '{}') h
  WHERE l.id = k.id
$$;

-- Something of a limit was given back: its gates are open, and heavy heads are judged again (planner/heavy-heads.ts: untilGiven): one that
-- fits on its own looks again, and is waited for from then on; one that does not reserves the limit until it does. Was anything waiting?
-- Lanes are known to wait until a claim looks at them: what was given back may be taken by another claim before. The lock of the limit is
-- held.
--
-- limit_name: which. grps: which states of it; NULL: all. at: now.
CREATE OR REPLACE FUNCTION {schema}.unblock_lanes(limit_name text, grps text[], at float8) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  waits boolean;
  rule {schema}.limit_rule;
  head record;
  charge {schema}.limit_charge;
  wait float8;
BEGIN
  FOR head IN
    SELECT l.id, l.blocked_grp AS grp, l.blocked_until AS until, j.seq, j.weights FROM {schema}.lanes l
      LEFT JOIN LATERAL (SELECT w.seq, w.weights FROM {schema}.jobs w
      WHERE w.queue COLLATE "POSIX" = l.queue AND w.state COLLATE "POSIX" = 'waiting' AND w.state COLLATE "POSIX" <> 'active'
        AND w.seq = l.heavy) j ON true
    WHERE l.blocked_by = limit_name AND (grps IS NULL OR l.blocked_grp = ANY (grps)) AND l.blocked_until IS NOT NULL AND l.heavy IS NOT NULL
  LOOP
    IF rule.name IS NULL THEN
      rule := {schema}.rule_named(limit_name);
    END IF;
    wait := 0;
    -- One that no worker has claimed when it fitted is waited for once.
    IF head.seq IS NOT NULL AND rule.name IS NOT NULL AND head.until > at - 100 THEN
      charge := {schema}.charge_of(rule, head.weights);
      wait := {schema}.refusal_wait(rule, head.grp, charge.weight, charge.slots, 0, 0, 0, NULL, at);
    END IF;
    UPDATE {schema}.lanes l SET blocked_until = CASE WHEN wait = 'Infinity' THEN 1e18 WHEN wait > 0 THEN at + wait ELSE least(l.blocked_until, at) END
      WHERE l.id = head.id;
  END LOOP;
  waits := FOUND;
  IF grps IS NULL THEN
    UPDATE {schema}.gates SET until = at WHERE name = limit_name AND until > at;
    RETURN waits OR EXISTS (SELECT FROM {schema}.lanes l
      WHERE l.blocked_by = limit_name AND l.blocked_until IS NOT NULL AND l.heavy IS NULL);
  END IF;
  UPDATE {schema}.gates SET until = at WHERE name = limit_name AND grp = ANY (grps) AND until > at;
  RETURN waits OR EXISTS (SELECT FROM {schema}.lanes l
    WHERE l.blocked_by = limit_name AND l.blocked_grp = ANY (grps) AND l.blocked_until IS NOT NULL AND l.heavy IS NULL);
END
$$;

-- Lanes that may look again are ready: heavy heads whose instant has come, and of each open gate the first lanes in the order of their
-- turns, `few` of them, but no more than a thousand in all. What other claims have locked is left to them. A gate where no lane is
-- left goes, if the lock of its limit is held (`names`).
--
-- queue_name, types: of which queue and types. now: the time. heads, untils: the lanes of heavy heads, and when their instants came: those
-- that are neither started nor refused again go on to reserve what they wait for (reserve_again).
CREATE OR REPLACE FUNCTION {schema}.open_gates(
  queue_name text, types text[], few integer, names text[], now float8, OUT heads bigint[], OUT untils float8[]
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  ids bigint[];
  gate_names text[];
  gate_grps text[];
  gate_types text[];
BEGIN
  SELECT array_agg(h.id), array_agg(h.until) INTO heads, untils FROM (
    SELECT r.* FROM unnest(types) AS t (type) CROSS JOIN LATERAL (
      SELECT l.id, l.blocked_until AS until FROM {schema}.lanes l
      WHERE l.queue = queue_name AND l.type = t.type AND l.blocked_until IS NOT NULL AND l.heavy IS NOT NULL AND l.blocked_until <= now
      ORDER BY l.blocked_until LIMIT 1000 FOR UPDATE SKIP LOCKED) r
    LIMIT 1000) h;
  ids := coalesce(heads, '{}');
  SELECT array_agg(g.name), array_agg(g.grp), array_agg(g.type) INTO gate_names, gate_grps, gate_types FROM (
    SELECT g.* FROM unnest(types) AS t (type) CROSS JOIN LATERAL (
      SELECT o.name, o.grp, o.type FROM {schema}.gates o
      WHERE o.queue = queue_name AND o.type = t.type AND o.until <= now ORDER BY o.until LIMIT 1000) g
    LIMIT 1000) g;
  IF gate_names IS NOT NULL THEN
    ids := ids || ARRAY(
      SELECT f.id FROM unnest(gate_names, gate_grps, gate_types) AS g (name, grp, type) CROSS JOIN LATERAL (
        SELECT l.id FROM {schema}.lanes l
        WHERE {schema}.stands_at(l, g.name, g.grp, queue_name, g.type)
        ORDER BY l.priority DESC, l.turn, l.own, l.head_at, l.head_seq LIMIT few FOR UPDATE SKIP LOCKED) f
      LIMIT 1000);
  END IF;
  IF ids <> '{}' THEN
    UPDATE {schema}.lanes l SET blocked_until = NULL WHERE l.id = ANY (ids);
  END IF;
  IF gate_names IS NULL THEN
    RETURN;
  END IF;
  -- Of limits whose locks are not held those are taken that are free: gates that no claim deletes would hide others.
  names := names || ARRAY(SELECT e.name FROM (
      SELECT DISTINCT g.name FROM unnest(gate_names, gate_grps, gate_types) AS g (name, grp, type)
      WHERE g.name <> ALL (names) AND NOT EXISTS (SELECT FROM {schema}.lanes l
        WHERE {schema}.stands_at(l, g.name, g.grp, queue_name, g.type) OFFSET 0) OFFSET 0) e
    WHERE pg_try_advisory_xact_lock({schema}.lock_key('limit', e.name)));
  -- One by one: planned while there were few gates, a join would read all of them.
  PERFORM {schema}.delete_gates(ARRAY(SELECT o.at FROM (
      SELECT g.* FROM unnest(gate_names, gate_grps, gate_types) AS g (name, grp, type)
      WHERE g.name = ANY (names) AND NOT EXISTS (SELECT FROM {schema}.lanes l
        WHERE {schema}.stands_at(l, g.name, g.grp, queue_name, g.type) OFFSET 0) OFFSET 0) e
    CROSS JOIN LATERAL (SELECT a.ctid AS at FROM {schema}.gates a
      WHERE a.name = e.name AND a.grp = e.grp AND {schema}.place_of(a.queue, a.type) = {schema}.place_of(queue_name, e.type)
      FOR UPDATE SKIP LOCKED) o));
END
$$;

-- A claim has opened the lanes of these heavy heads, and is over. One that it has neither started nor refused again goes on to reserve what it
-- waits for, from the same instant: another claim may start it, and until then light jobs leave that to it (heavy_heads).
--
-- heads, untils: as open_gates says it. closed: those that another limit refused: they leave to others what they cannot use. at: now.
CREATE OR REPLACE FUNCTION {schema}.reserve_again(heads bigint[], untils float8[], closed bigint[], at float8) RETURNS void
LANGUAGE sql VOLATILE AS $$
  UPDATE {schema}.lanes l SET blocked_until = h.until FROM unnest(heads, untils) AS h (id, until)
  WHERE l.id = h.id AND l.id <> ALL (closed) AND h.until > at - 100 AND l.blocked_until IS NULL AND l.heavy = {schema}.head_of(l)
$$;

-- A queue and type as the indexes of gates, and of lanes at gates, know them: four names together are more than an entry may be long.
CREATE OR REPLACE FUNCTION {schema}.place_of(queue text, type text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT hashtextextended(queue || chr(31) || type, 0)
$$;

-- Does a lane stand at the gate of this limit and state, for this queue and type? It is made part of the statement that calls it.
CREATE OR REPLACE FUNCTION {schema}.stands_at(l {schema}.lanes, name text, grp text, queue text, type text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT l.blocked_by = name AND l.blocked_grp = grp AND {schema}.place_of(l.queue, l.type) = {schema}.place_of(queue, type)
    AND l.blocked_until IS NOT NULL AND l.heavy IS NULL
$$;

-- Deletes gates where no lane stands. Their rows are locked, and the locks of their limits are held: only in this later statement it is
-- certain which lanes stand there.
CREATE OR REPLACE FUNCTION {schema}.delete_gates(ats tid[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF ats <> '{}' THEN
    DELETE FROM {schema}.gates g WHERE g.ctid = ANY (ats) AND NOT EXISTS (SELECT FROM {schema}.lanes l
      WHERE {schema}.stands_at(l, g.name, g.grp, g.queue, g.type) OFFSET 0);
  END IF;
END
$$;

-- Until when a lane is blocked, by itself or with its gate; NULL: it is not.
CREATE OR REPLACE FUNCTION {schema}.blocked_until(l {schema}.lanes) RETURNS float8
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN l.heavy IS NOT NULL OR l.blocked_until IS NULL THEN l.blocked_until ELSE (
    SELECT g.until FROM {schema}.gates g
    WHERE g.name = l.blocked_by AND g.grp = l.blocked_grp AND {schema}.place_of(g.queue, g.type) = {schema}.place_of(l.queue, l.type)) END
$$;

-- Jobs that are too heavy for what is left of a limit, and wait for it. One that is not there any more, or is paused, is not
-- waited for. When its instant has come it is waited for 100 ms longer, so that a claim can come for it.
--
-- limit_name: which limit. grps: which states of it. at: now.
CREATE OR REPLACE FUNCTION {schema}.heavy_heads(limit_name text, grps text[], at float8)
RETURNS TABLE (lane bigint, grp text, priority float8, until float8, since float8)
LANGUAGE sql STABLE AS $$
  SELECT l.id, l.blocked_grp, l.priority, l.blocked_until, l.heavy_since FROM {schema}.lanes l
  WHERE l.blocked_by = limit_name AND l.blocked_until IS NOT NULL AND l.heavy IS NOT NULL AND l.blocked_until > at - 100
    AND l.blocked_grp = ANY (grps)
    AND EXISTS (SELECT FROM {schema}.jobs j WHERE j.queue COLLATE "POSIX" = l.queue AND j.state COLLATE "POSIX" = 'waiting'
      AND j.state COLLATE "POSIX" <> 'active' AND j.seq = l.heavy)
    AND NOT EXISTS (SELECT FROM {schema}.pauses p WHERE p.queue = l.queue AND p.type IN ('', ':' || l.type))
$$;

-- How long a start has to wait for the heavy jobs that wait for a limit; 0: not at all. Those of a lower priority are passed; of the
-- same priority those that have waited for longer come first.
--
-- limit_name, state_grp: which state of which limit. own_priority, own_lane, own_since: of
-- the job that is to start, and since when it waits for the limit itself ('Infinity': it does not). at: now. promptly: the claim that
-- asks may start them itself.
CREATE OR REPLACE FUNCTION {schema}.heavy_wait(
  limit_name text, state_grp text, own_priority float8, own_lane bigint, own_since float8, at float8, promptly boolean
) RETURNS float8
LANGUAGE sql STABLE AS $$
  SELECT greatest(0, max(CASE
      WHEN h.until >= 1e18 THEN 'Infinity'
      WHEN h.until > at THEN h.until - at
      ELSE h.until + CASE WHEN promptly THEN 0 ELSE 100 END - at END))
  FROM {schema}.heavy_heads(limit_name, ARRAY[state_grp], at) h
  WHERE h.lane <> own_lane AND h.priority >= own_priority
    AND (h.priority > own_priority OR h.since < own_since OR (h.since = own_since AND h.lane < own_lane))
$$;
