-- Ends leases in every way but well: jobs are tried again, given back, dead or cancelled. One that was asked to stop does not come
-- back: nobody wants it any more.
--
-- One that is tried again or given back later takes its old place when it is due.
--
-- As end_leases; outcomes that ended well are passed over.
CREATE OR REPLACE FUNCTION {schema}.release_leases(outcomes json, ats tid[], ns integer[], now float8,
  OUT woken json, OUT late boolean)
LANGUAGE plpgsql VOLATILE SET enable_hashjoin = on AS $$
BEGIN
  WITH outcome AS MATERIALIZED (
    SELECT l.at, o.* FROM unnest(ats, ns) AS l (at, n)
    JOIN json_to_recordset(outcomes)
      AS o (n integer, "to" text, in_ms float8, held boolean, error text) ON o.n = l.n
    WHERE o.to IS NOT NULL
  ), failed AS (
    INSERT INTO {schema}.attempts (job, attempt, started_at, ended_at, worker, error)
    SELECT j.seq, j.attempt, coalesce(j.started_at, now), now, coalesce(j.worker, ''), o.error
    FROM outcome o JOIN {schema}.jobs j ON j.ctid = o.at WHERE o.to <> 'back' AND o.error IS NOT NULL
    ORDER BY o.n
    RETURNING job
  ), trimmed AS (
    DELETE FROM {schema}.attempts a USING failed f WHERE a.job = f.job AND a.seq <=
      (SELECT b.seq FROM {schema}.attempts b WHERE b.job = f.job ORDER BY b.seq DESC OFFSET 99 LIMIT 1)
  ), released AS (
    UPDATE {schema}.jobs j SET
      state = CASE WHEN o.to IN ('dead', 'cancelled') THEN o.to WHEN j.cancel_requested THEN 'cancelled'
        WHEN due.at <= now THEN 'waiting' ELSE 'scheduled' END,
      due_at = CASE WHEN due.ends THEN j.due_at ELSE due.at END,
      first_due_at = CASE WHEN NOT due.ends AND due.at > now THEN j.due_at END,
      finished_at = CASE WHEN due.ends THEN now END,
      delete_at = CASE WHEN due.ends THEN
        now + coalesce(j.keep_for, {schema}.kept_ms(CASE WHEN o.to = 'dead' THEN 'dead' ELSE 'cancelled' END)) END,
      worker = CASE WHEN due.ends THEN j.worker END,
      lease_until = NULL,
      attempt = j.attempt - CASE WHEN o.to = 'back' THEN 1 ELSE 0 END,
      holds = j.holds + CASE WHEN o.held THEN 1 ELSE 0 END,
      error = coalesce(o.error, j.error)
    FROM outcome o
    JOIN {schema}.jobs was ON was.ctid = o.at
    CROSS JOIN LATERAL (SELECT o.to IN ('dead', 'cancelled') OR was.cancel_requested AS ends,
      CASE WHEN o.in_ms > 0 THEN now + o.in_ms ELSE was.due_at END AS at) due
    WHERE j.ctid = o.at
    RETURNING j.seq, j.queue, j.type, j.priority, j.grp, j.state, j.due_at, j.deadline
  ), arrived AS (
    INSERT INTO {schema}.arrivals (queue, type, priority, grp, due_at, job)
    SELECT r.queue, r.type, r.priority, r.grp, min(r.due_at), (array_agg(r.seq ORDER BY r.due_at, r.seq))[1] FROM released r
    WHERE r.state = 'waiting' AND r.grp IS NOT NULL GROUP BY r.queue, r.type, r.priority, r.grp ORDER BY 5, 6
  ), kinds AS (
    SELECT r.queue, r.type, r.priority, r.grp, r.state, min(r.due_at) AS due_at
    FROM released r WHERE r.state IN ('waiting', 'scheduled') GROUP BY r.queue, r.type, r.priority, r.grp, r.state
  ), looked AS (
    SELECT k.queue, CASE WHEN k.state = 'waiting' THEN {schema}.lane_news(k.queue, k.type, k.priority, k.grp, now)
      ELSE {schema}.is_first_due(k.queue, k.type, k.due_at) END AS news
    FROM kinds k
  )
  SELECT (SELECT json_agg(json_build_array(w.queue, w.news)) FROM (
      SELECT l.queue, bool_or(l.news) AS news FROM looked l WHERE l.news IS NOT NULL GROUP BY l.queue) w),
    (SELECT coalesce(bool_or(r.deadline <= now), false) FROM released r WHERE r.state IN ('waiting', 'scheduled'))
  INTO woken, late;
END
$$;
