-- Jobs that have ended, or are scheduled, are due now; one that backed off, at its old place. One that has ended starts from its first attempt, its history kept; a deadline
-- that has passed would end it again at once: whoever asks for a retry wants it to run. Their rows are locked already.
--
-- Answers whom it wakes: [[queue, news]].
CREATE OR REPLACE FUNCTION {schema}.bring_back(ids text[], now float8) RETURNS json
LANGUAGE sql VOLATILE AS $$
  WITH back AS (
    UPDATE {schema}.jobs j SET state = 'waiting', first_due_at = NULL, due_wall = NULL,
      due_at = CASE WHEN j.state = 'scheduled' THEN coalesce(j.first_due_at, now) ELSE now END,
      finished_at = NULL, delete_at = NULL, result = NULL,
      attempt = CASE WHEN j.state = 'scheduled' THEN j.attempt ELSE 0 END,
      holds = CASE WHEN j.state = 'scheduled' THEN j.holds ELSE 0 END,
      worker = CASE WHEN j.state = 'scheduled' THEN j.worker END,
      cancel_requested = j.state = 'scheduled' AND j.cancel_requested,
      deadline = CASE WHEN j.state = 'scheduled' OR j.deadline > now OR NOT {schema}.has_passed(j.deadline_wall) THEN j.deadline END,
      deadline_wall = CASE WHEN j.state = 'scheduled' OR NOT {schema}.has_passed(j.deadline_wall) THEN j.deadline_wall END
    -- Of none at all the planner believes that they may be found by any index.
    WHERE j.id = ANY (ids) AND cardinality(ids) > 0
    RETURNING j.seq, j.queue, j.type, j.priority, j.grp, j.due_at
  ), arrived AS (
    INSERT INTO {schema}.arrivals (queue, type, priority, grp, due_at, job)
    SELECT b.queue, b.type, b.priority, b.grp, min(b.due_at), (array_agg(b.seq ORDER BY b.due_at, b.seq))[1] FROM back b
    WHERE b.grp IS NOT NULL GROUP BY b.queue, b.type, b.priority, b.grp ORDER BY 5, 6
  )
  SELECT json_agg(json_build_array(w.queue, w.news)) FROM (
    SELECT l.queue, bool_or(l.news) AS news FROM (
      SELECT b.queue, {schema}.lane_news(b.queue, b.type, b.priority, b.grp, now) AS news
      FROM (SELECT DISTINCT b.queue, b.type, b.priority, b.grp FROM back b) b) l
    WHERE l.news IS NOT NULL GROUP BY l.queue) w
$$;
