-- Groups that jobs have come into since the last claim have a lane that is ready from now on. What has arrived is read by
-- priority and in its order, so many of the types that are asked for, and as many of others: whatever their type, so that lanes
-- come to be in the order in which jobs came, whichever types are claimed. The lane of jobs without a group is ready while there are any.
--
-- One claim at a time does this, and the others go on without, unless they have nothing else to do (`waits`). A lane is looked at only
-- under the lock of its row: another claim may be about to set it not ready. Where a row is locked the jobs are as if they had only just
-- arrived. Lanes that are blocked stay so, unless by a limit that weighs: look_again tells. Answers whether some may be left; NULL:
-- another transaction is about to change these lanes.
--
-- queue_name: of which queue. types: those that the claim asks for, whose limits are locked. others: all types of which jobs wait.
-- names: of limits that weigh and are locked. most: how many are read. at: now.
CREATE OR REPLACE FUNCTION {schema}.fold_arrivals(
  queue_name text, types text[], others text[], names text[], most integer, waits boolean, at float8
) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- What has arrived, one of each lane: the first of its jobs; and all jobs that were named.
  k_types text[];
  k_priorities float8[];
  k_grps text[];
  k_dues float8[];
  k_jobs bigint[];
  jobs bigint[];
  too_many boolean := false;
  -- The lane of each, if it is there; those that no other claim has locked. Has one?
  found bigint[];
  locked bigint[];
  busy boolean := false;
  -- Lanes that are not there yet, where their unit stands, and the first that waits in each.
  new_types text[];
  priorities float8[];
  grps text[];
  turns bigint[];
  dues float8[];
  seqs bigint[];
  -- Lanes in which no job waited; lanes that are blocked.
  idle bigint[];
  blocked bigint[];
BEGIN
  IF NOT pg_try_advisory_xact_lock({schema}.lock_key('fold', queue_name)) THEN
    IF NOT waits OR NOT EXISTS (SELECT FROM {schema}.arrivals a WHERE a.queue = queue_name) THEN
      RETURN NULL;
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
      RETURNING a.type, a.priority, ':' || a.grp AS grp, a.due_at, a.job
    ), kinds AS (
      SELECT m.type, m.priority, m.grp, min(m.due_at) AS due_at, min(m.job) AS job FROM met m GROUP BY m.type, m.priority, m.grp
    )
    SELECT array_agg(k.type), array_agg(k.priority), array_agg(k.grp), array_agg(k.due_at), array_agg(k.job),
        (SELECT array_agg(m.job) FROM met m), (SELECT count(*) FROM met) >= (SELECT min(p.most) FROM parts p)
      INTO k_types, k_priorities, k_grps, k_dues, k_jobs, jobs, too_many FROM kinds k;
  END IF;
  IF k_types IS NOT NULL THEN
    SELECT array_agg(k.type) FILTER (WHERE l.id IS NULL), array_agg(k.priority) FILTER (WHERE l.id IS NULL),
        array_agg(k.grp) FILTER (WHERE l.id IS NULL), array_agg(coalesce(l.turn, 0)) FILTER (WHERE l.id IS NULL),
        array_agg(k.due_at) FILTER (WHERE l.id IS NULL), array_agg(k.job) FILTER (WHERE l.id IS NULL), array_agg(l.id)
      INTO new_types, priorities, grps, turns, dues, seqs, found
      FROM unnest(k_types, k_priorities, k_grps, k_dues, k_jobs) AS k (type, priority, grp, due_at, job) CROSS JOIN LATERAL (
        SELECT max(n.turn) AS turn, max(n.id) FILTER (WHERE n.type = k.type) AS id
        FROM {schema}.lanes n WHERE n.queue = queue_name AND n.priority = k.priority AND n.grp = k.grp) l;
    locked := ARRAY(SELECT l.id FROM {schema}.lanes l WHERE l.id = ANY (found) FOR UPDATE SKIP LOCKED);
    SELECT array_agg(l.id) FILTER (WHERE NOT l.ready), array_agg(l.id) FILTER (WHERE l.blocked_until IS NOT NULL)
      INTO idle, blocked FROM {schema}.lanes l WHERE l.id = ANY (locked);
    busy := EXISTS (SELECT FROM unnest(found) AS f (id) WHERE f.id IS NOT NULL AND f.id <> ALL (locked));
    IF busy THEN
      INSERT INTO {schema}.arrivals (queue, type, priority, grp, due_at, job)
      SELECT queue_name, k.type, k.priority, substr(k.grp, 2), k.due_at, k.job
      FROM unnest(k_types, k_priorities, k_grps, k_dues, k_jobs, found) AS k (type, priority, grp, due_at, job, lane)
      WHERE k.lane IS NOT NULL AND k.lane <> ALL (locked);
    END IF;
  END IF;
  PERFORM {schema}.open_lanes(queue_name, others, new_types, priorities, grps, turns, dues, seqs, at);
  IF idle IS NOT NULL THEN
    UPDATE {schema}.lanes SET ready = true, used_at = at WHERE id = ANY (idle);
  END IF;
  IF blocked IS NOT NULL THEN
    names := names || {schema}.lock_blocking(queue_name, blocked, names);
  END IF;
  IF names <> '{}' THEN
    PERFORM {schema}.look_again(queue_name, types, blocked, jobs, names, at);
  END IF;
  RETURN CASE WHEN NOT busy THEN coalesce(too_many, false) END;
END
$$;
