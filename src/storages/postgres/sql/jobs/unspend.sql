-- Jobs whose leases ran out before anything of them was called get their attempt back: their workers say so now. They are as they were
-- before they were claimed; those that were dead for it wait again, at their old place. What was told of it stays told, and what was
-- counted under limits stays counted. Those that were claimed or changed since stay as they are.
--
-- ids, tokens: of the leases. Answers whom it wakes: [[queue, news]].
CREATE OR REPLACE FUNCTION {schema}.unspend(ids text[], tokens bigint[]) RETURNS json
LANGUAGE plpgsql VOLATILE SET enable_hashjoin = on AS $$
DECLARE
  now float8 := {schema}.present();
  woken json;
BEGIN
  IF ids IS NULL THEN
    RETURN NULL;
  END IF;
  WITH stalled AS MATERIALIZED (
    SELECT j.ctid AS at, j.seq, j.state, (SELECT max(a.seq) FROM {schema}.attempts a WHERE a.job = j.seq) AS record
    FROM {schema}.jobs j
    WHERE j.id = ANY (ids) AND j.claim < 0 AND ((j.id, j.token) IN (SELECT o.id, o.token FROM unnest(ids, tokens) AS o (id, token))) IS TRUE
      -- One that is tried from its first attempt again has none to get back. Of those that are dead, only this one was their last.
      AND j.attempt > 0 AND (j.state IN ('waiting', 'scheduled') OR (j.state = 'dead' AND j.attempt >= j.max_attempts))
    ORDER BY j.id FOR UPDATE
  ), forgotten AS (
    DELETE FROM {schema}.attempts a USING stalled s WHERE a.seq = s.record
  ), back AS (
    UPDATE {schema}.jobs j SET attempt = j.attempt - 1, claim = NULL, worker = NULL, finished_at = NULL, delete_at = NULL,
      error = (SELECT a.error FROM {schema}.attempts a WHERE a.job = s.seq AND a.seq < s.record ORDER BY a.seq DESC LIMIT 1),
      state = CASE WHEN s.state <> 'dead' THEN s.state WHEN j.due_at <= now THEN 'waiting' ELSE 'scheduled' END
    FROM stalled s WHERE j.ctid = s.at
    RETURNING j.seq, j.queue, j.type, j.priority, j.grp, j.state, j.due_at, s.state = 'dead' AS died
  ), arrived AS (
    INSERT INTO {schema}.arrivals (queue, type, priority, grp, due_at, job)
    SELECT b.queue, b.type, b.priority, b.grp, min(b.due_at), (array_agg(b.seq ORDER BY b.due_at, b.seq))[1] FROM back b
    WHERE b.died AND b.state = 'waiting' AND b.grp IS NOT NULL GROUP BY b.queue, b.type, b.priority, b.grp ORDER BY 5, 6
  )
  SELECT json_agg(json_build_array(w.queue, w.news)) INTO woken FROM (
    SELECT l.queue, bool_or(l.news) AS news FROM (
      SELECT b.queue, {schema}.lane_news(b.queue, b.type, b.priority, b.grp, now) AS news
      FROM (SELECT DISTINCT b.queue, b.type, b.priority, b.grp FROM back b WHERE b.died) b) l
    WHERE l.news IS NOT NULL GROUP BY l.queue) w;
  RETURN woken;
END
$$;
