-- Opens lanes for groups that have none yet, and for jobs without a group of each type and priority. New lanes are numbered in the
-- order in which their first jobs came to wait, and stand where their unit does: a group is not served twice because it has
-- jobs of another type now.
--
-- queue_name, types: of which queue and types. arrived, priorities, grps: the lanes of groups; NULL: none. turns: where their
-- units stand. dues, seqs: the first that waits in each. at: now.
CREATE OR REPLACE FUNCTION {schema}.open_lanes(
  queue_name text, types text[], arrived text[], priorities float8[], grps text[], turns bigint[], dues float8[],
  seqs bigint[], at float8
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  ids bigint[];
BEGIN
  -- From one priority to the next along the index, however many jobs lie between them.
  WITH RECURSIVE open AS (
    SELECT t.type, j.priority, j.due_at, j.seq FROM unnest(types) AS t (type) CROSS JOIN LATERAL (
      SELECT w.priority, w.due_at, w.seq FROM {schema}.jobs w
      WHERE w.queue = queue_name AND w.type = t.type AND w.state = 'waiting' AND w.grp IS NULL
      ORDER BY w.priority DESC, w.due_at, w.seq LIMIT 1) j
    UNION ALL
    SELECT o.type, j.priority, j.due_at, j.seq FROM open o CROSS JOIN LATERAL (
      SELECT w.priority, w.due_at, w.seq FROM {schema}.jobs w
      WHERE w.queue = queue_name AND w.type = o.type AND w.state = 'waiting' AND w.grp IS NULL
        AND w.priority < o.priority
      ORDER BY w.priority DESC, w.due_at, w.seq LIMIT 1) j
  ), found AS (
    SELECT o.type, o.priority, o.due_at, o.seq, l.id, l.idle, l.turn
    FROM (SELECT * FROM open LIMIT 1000) o
      CROSS JOIN LATERAL (SELECT max(k.turn) AS turn, max(k.id) FILTER (WHERE k.type = o.type) AS id,
          bool_or(k.type = o.type AND NOT k.ready) AS idle
        FROM {schema}.lanes k WHERE k.queue = queue_name AND k.priority = o.priority AND k.grp = '') l
  )
  SELECT array_agg(id) FILTER (WHERE idle), arrived || array_agg(type) FILTER (WHERE id IS NULL),
      priorities || array_agg(priority) FILTER (WHERE id IS NULL),
      grps || array_agg(''::text) FILTER (WHERE id IS NULL), turns || array_agg(coalesce(turn, 0)) FILTER (WHERE id IS NULL),
      dues || array_agg(due_at) FILTER (WHERE id IS NULL), seqs || array_agg(seq) FILTER (WHERE id IS NULL)
    INTO ids, arrived, priorities, grps, turns, dues, seqs FROM found;
  IF ids IS NOT NULL THEN
    UPDATE {schema}.lanes SET ready = true WHERE id = ANY (ids);
  END IF;
  IF arrived IS NULL THEN
    RETURN;
  END IF;
  INSERT INTO {schema}.lanes (queue, type, priority, grp, turn, used_at)
    SELECT queue_name, n.type, n.priority, n.grp, n.turn, at
    FROM unnest(arrived, priorities, grps, turns, dues, seqs) AS n (type, priority, grp, turn, due_at, seq)
    ORDER BY n.due_at, n.seq;
END
$$;
