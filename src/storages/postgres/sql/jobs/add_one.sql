-- Adds one job that asks for no idempotency key: as almost all are added, and the shortest way there is. Where more care is needed, for
-- there is something that it may weigh too much for, it goes the way of add. Fails with unique_violation if its id is there already.
--
-- due, deadline: instants; due_in, deadline_in: so long from now. teller: who adds, if others are to be told from inside of the
-- transaction (events/tell_added.sql). again: as add.
--
-- Answers as add. told: others were told of it; NULL: that is for the caller to do.
CREATE OR REPLACE FUNCTION {schema}.add_one(id text, data text, queue text, type text, due float8, due_in float8, priority float8,
  grp text, weights jsonb, max_attempts bigint, backoff text, timeout float8, deadline float8, deadline_in float8, keep_for float8,
  teller text, again boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
DECLARE
  latest float8;
  now float8;
  due_at float8;
  skew float8;
  ruled bigint;
  weighed boolean;
  blocked_until float8;
  -- Does anybody want events, and does anybody else listen?
  ears boolean[];
  -- NULL: there is nothing to tell.
  news boolean;
BEGIN
  -- What lane_news would say of a job without a group is asked here: one statement costs less than two.
  SELECT m.last, greatest(m.last, {schema}.wall() + m.skew), m.rules,
    (SELECT ARRAY[bool_or(l.events), bool_or(l.origin <> teller)] FROM {schema}.listeners l WHERE l.until > m.last),
    NOT EXISTS (SELECT FROM {schema}.jobs j WHERE j.queue = add_one.queue AND j.type = add_one.type
      AND j.priority = add_one.priority AND j.state = 'waiting' AND j.grp IS NULL AND j.due_at > m.last - 1000)
  INTO latest, now, ruled, ears, news FROM {schema}.meta m;
  -- Each expression costs something in every transaction: what is rare is asked for together.
  IF ruled > 0 OR again THEN
    -- Where there never was a rule nothing is weighed, and a limit that a claim brought along is hardly in the way of such a job.
    SELECT EXISTS (SELECT FROM {schema}.rules r WHERE r.rule ->> 'weight' IS NOT NULL),
      (SELECT l.blocked_until FROM {schema}.lanes l WHERE l.queue = add_one.queue AND l.type = add_one.type
        AND l.priority = add_one.priority AND l.grp = '')
    INTO weighed, blocked_until;
    IF weighed OR again THEN
      RETURN {schema}.add(json_build_array(json_strip_nulls(json_build_object('id', id, 'data', data, 'queue', queue, 'type', type,
        'due', due, 'due_in', due_in, 'priority', priority, 'grp', grp, 'weights', weights, 'max_attempts', max_attempts,
        'backoff', backoff, 'timeout', timeout, 'deadline', deadline, 'deadline_in', deadline_in, 'keep_for', keep_for))),
        again => again);
    END IF;
  END IF;
  -- Almost none has instants that somebody gave.
  IF due IS NOT NULL OR deadline IS NOT NULL THEN
    skew := {schema}.skew();
  END IF;
  due_at := greatest(now, coalesce(due + skew, now + due_in));
  IF due_at > now OR grp IS NOT NULL OR (blocked_until > now AND NOT news) THEN
    news := CASE WHEN due_at > now THEN {schema}.is_first_due(queue, type, due_at)
      WHEN grp IS NOT NULL THEN {schema}.lane_news(queue, type, priority, grp, now) END;
  END IF;
  INSERT INTO {schema}.jobs (id, queue, type, state, priority, grp, data, weights, max_attempts, backoff, timeout, deadline,
    deadline_wall, keep_for, created_at, due_at, due_wall)
  VALUES (id, queue, type, CASE WHEN due_at <= now THEN 'waiting' ELSE 'scheduled' END, priority, grp, data, weights, max_attempts,
    backoff, timeout, coalesce(deadline + skew, now + deadline_in), deadline, keep_for, now, due_at, CASE WHEN due_at > now THEN due END);
  IF grp IS NOT NULL OR ears[1] OR now >= latest + 100 THEN
    IF grp IS NOT NULL AND due_at <= now THEN
      INSERT INTO {schema}.arrivals (queue, type, priority, grp, due_at, job)
      SELECT j.queue, j.type, j.priority, j.grp, j.due_at, j.seq FROM {schema}.jobs j WHERE j.id = add_one.id;
    END IF;
    IF ears[1] THEN
      INSERT INTO {schema}.events (at, event)
      VALUES (now, json_build_object('event', 'added', 'queue', queue, 'id', id, 'type', type));
    END IF;
    IF now >= latest + 100 THEN
      now := {schema}.moment();
    END IF;
  END IF;
  RETURN {schema}.added_answer(queue, news, coalesce(ears[1], false),
    {schema}.tell_added(teller, ears[2], queue, news, coalesce(ears[1], false)));
END
$$;
