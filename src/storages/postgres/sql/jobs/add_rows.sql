-- Adds jobs, in their order.
--
-- jobs: a list as jobs/add.ts writes it. fresh: none of their ids is there, else it fails; otherwise those that are there are left
-- out. made: the ids of those that were added. woken: [[queue, news]]. told: events were written. Many kinds of jobs at once
-- are news without a further look.
CREATE OR REPLACE FUNCTION {schema}.add_rows(jobs json, now float8, fresh boolean, OUT made text[], OUT woken json,
  OUT told boolean)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  told := {schema}.events_wanted(now);
  WITH added AS MATERIALIZED (
    SELECT * FROM {schema}.insert_jobs(add_rows.jobs, now) WHERE fresh
    UNION ALL
    SELECT * FROM {schema}.insert_missing(add_rows.jobs, now) WHERE NOT fresh
  ), arrived AS (
    INSERT INTO {schema}.arrivals (queue, type, priority, grp, due_at, job)
    SELECT a.queue, a.type, a.priority, a.grp, min(a.due_at), min(a.seq) FROM added a
    WHERE a.state = 'waiting' AND a.grp IS NOT NULL GROUP BY a.queue, a.type, a.priority, a.grp ORDER BY min(a.seq)
  ), told_of AS (
    INSERT INTO {schema}.events (at, event)
    SELECT now, json_build_object('event', 'added', 'queue', a.queue, 'id', a.id, 'type', a.type)
    FROM added a WHERE told ORDER BY a.seq
  ), kinds AS (
    SELECT a.queue, a.type, a.state, a.priority, a.grp, min(a.due_at) AS due_at, row_number() OVER () AS no
    FROM added a GROUP BY a.queue, a.type, a.state, a.priority, a.grp
  ), looked AS (
    SELECT k.queue, CASE
      WHEN k.no > 20 THEN true
      WHEN k.state = 'waiting' THEN {schema}.lane_news(k.queue, k.type, k.priority, k.grp, now)
      ELSE {schema}.is_first_due(k.queue, k.type, k.due_at) END AS news
    FROM kinds k
  )
  SELECT (SELECT array_agg(a.id) FROM added a), (
    SELECT json_agg(json_build_array(w.queue, w.news)) FROM (
      SELECT l.queue, bool_or(l.news) AS news FROM looked l WHERE l.news IS NOT NULL GROUP BY l.queue) w)
  INTO made, woken;
  made := coalesce(made, '{}');
  told := told AND cardinality(made) > 0;
END
$$;
