-- Adding jobs: `queue.add` and `queue.addBulk`.
--
-- jobs/add.ts calls `add_one` for one job, `add_many` for jobs that differ in ids and data only, and `add` for all others and inside
-- of a transaction of the user's. Adding takes no locks but those of idempotency keys (keys.sql): it only inserts.

-- Adds one job that asks for no idempotency key: as almost all are added, and the shortest way there is. Where more care is needed, for
-- there is something that it may weigh too much for, it goes the way of add. Fails with unique_violation if its id is there already.
--
-- due, deadline: instants; due_in, deadline_in: so long from now. teller: who adds, if others are to be told from inside of the
-- transaction (tell_added). again: as add.
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

-- Adds jobs that differ in nothing but their ids and data, and ask for no idempotency keys (add_alike). Fails with
-- unique_violation if one of their ids is there already, or comes twice.
--
-- ids, data: with U+001F between each and the next, which is in no JSON: texts are taken apart much sooner than JSON is read.
-- columns: what is the same for all. teller, again, and the answer: as add_one.
CREATE OR REPLACE FUNCTION {schema}.add_many(ids text, data text, columns json, teller text, again boolean DEFAULT false)
RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
DECLARE
  id_list CONSTANT text[] := string_to_array(ids, chr(31));
  data_list CONSTANT text[] := string_to_array(data, chr(31));
  answer text;
BEGIN
  IF NOT again THEN
    answer := {schema}.add_alike(id_list, data_list, columns, false, teller);
    IF answer IS NOT NULL THEN
      RETURN answer;
    END IF;
  END IF;
  RETURN {schema}.add({schema}.listed(id_list, data_list, columns), again => again);
END
$$;

-- Adds jobs: all of them or none. Nothing but INSERTs, as a rule, so that it can be part of a transaction of somebody else's, at
-- any isolation level, and holds up nobody until that one ends.
--
-- jobs: a list as jobs/add.ts writes it, or, where they are alike, {ids, data, and the columns that are the same for all}.
-- notify: the transaction is somebody else's, and whoever waits for jobs is told by NOTIFY as soon as it is committed; else it is
-- ours, and the caller tells. again: an earlier call may have been done, and its answer lost: what it has added counts as
-- added, and is told as news.
--
-- Answer: {others: [[number of the job from 0, the id that there is instead]], woken, everybody, events}, or, where nothing was
-- added, {refused: {why: "key", key, id, because} or {why: "weight", rule, weight, said, most}}.
CREATE OR REPLACE FUNCTION {schema}.add(jobs json, notify boolean DEFAULT false, again boolean DEFAULT false)
RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
DECLARE
  now float8;
  keyed boolean;
  weighed boolean;
  alike record;
  answer text;
  there boolean := again;
  rows record;
  everybody boolean := false;
  wrong text;
BEGIN
  IF json_typeof(jobs) = 'object' THEN
    SELECT * INTO alike FROM json_to_record(jobs) AS r (ids text[], data text[]);
    IF notify THEN
      answer := {schema}.add_alike(alike.ids, alike.data, jobs, true, NULL);
      IF answer IS NOT NULL THEN
        RETURN answer;
      END IF;
    END IF;
    jobs := {schema}.listed(alike.ids, alike.data, (jobs::jsonb - 'ids' - 'data')::json);
  END IF;
  -- Names are written as they are; inside of text every quote has a backslash before it.
  keyed := strpos(jobs::text, '"key":') > 0 OR strpos(jobs::text, '"key" :') > 0;
  weighed := EXISTS (SELECT FROM {schema}.rules r WHERE r.rule ->> 'weight' IS NOT NULL);
  now := {schema}.present();
  IF NOT keyed AND NOT weighed THEN
    IF NOT notify AND NOT again THEN
      BEGIN
        SELECT a.*, NULL::json AS others INTO rows FROM {schema}.add_rows(jobs, now, true) a;
      EXCEPTION WHEN unique_violation THEN
        there := true;
      END;
    END IF;
    -- In somebody else's transaction nothing is tried first: what can be undone costs more, the more of it there is in one.
    IF notify OR there THEN
      SELECT a.*, {schema}.not_added(jobs, a.made) AS others INTO rows FROM {schema}.add_rows(jobs, now, false) a;
    END IF;
  ELSE
    BEGIN
      SELECT * INTO rows FROM {schema}.add_with_care(jobs, now);
    EXCEPTION WHEN SQLSTATE 'SL002' THEN
      GET STACKED DIAGNOSTICS wrong = PG_EXCEPTION_DETAIL;
      RETURN json_build_object('refused', wrong::json);
    END;
    IF weighed AND cardinality(rows.gone) > 0 THEN
      everybody := true;
      IF NOT notify THEN
        PERFORM {schema}.begin_step();
        PERFORM {schema}.lock_limits({schema}.weighing());
        everybody := {schema}.left_lane(rows.gone);
      END IF;
    END IF;
  END IF;
  IF again THEN
    rows.others := {schema}.others_than(jobs, rows.others);
    rows.woken := (SELECT json_agg(DISTINCT jsonb_build_array(n.queue, true)) FROM json_to_recordset(jobs) AS n (queue text));
  END IF;
  IF NOT notify THEN
    -- The time is remembered, last: in somebody else's transaction that would keep others waiting until it ends.
    PERFORM {schema}.moment();
  END IF;
  IF notify AND cardinality(rows.made) > 0 THEN
    -- Whatever keeps them back now may be over when the transaction is.
    PERFORM {schema}.notify_queues((SELECT array_agg(DISTINCT n.queue) FROM json_to_recordset(jobs) AS n (queue text)));
  END IF;
  RETURN json_build_object('others', rows.others, 'woken', rows.woken, 'everybody', everybody, 'events', rows.told);
END
$$;

-- Adds jobs that differ in nothing but their ids and data, in their order, as almost all do that come at once.
--
-- columns: what is the same for all (jobs/add.ts). notify: as add. In somebody else's transaction jobs that are there already are left
-- out, for nothing may fail there; in ours such a one fails with unique_violation, which takes a sixth less time where there is none.
-- teller: as add_one.
--
-- Answers as add; told: as add_one. NULL: nothing was added, and more care is needed: they may have to be refused.
CREATE OR REPLACE FUNCTION {schema}.add_alike(ids text[], data text[], columns json, notify boolean, teller text) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  q record;
  sign record;
  now float8;
  due float8;
  made text[];
  others json;
  -- NULL: there is nothing to tell.
  news boolean;
  told boolean;
BEGIN
  SELECT * INTO q FROM json_to_record(columns) AS r (queue text, type text, due float8, due_in float8, priority float8, grp text,
    weights jsonb, max_attempts bigint, backoff text, timeout float8, deadline float8, deadline_in float8, keep_for float8);
  SELECT m.last, greatest(m.last, {schema}.wall() + m.skew) AS now, greatest(m.skew, m.last - {schema}.wall()) AS skew,
    EXISTS (SELECT FROM {schema}.rules r WHERE r.rule ->> 'weight' IS NOT NULL) AS weighed,
    EXISTS (SELECT FROM {schema}.listeners l WHERE l.events AND l.until > m.last) AS heard,
    EXISTS (SELECT FROM {schema}.listeners l WHERE l.origin <> teller AND l.until > m.last) AS listened
  INTO sign FROM {schema}.meta m;
  IF sign.weighed THEN
    RETURN NULL;
  END IF;
  now := sign.now;
  due := greatest(now, coalesce(q.due + sign.skew, now + q.due_in));
  news := CASE WHEN due <= now THEN {schema}.lane_news(q.queue, q.type, q.priority, q.grp, now)
    ELSE {schema}.is_first_due(q.queue, q.type, due) END;
  IF notify THEN
    WITH added AS (
      INSERT INTO {schema}.jobs AS j (id, queue, type, state, priority, grp, data, weights, max_attempts, backoff, timeout,
        deadline, deadline_wall, keep_for, created_at, due_at, due_wall)
      SELECT n.id, q.queue, q.type, CASE WHEN due <= now THEN 'waiting' ELSE 'scheduled' END, q.priority, q.grp, n.data, q.weights,
        q.max_attempts, q.backoff, q.timeout, coalesce(q.deadline + sign.skew, now + q.deadline_in), q.deadline,
        q.keep_for, now, due, CASE WHEN due > now THEN q.due END
      FROM (SELECT unnest(ids) AS id, unnest(add_alike.data) AS data) AS n
      ON CONFLICT (id) DO NOTHING RETURNING j.id
    )
    SELECT coalesce(array_agg(a.id), '{}') INTO made FROM added a;
    IF cardinality(made) < cardinality(ids) THEN
      others := {schema}.not_added((SELECT json_agg(json_build_object('id', i.id) ORDER BY i.no)
        FROM unnest(ids) WITH ORDINALITY AS i (id, no)), made);
    END IF;
    IF cardinality(made) = 0 THEN
      RETURN json_build_object('others', others);
    END IF;
  ELSE
    INSERT INTO {schema}.jobs (id, queue, type, state, priority, grp, data, weights, max_attempts, backoff, timeout, deadline,
      deadline_wall, keep_for, created_at, due_at, due_wall)
    SELECT n.id, q.queue, q.type, CASE WHEN due <= now THEN 'waiting' ELSE 'scheduled' END, q.priority, q.grp, n.data, q.weights,
      q.max_attempts, q.backoff, q.timeout, coalesce(q.deadline + sign.skew, now + q.deadline_in), q.deadline,
        q.keep_for, now, due, CASE WHEN due > now THEN q.due END
    FROM (SELECT unnest(ids) AS id, unnest(add_alike.data) AS data) AS n;
    made := ids;
  END IF;
  IF due <= now AND q.grp IS NOT NULL THEN
    INSERT INTO {schema}.arrivals (queue, type, priority, grp, due_at, job)
    SELECT q.queue, q.type, q.priority, q.grp, due, j.seq FROM {schema}.jobs j WHERE j.id = made[1];
  END IF;
  IF sign.heard THEN
    INSERT INTO {schema}.events (at, event)
    SELECT now, json_build_object('event', 'added', 'queue', q.queue, 'id', m.id, 'type', q.type) FROM unnest(made) AS m (id);
  END IF;
  IF notify THEN
    -- Whatever keeps them back now may be over when the transaction is.
    PERFORM {schema}.notify_queues(ARRAY[q.queue]);
    RETURN json_build_object('others', others);
  END IF;
  IF now >= sign.last + 100 THEN
    now := {schema}.moment();
  END IF;
  told := {schema}.tell_added(teller, sign.listened, q.queue, news, sign.heard);
  RETURN {schema}.added_answer(q.queue, news, sign.heard, told);
END
$$;

-- Adds jobs where something may have to be refused: they ask for idempotency keys, or are weighed. What is refused raises
-- SQLSTATE SL002. Keys that are free are taken for all jobs together; where one is not, the jobs come one by one.
--
-- Answers as add_rows does. others: [[number of the job from 0, the id that there is instead]]. gone: jobs that waited, and have
-- given way to others.
CREATE OR REPLACE FUNCTION {schema}.add_with_care(jobs json, now float8, OUT made text[], OUT woken json, OUT told boolean,
  OUT others json, OUT gone {schema}.gone_job[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  one record;
  taken record;
  rows record;
  wakes json[] := '{}';
  instead json[] := '{}';
BEGIN
  gone := '{}';
  IF {schema}.lock_keys(jobs, now) THEN
    SELECT * INTO rows FROM {schema}.add_rows(jobs, now, false);
    made := rows.made;
    woken := rows.woken;
    told := rows.told;
    others := {schema}.not_added(jobs, made);
  ELSE
    made := '{}';
    told := false;
    PERFORM {schema}.lock_holders(jobs, now);
    FOR one IN
      SELECT e.no - 1 AS no, e.job, n.* FROM json_array_elements(jobs) WITH ORDINALITY AS e (job, no)
      CROSS JOIN LATERAL json_to_record(e.job) AS n (id text, queue text, key text, fingerprint text, ttl float8, on_duplicate text)
      ORDER BY e.no
    LOOP
      IF one.key IS NOT NULL THEN
        SELECT * INTO taken FROM {schema}.take_key(one.id, one.queue, one.key, one.fingerprint, one.ttl, one.on_duplicate, now);
        IF (taken.gone).queue IS NOT NULL THEN
          gone := gone || taken.gone;
        END IF;
        IF taken.earlier IS NOT NULL THEN
          instead := instead || json_build_array(one.no, taken.earlier);
          CONTINUE;
        END IF;
      END IF;
      SELECT * INTO rows FROM {schema}.add_rows(json_build_array(one.job), now, false);
      IF cardinality(rows.made) = 0 THEN
        instead := instead || json_build_array(one.no, one.id);
      ELSE
        made := made || one.id;
        told := told OR rows.told;
        IF rows.woken IS NOT NULL THEN
          wakes := wakes || (rows.woken -> 0);
        END IF;
      END IF;
    END LOOP;
    -- Those that were locked for a job that was there already.
    DELETE FROM {schema}.keys k USING json_to_recordset(jobs) AS n (queue text, key text)
    WHERE k.queue = n.queue AND k.key = n.key AND k.expires_at = '-Infinity';
    others := array_to_json(instead);
    woken := array_to_json(wakes);
  END IF;
  PERFORM {schema}.refuse_impossible(made);
END
$$;

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

-- Puts jobs into the table, in their order; fails if one of their ids is there already. jobs: a list as jobs/add.ts writes it.
CREATE OR REPLACE FUNCTION {schema}.insert_jobs(jobs json, now float8)
RETURNS TABLE (seq bigint, id text, queue text, type text, state text, priority float8, grp text, due_at float8)
LANGUAGE sql VOLATILE AS $$
  INSERT INTO {schema}.jobs AS j (id, queue, type, state, priority, grp, data, weights, max_attempts, backoff, timeout, deadline,
    deadline_wall, keep_for, created_at, due_at, due_wall, idempotency_key)
  SELECT n.id, n.queue, n.type, CASE WHEN due.at <= now THEN 'waiting' ELSE 'scheduled' END, n.priority, n.grp, n.data,
    n.weights, n.max_attempts, n.backoff, n.timeout, coalesce(n.deadline + m.skew, now + n.deadline_in), n.deadline,
    n.keep_for, now, due.at, CASE WHEN due.at > now THEN n.due END, n.key
  FROM ROWS FROM (json_to_recordset(insert_jobs.jobs) AS (id text, queue text, type text, data text, due float8, due_in float8,
    priority float8, grp text, weights jsonb, max_attempts bigint, backoff text, timeout float8, deadline float8,
    deadline_in float8, keep_for float8, key text)) WITH ORDINALITY
    AS n (id, queue, type, data, due, due_in, priority, grp, weights, max_attempts, backoff, timeout, deadline, deadline_in,
      keep_for, key, no)
  CROSS JOIN (SELECT {schema}.skew() AS skew) m
  CROSS JOIN LATERAL (SELECT greatest(now, coalesce(n.due + m.skew, now + n.due_in)) AS at) due
  ORDER BY n.no
  RETURNING j.seq, j.id, j.queue, j.type, j.state, j.priority, j.grp, j.due_at
$$;

-- The same as insert_jobs, but jobs whose ids are there already are left out: to look for them takes a sixth more time.
CREATE OR REPLACE FUNCTION {schema}.insert_missing(jobs json, now float8)
RETURNS TABLE (seq bigint, id text, queue text, type text, state text, priority float8, grp text, due_at float8)
LANGUAGE sql VOLATILE AS $$
  INSERT INTO {schema}.jobs AS j (id, queue, type, state, priority, grp, data, weights, max_attempts, backoff, timeout, deadline,
    deadline_wall, keep_for, created_at, due_at, due_wall, idempotency_key)
  SELECT n.id, n.queue, n.type, CASE WHEN due.at <= now THEN 'waiting' ELSE 'scheduled' END, n.priority, n.grp, n.data,
    n.weights, n.max_attempts, n.backoff, n.timeout, coalesce(n.deadline + m.skew, now + n.deadline_in), n.deadline,
    n.keep_for, now, due.at, CASE WHEN due.at > now THEN n.due END, n.key
  FROM ROWS FROM (json_to_recordset(insert_missing.jobs) AS (id text, queue text, type text, data text, due float8, due_in float8,
    priority float8, grp text, weights jsonb, max_attempts bigint, backoff text, timeout float8, deadline float8,
    deadline_in float8, keep_for float8, key text)) WITH ORDINALITY
    AS n (id, queue, type, data, due, due_in, priority, grp, weights, max_attempts, backoff, timeout, deadline, deadline_in,
      keep_for, key, no)
  CROSS JOIN (SELECT {schema}.skew() AS skew) m
  CROSS JOIN LATERAL (SELECT greatest(now, coalesce(n.due + m.skew, now + n.due_in)) AS at) due
  ORDER BY n.no
  ON CONFLICT (id) DO NOTHING
  RETURNING j.seq, j.id, j.queue, j.type, j.state, j.priority, j.grp, j.due_at
$$;

-- Jobs that are alike (add_alike), as a list of jobs (insert_jobs).
CREATE OR REPLACE FUNCTION {schema}.listed(ids text[], data text[], columns json) RETURNS json
LANGUAGE sql STABLE AS $$
  SELECT json_agg(columns::jsonb || jsonb_build_object('id', n.id, 'data', n.data) ORDER BY n.no)
  FROM unnest(ids, data) WITH ORDINALITY AS n (id, data, no)
$$;

-- Which of the jobs were not added, for their ids were there, or came twice: [[number of the job from 0, its id]].
CREATE OR REPLACE FUNCTION {schema}.not_added(jobs json, made text[]) RETURNS json
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN cardinality(made) < json_array_length(jobs) THEN (
    SELECT json_agg(json_build_array(n.no - 1, n.id)) FROM (
      SELECT e.no, e.job ->> 'id' AS id, row_number() OVER (PARTITION BY e.job ->> 'id' ORDER BY e.no) AS time
      FROM json_array_elements(jobs) WITH ORDINALITY AS e (job, no)) n
    WHERE n.time > 1 OR n.id <> ALL (made)) END
$$;

-- Of jobs that were not added, for there is another one instead, those for which that is not the job itself: an earlier call has
-- added those. One that comes twice was added once.
--
-- jobs: a list as jobs/add.ts writes it. others: [[number of the job from 0, the id that there is instead]].
CREATE OR REPLACE FUNCTION {schema}.others_than(jobs json, others json) RETURNS json
LANGUAGE sql STABLE AS $$
  SELECT json_agg(o.other ORDER BY n.no) FROM (
    SELECT e.no, e.job ->> 'id' AS id, row_number() OVER (PARTITION BY e.job ->> 'id' ORDER BY e.no) AS time
    FROM json_array_elements(jobs) WITH ORDINALITY AS e (job, no)) n
  JOIN json_array_elements(others) AS o (other) ON (o.other ->> 0)::bigint = n.no - 1
  WHERE n.time > 1 OR n.id <> o.other ->> 1
$$;

-- What is answered where all jobs were added, which are of one queue (add). news: NULL, there is nothing to wake anybody for.
CREATE OR REPLACE FUNCTION {schema}.added_answer(queue text, news boolean, heard boolean, told boolean) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT json_build_object('woken', CASE WHEN news IS NOT NULL THEN json_build_array(json_build_array(queue, news)) END,
    'events', heard, 'told', told)::text
$$;

-- Refuses jobs (by their ids) that could never start under the limits in force, for they weigh too much: SQLSTATE SL002, with
-- what is wrong in DETAIL. As storage/stored-rules.ts: refuseImpossible.
CREATE OR REPLACE FUNCTION {schema}.refuse_impossible(ids text[]) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  wrong json;
BEGIN
  SELECT json_build_object('why', 'weight', 'rule', of.name, 'weight', of.weight, 'said', of.said, 'most', of.most) INTO wrong
  FROM (
    SELECT i.no, r.name, r.rule ->> 'weight' AS weight, said.weight AS said, CASE
      WHEN (r.rule #> '{quota,max}') <> 'null' THEN
        CASE WHEN quota.max > 0 AND said.weight > quota.max THEN quota.max
          WHEN quota.concurrency > 0 AND 1 > quota.concurrency THEN quota.concurrency END
      WHEN quota.max > 0 AND 1 > quota.max THEN quota.max
      WHEN quota.concurrency > 0 AND said.weight > quota.concurrency THEN quota.concurrency END AS most
    FROM unnest(refuse_impossible.ids) WITH ORDINALITY AS i (id, no)
    JOIN {schema}.jobs j ON j.id = i.id
    CROSS JOIN {schema}.rules r
    CROSS JOIN LATERAL (SELECT coalesce(j.weights -> (r.rule ->> 'weight'), r.rule -> 'estimate')::float8 AS weight) said
    CROSS JOIN LATERAL (SELECT CASE
      WHEN (r.rule ->> 'byGroup')::boolean AND j.grp IS NOT NULL
        THEN (r.rule -> 'quota') || coalesce(r.rule -> 'groups' -> j.grp, '{}') ELSE r.rule -> 'quota' END AS q) own
    CROSS JOIN LATERAL (SELECT (own.q ->> 'max')::float8 AS max, (own.q ->> 'concurrency')::float8 AS concurrency) quota
    WHERE r.rule ->> 'weight' IS NOT NULL
      AND (r.rule -> 'queues' = 'null' OR (r.rule -> 'queues') ? j.queue)
      AND (r.rule -> 'types' = 'null' OR (r.rule -> 'types') ? j.type)
  ) of
  WHERE of.most IS NOT NULL ORDER BY of.no, of.name LIMIT 1;
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION 'the job can never start: it weighs % under the limit "%"', wrong ->> 'said', wrong ->> 'rule'
      USING ERRCODE = 'SL002', DETAIL = wrong::text;
  END IF;
END
$$;
