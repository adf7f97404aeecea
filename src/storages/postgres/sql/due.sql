-- Scheduled jobs that come due, and what is worth a wake-up.
--
-- Locks: `show_due` begins a step (the rules, shared); jobs that come due are taken with SKIP LOCKED.

-- Scheduled jobs of the queue that have come due wait from now on: a thousand at the most. No wake-up: workers have
-- their wake-up time. One that backed off takes its old place. Answers how many.
CREATE OR REPLACE FUNCTION {schema}.promote_due(queue text, now float8) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  due tid[];
  -- Those that were given an instant which is still to come by the clock of the server: the clock of the storage was ahead since.
  early tid[];
  waiting {schema}.lane_job[];
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
      RETURNING {schema}.lane_job_of(j) AS job
    )
    SELECT array_agg(p.job) INTO waiting FROM promoted p;
    PERFORM {schema}.insert_arrivals(waiting);
  END IF;
  RETURN cardinality(due);
END
$$;

-- Jobs that have come due are shown as such, whether or not a claim came since: called before the states of a queue are read.
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

-- Is a job that comes to wait, or is scheduled, worth a wake-up? true: it is the first of its lane to wait, or the first of those to
-- come due, and it wakes up workers that a limit blocks, too. false: others wait there already. NULL: no, for a limit blocks these.
--
-- last: meta.last. ruled: there are rules, or were. Called before the job is there, or in the statement that brings it: STABLE does not see it. Of jobs without a
-- group and keys, and of those that should have come due, only the last second is looked at: that is one wake-up too many where others wait for
-- longer, and takes no longer where many have gone and the index is full of them.
CREATE OR REPLACE FUNCTION {schema}.wakes(queue text, type text, priority float8, grp text, keys text, due_at float8, now float8, last float8,
  ruled boolean) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF due_at > now THEN
    -- The first of its queue; where there are limits, which may keep other types back, of its type.
    IF NOT EXISTS (SELECT FROM {schema}.jobs j
      WHERE j.queue = wakes.queue AND j.state = 'scheduled' AND j.due_at > wakes.last - 1000 AND j.due_at <= wakes.due_at) THEN
      RETURN true;
    END IF;
    IF NOT ruled THEN
      RETURN false;
    END IF;
    RETURN NOT EXISTS (SELECT FROM (
      SELECT j.type, j.due_at FROM {schema}.jobs j
      WHERE j.queue = wakes.queue AND j.state = 'scheduled' AND j.due_at > wakes.last - 1000 ORDER BY j.due_at LIMIT 64) coming
      WHERE coming.type = wakes.type AND coming.due_at <= wakes.due_at);
  END IF;
  IF grp IS NULL AND keys IS NULL THEN
    PERFORM FROM {schema}.jobs j WHERE j.queue = wakes.queue AND j.type = wakes.type AND j.priority = wakes.priority
      AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL AND j.due_at > wakes.last - 1000 LIMIT 1;
  ELSE
    PERFORM FROM {schema}.jobs j WHERE j.queue = wakes.queue AND j.type = wakes.type AND j.priority = wakes.priority
      AND j.state = 'waiting' AND {schema}.in_lane(j.grp, j.keys, {schema}.lane_of(wakes.grp, wakes.keys)) LIMIT 1;
  END IF;
  IF NOT FOUND THEN
    RETURN true;
  END IF;
  RETURN CASE WHEN (SELECT {schema}.blocked_until(l) FROM {schema}.lanes l WHERE l.queue = wakes.queue AND l.type = wakes.type
    AND l.priority = wakes.priority AND l.grp = coalesce(':' || wakes.grp, '') AND l.keys = coalesce(wakes.keys, '')) > wakes.now
    THEN NULL ELSE false END;
END
$$;

-- What is worth a wake-up of jobs that wait or are scheduled now: [[queue, true or false as `wakes` says]].
CREATE OR REPLACE FUNCTION {schema}.wake_ups(jobs {schema}.lane_job[], now float8) RETURNS json
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT json_agg(json_build_array(w.queue, w.wakes)) FROM (
    SELECT l.queue, bool_or(l.wakes) AS wakes FROM (
      SELECT k.queue, {schema}.wakes(k.queue, k.type, k.priority, k.grp, k.keys, k.due_at, now, m.last, m.rules > 0) AS wakes FROM {schema}.meta m, (
        SELECT j.queue, j.type, j.priority, j.grp, j.keys, min(j.due_at) AS due_at FROM unnest(jobs) AS j
        WHERE j.state IN ('waiting', 'scheduled') GROUP BY j.queue, j.type, j.priority, j.grp, j.keys, j.state) k) l
    WHERE l.wakes IS NOT NULL GROUP BY l.queue) w);
END
$$;

-- Inserts arrivals for jobs with a group or keys that wait now: claims open lanes for them.
CREATE OR REPLACE FUNCTION {schema}.insert_arrivals(jobs {schema}.lane_job[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  INSERT INTO {schema}.arrivals (queue, type, priority, grp, keys, due_at, job)
  SELECT j.queue, j.type, j.priority, j.grp, j.keys, min(j.due_at), (array_agg(j.seq ORDER BY j.due_at, j.seq))[1] FROM unnest(jobs) AS j
  WHERE j.state = 'waiting' AND num_nonnulls(j.grp, j.keys) > 0 GROUP BY j.queue, j.type, j.priority, j.grp, j.keys ORDER BY 6, 7;
END
$$;
