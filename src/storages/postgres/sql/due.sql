-- Scheduled jobs that come due, and what is worth a wake-up.
--
-- Locks: `show_due` begins a step (the rules, shared); jobs that come due are taken with SKIP LOCKED.

-- Scheduled jobs of the queue that have come due wait from now on: a thousand at the most. Whoever waits for them knows when they
-- come due. One that backed off takes its old place. Answers how many.
CREATE OR REPLACE FUNCTION {schema}.promote_due(queue text, now float8) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  due tid[];
  -- Those that somebody gave an instant for, which is still to come: the clock of the storage was set forward since.
  early tid[];
BEGIN
  SELECT coalesce(array_agg(d.at) FILTER (WHERE d.passed), '{}'), array_agg(d.at) FILTER (WHERE NOT d.passed) INTO due, early FROM (
    SELECT j.ctid AS at, {schema}.has_passed(j.due_wall) AS passed FROM {schema}.jobs j
    WHERE j.queue = promote_due.queue AND j.state = 'scheduled' AND j.due_at <= now
    ORDER BY j.due_at LIMIT 1000 FOR UPDATE SKIP LOCKED) d;
  IF early IS NOT NULL THEN
    UPDATE {schema}.jobs j SET due_at = j.due_wall + {schema}.skew() WHERE j.ctid = ANY (early);
  END IF;
  IF cardinality(due) > 0 THEN
    WITH promoted AS (
      UPDATE {schema}.jobs j SET state = 'waiting', due_at = coalesce(j.first_due_at, j.due_at), first_due_at = NULL,
        due_wall = NULL
      WHERE j.ctid = ANY (due)
      RETURNING j.type, j.priority, j.grp, j.due_at, j.seq
    )
    INSERT INTO {schema}.arrivals (queue, type, priority, grp, due_at, job)
    SELECT promote_due.queue, p.type, p.priority, p.grp, min(p.due_at), (array_agg(p.seq ORDER BY p.due_at, p.seq))[1]
    FROM promoted p WHERE p.grp IS NOT NULL GROUP BY p.type, p.priority, p.grp ORDER BY 5, 6;
  END IF;
  RETURN cardinality(due);
END
$$;

-- Jobs that have come due are shown as such, whether or not anybody has claimed since: called before the states of a queue are read.
-- Answers whether there were any.
CREATE OR REPLACE FUNCTION {schema}.show_due(queue text) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now float8 := {schema}.present();
BEGIN
  PERFORM FROM {schema}.jobs j WHERE j.queue = show_due.queue AND j.state = 'scheduled' AND j.due_at <= now
  ORDER BY j.due_at LIMIT 1;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM {schema}.begin_step();
  RETURN {schema}.promote_due(show_due.queue, {schema}.moment()) > 0;
END
$$;

-- Will a job of this type be the first of the scheduled jobs of its queue to come due; where there are limits, which may keep
-- other types back, of its type? Those that should have come due a second ago do not count: either nobody is there to start
-- them, or they have gone, and to pass them all takes time (jobs/first_open.sql).
CREATE OR REPLACE FUNCTION {schema}.is_first_due(queue text, type text, due_at float8) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT NOT EXISTS (SELECT FROM {schema}.jobs j
      WHERE j.queue = is_first_due.queue AND j.state = 'scheduled' AND j.due_at > m.last - 1000
        AND j.due_at <= is_first_due.due_at)
    OR (EXISTS (SELECT FROM {schema}.rules) AND NOT EXISTS (SELECT FROM (
      SELECT j.type, j.due_at FROM {schema}.jobs j
      WHERE j.queue = is_first_due.queue AND j.state = 'scheduled' AND j.due_at > m.last - 1000 ORDER BY j.due_at LIMIT 64) coming
      WHERE coming.type = is_first_due.type AND coming.due_at <= is_first_due.due_at))
  FROM {schema}.meta m
$$;

-- What is there to tell about a job that comes to wait: true, news, for nobody of its queue, type, priority and group waits
-- yet, and no claim has said when one could start; false, others do; NULL, nothing, for they wait for a limit. Without a group
-- only the last second is looked at: that is told once too often where others wait for longer, and takes no longer where many
-- have gone (jobs/first_open.sql).
CREATE OR REPLACE FUNCTION {schema}.lane_news(queue text, type text, priority float8, grp text, now float8) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN n.first THEN true WHEN l.blocked_until > lane_news.now THEN NULL ELSE false END
  FROM (SELECT CASE
    WHEN lane_news.grp IS NULL THEN NOT EXISTS (SELECT FROM {schema}.jobs j
      WHERE j.queue = lane_news.queue AND j.type = lane_news.type AND j.priority = lane_news.priority
        AND j.state = 'waiting' AND j.grp IS NULL AND j.due_at > lane_news.now - 1000)
    ELSE NOT EXISTS (SELECT FROM {schema}.jobs j
      WHERE j.queue = lane_news.queue AND j.type = lane_news.type AND j.priority = lane_news.priority
        AND j.state = 'waiting' AND j.grp IS NOT NULL AND j.grp = lane_news.grp)
    END AS first) n
    LEFT JOIN {schema}.lanes l ON l.queue = lane_news.queue AND l.type = lane_news.type
      AND l.priority = lane_news.priority AND l.grp = coalesce(':' || lane_news.grp, '')
$$;
