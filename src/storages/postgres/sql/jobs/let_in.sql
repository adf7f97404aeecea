-- Groups that jobs have come into since the last claim have a lane that is ready from now on. What has arrived is read by
-- priority and in its order, so many of the types that are asked for, and as many of others: whatever their type, so that lanes
-- come to be in the order in which jobs came, whoever claims. The lane of jobs without a group is ready while there are any. Answers
-- whether there may be too many for one step.
--
-- The lock of the queue is held: no other lock is needed for lanes that are new, or in which nobody waited, for those are not
-- blocked. Those that are blocked are let be, unless by a limit that weighs: it is for look_again to tell.
--
-- queue_name: of which queue. types: those that the claim asks for, whose limits are locked. others: all types of which jobs wait.
-- names: of limits that weigh and are locked. most: how many are read. at: now.
CREATE OR REPLACE FUNCTION {schema}.let_in(
  queue_name text, types text[], others text[], names text[], most integer, at float8
) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- Lanes that are not there yet, where their unit stands, and the first that waits in each.
  new_types text[];
  priorities float8[];
  grps text[];
  turns bigint[];
  dues float8[];
  seqs bigint[];
  -- Lanes in which nobody waited; lanes that are blocked, and all that have come into any.
  idle bigint[];
  blocked bigint[];
  jobs bigint[];
  too_many boolean;
BEGIN
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
  SELECT array_agg(k.type) FILTER (WHERE l.id IS NULL), array_agg(k.priority) FILTER (WHERE l.id IS NULL),
      array_agg(k.grp) FILTER (WHERE l.id IS NULL), array_agg(coalesce(l.turn, 0)) FILTER (WHERE l.id IS NULL),
      array_agg(k.due_at) FILTER (WHERE l.id IS NULL), array_agg(k.job) FILTER (WHERE l.id IS NULL),
      array_agg(l.id) FILTER (WHERE l.idle), array_agg(l.id) FILTER (WHERE l.blocked), (SELECT array_agg(m.job) FROM met m),
      (SELECT count(*) FROM met) >= (SELECT min(p.most) FROM parts p)
    INTO new_types, priorities, grps, turns, dues, seqs, idle, blocked, jobs, too_many
    FROM kinds k CROSS JOIN LATERAL (
      SELECT max(n.turn) AS turn, max(n.id) FILTER (WHERE n.type = k.type) AS id,
        bool_or(n.type = k.type AND NOT n.ready) AS idle, bool_or(n.type = k.type AND n.blocked_until IS NOT NULL) AS blocked
      FROM {schema}.lanes n WHERE n.queue = queue_name AND n.priority = k.priority AND n.grp = k.grp) l;
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
  RETURN coalesce(too_many, false);
END
$$;
