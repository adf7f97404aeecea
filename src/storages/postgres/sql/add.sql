-- Adding jobs: `queue.add` and `queue.addBulk`, with or without a transaction of the user's.
--
-- jobs/add.ts calls `add_uniform` where jobs differ in ids and data only, as almost all do, and else `add`; in a transaction of the
-- user's `add_inside`, which chooses. `add_uniform` inserts by itself: by way of `insert_jobs` one job would cost a fifth more.
--
-- Locks: none of the locks of steps, so that adding can be part of a transaction of the user's, at any isolation level, and holds up
-- nothing until that one ends; only idempotency keys are locked (idempotency.sql). Where a waiting job is replaced and limits weigh, the
-- rules and those limits are locked at the end, outside of transactions of the user's.

-- Adds jobs that differ in nothing but their ids and data, and ask for no idempotency keys, in their order. Raises unique_violation if
-- one of the ids is there already. Where limits weigh, the jobs may have to be refused, and go the way of `add`.
--
-- ids, data: of all jobs, as one text each with `separator` between them: texts are taken apart much sooner than JSON is read.
-- due, deadline: instants by the clock of the server; due_in, deadline_in: so long from now. teller: the storage that adds, if it may
-- notify others inside the transaction (notify_added). notify, again, and the answer: as `add`.
CREATE OR REPLACE FUNCTION {schema}.add_uniform_{version}(ids text, data text, separator text, queue text, type text, due float8, due_in float8,
  priority float8, grp text, keys text, weights jsonb, max_attempts bigint, backoff text, timeout float8, deadline float8,
  deadline_in float8, keep_for float8, teller text, notify boolean DEFAULT false, again boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
DECLARE
  last float8;
  now float8;
  skew float8;
  due_at float8;
  ruled boolean;
  -- Does a listener want events, and is there another listener than the caller?
  ears boolean[];
  -- As `wakes` says; NULL: no wake-up.
  wake boolean;
BEGIN
  -- What `wakes` would say of a job without a group is asked here: one statement costs less than two.
  SELECT m.last, greatest(m.last, {schema}.wall() + m.skew), m.rules > 0,
    (SELECT ARRAY[bool_or(l.events), bool_or(l.origin <> teller)] FROM {schema}.listeners l WHERE l.until > m.last),
    NOT EXISTS (SELECT FROM {schema}.jobs j WHERE j.queue = add_uniform_{version}.queue AND j.type = add_uniform_{version}.type
      AND j.priority = add_uniform_{version}.priority AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL AND j.due_at > m.last - 1000)
  INTO last, now, ruled, ears, wake FROM {schema}.meta m;
  -- Each expression costs something in every transaction, and one with a subquery ten times as much: what is rare is asked for together.
  IF ruled OR again THEN
    IF again OR EXISTS (SELECT FROM {schema}.rules r WHERE r.rule ->> 'weight' IS NOT NULL) THEN
      RETURN {schema}.add_{version}(json_build_object('ids', ids, 'data', data, 'separator', separator, 'kinds', json_build_array(
        json_build_object('queue', queue, 'type', type, 'due', due, 'due_in', due_in, 'priority', priority, 'grp', grp,
          'keys', keys, 'weights', weights, 'max_attempts', max_attempts, 'backoff', backoff, 'timeout', timeout, 'deadline', deadline,
          'deadline_in', deadline_in, 'keep_for', keep_for))), notify, notify, again);
    END IF;
  END IF;
  IF due IS NOT NULL OR deadline IS NOT NULL THEN
    skew := {schema}.skew();
  END IF;
  due_at := greatest(now, coalesce(due + skew, now + due_in));
  IF due_at > now OR grp IS NOT NULL OR keys IS NOT NULL OR (ruled AND NOT wake) THEN
    wake := {schema}.wakes(queue, type, priority, grp, keys, due_at, now, last, ruled);
  END IF;
  INSERT INTO {schema}.jobs (id, queue, type, state, priority, grp, keys, data, weights, max_attempts, backoff, timeout, deadline,
    deadline_wall, keep_for, created_at, due_at, due_wall)
  SELECT unnest(string_to_array(ids, separator)), queue, type, CASE WHEN due_at > now THEN 'scheduled' ELSE 'waiting' END, priority, grp,
    keys, unnest(string_to_array(add_uniform_{version}.data, separator)), weights, max_attempts, backoff, timeout,
    coalesce(deadline + skew, now + deadline_in), deadline, keep_for, now, due_at, CASE WHEN due_at > now THEN due END;
  IF grp IS NOT NULL OR keys IS NOT NULL OR ears[1] OR notify OR now >= last + 100 THEN
    IF num_nonnulls(grp, keys) > 0 AND due_at <= now THEN
      -- The first of them.
      INSERT INTO {schema}.arrivals (queue, type, priority, grp, keys, due_at, job)
      SELECT j.queue, j.type, j.priority, j.grp, j.keys, j.due_at, j.seq FROM {schema}.jobs j WHERE j.id = split_part(ids, separator, 1);
    END IF;
    IF ears[1] THEN
      INSERT INTO {schema}.events (at, event)
      SELECT now, json_build_object('event', 'added', 'queue', queue, 'id', n.id, 'type', type)
      FROM unnest(string_to_array(ids, separator)) AS n (id);
    END IF;
    IF notify THEN
      -- Whatever keeps them back now may be over when the transaction is.
      PERFORM {schema}.notify_queues(ARRAY[queue]);
      RETURN '{}';
    END IF;
    IF now >= last + 100 THEN
      now := {schema}.moment();
    END IF;
  END IF;
  RETURN json_build_object('woken', CASE WHEN wake IS NOT NULL THEN json_build_array(json_build_array(queue, wake)) END,
    'events', coalesce(ears[1], false), 'notified', {schema}.notify_added(teller, ears[2], queue, wake, coalesce(ears[1], false)));
END
$$;

-- Adds jobs, whatever they are: all of them or none.
--
-- jobs: {ids, data, separator, kinds, kind_of, idempotency}: ids, data, separator: as in `add_uniform`. kinds: what jobs have in common, a list
-- of objects of the columns that `add_uniform` names. kind_of: the kind of each job, from 1; NULL: all are of the first.
-- idempotency: NULL, or an entry for each job, {} or {id, queue, key, fingerprint, ttl, on_duplicate} (idempotency.sql).
-- repeated: ids may be there already, and those jobs are left out; else such an id raises unique_violation.
-- notify: the transaction is the user's. Ids that are there are left out, and listeners are notified when it is committed.
-- again: an earlier call may have been committed, and its answer lost: what it has added counts as added, and is notified again.
--
-- Answer: {others: [[number of the job from 0, the id that there is instead]], woken, wakeAll, events, notified}; notified: others were
-- notified, NULL: the caller has to do that. Or, where nothing was added, {refused: {why: "key", key, id, because} or {why: "weight",
-- rule, weight, said, most}}.
CREATE OR REPLACE FUNCTION {schema}.add_{version}(jobs json, repeated boolean, notify boolean DEFAULT false, again boolean DEFAULT false)
RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
DECLARE
  said record;
  ids text[];
  data text[];
  -- The time, whether limits weigh, and whether a listener wants events.
  seen record;
  kinds record;
  taken record;
  -- By the number of the job: the id that there is instead. NULL: all of them are added.
  instead text[];
  -- The same, with those that give way to a later one of the call; and the ids of the jobs that were inserted.
  left_out text[];
  made text[];
  added text[];
  -- Jobs that have given way, and waited.
  gone {schema}.lane_job[];
  others json;
  wake_all boolean := false;
  wrong text;
BEGIN
  SELECT * INTO said FROM json_to_record(jobs) AS r (ids text, data text, separator text, kinds json, kind_of integer[], idempotency json);
  ids := CASE said.ids WHEN '' THEN '{""}' ELSE string_to_array(said.ids, said.separator) END;
  data := string_to_array(said.data, said.separator);
  SELECT m.last, greatest(m.last, {schema}.wall() + m.skew) AS now, greatest(m.skew, m.last - {schema}.wall()) AS skew,
    m.rules > 0 AS ruled, EXISTS (SELECT FROM {schema}.rules r WHERE r.rule ->> 'weight' IS NOT NULL) AS weighed,
    EXISTS (SELECT FROM {schema}.listeners l WHERE l.events AND l.until > m.last) AS events
  INTO seen FROM {schema}.meta m;
  SELECT * INTO kinds FROM {schema}.kinds_of(said.kinds, seen.skew, seen.now, seen.last, seen.ruled);
  IF said.idempotency IS NULL AND NOT seen.weighed THEN
    IF repeated OR notify OR again THEN
      instead := {schema}.ids_there(ids);
    END IF;
    left_out := instead;
    made := {schema}.insert_jobs(ids, data, NULL, said.kind_of, left_out, kinds.kinds_due, seen.now);
  ELSE
    BEGIN
      SELECT * INTO taken FROM {schema}.take_keys(said.idempotency, ids, seen.now);
      instead := taken.instead;
      gone := taken.gone;
      left_out := taken.left_out;
      made := {schema}.insert_jobs(ids, data, taken.keys, said.kind_of, left_out, kinds.kinds_due, seen.now);
      PERFORM {schema}.refuse_impossible(ARRAY(SELECT i.id FROM unnest(ids, instead) AS i (id, other) WHERE i.other IS NULL));
    EXCEPTION WHEN SQLSTATE 'SL002' THEN
      GET STACKED DIAGNOSTICS wrong = PG_EXCEPTION_DETAIL;
      RETURN json_build_object('refused', wrong::json);
    END;
  END IF;
  -- A concurrent call has added some of them since they were looked for: an earlier attempt of this one, as a rule.
  IF cardinality(made) < (SELECT count(*) FROM unnest(ids, left_out) AS i (id, other) WHERE i.other IS NULL) THEN
    IF NOT (repeated OR notify OR again) THEN
      RAISE unique_violation USING MESSAGE = 'a job with one of the ids is there already';
    END IF;
    instead := ARRAY(SELECT CASE WHEN i.gone IS NULL AND i.id <> ALL (made) THEN i.id ELSE i.other END
      FROM unnest(ids, instead, left_out) WITH ORDINALITY AS i (id, other, gone, no) ORDER BY i.no);
  END IF;
  added := ids;
  IF instead IS NOT NULL THEN
    added := ARRAY(SELECT i.id FROM unnest(ids, instead) AS i (id, other) WHERE i.other IS NULL);
    others := (SELECT json_agg(json_build_array(i.no - 1, i.other)) FROM (
        SELECT i.*, row_number() OVER (PARTITION BY i.id ORDER BY i.no) AS time
        FROM unnest(ids, instead) WITH ORDINALITY AS i (id, other, no)) i
      WHERE i.other IS NOT NULL AND NOT (again AND i.other = i.id AND i.time = 1));
    IF cardinality(added) = 0 AND NOT again THEN
      RETURN json_build_object('others', others);
    END IF;
  END IF;

  IF kinds.grouped THEN
    PERFORM {schema}.insert_arrivals(ARRAY(SELECT {schema}.lane_job_of(j)
      FROM {schema}.jobs j WHERE j.id = ANY (added)));
  END IF;
  IF seen.events THEN
    INSERT INTO {schema}.events (at, event)
    SELECT seen.now, json_build_object('event', 'added', 'queue', k.queue, 'id', i.id, 'type', k.type)
    FROM unnest(ids, said.kind_of, instead) WITH ORDINALITY AS i (id, kind, other, no)
    JOIN unnest(kinds.kinds_due) AS k ON k.no = coalesce(i.kind, 1) WHERE i.other IS NULL ORDER BY i.no;
  END IF;
  IF notify THEN
    IF seen.weighed AND gone IS NOT NULL THEN
      -- One of them may be a heavy head that others wait behind: no lock of a limit can be taken here, but the next claim looks.
      PERFORM {schema}.insert_arrivals(gone);
    END IF;
    -- Whatever keeps them back now may be over when the transaction is.
    PERFORM {schema}.notify_queues(ARRAY(SELECT k.queue FROM unnest(kinds.kinds_due) AS k));
    RETURN json_build_object('others', others);
  END IF;
  IF seen.weighed AND gone IS NOT NULL THEN
    PERFORM {schema}.begin_step();
    PERFORM {schema}.lock_limits({schema}.weighing());
    wake_all := {schema}.left_lane(gone);
  END IF;
  -- The time is remembered, last: in a transaction of the user's that would keep others waiting until it ends.
  PERFORM {schema}.moment();
  RETURN json_build_object('others', others, 'wakeAll', wake_all, 'events', seen.events, 'woken', CASE WHEN again
    THEN (SELECT json_agg(DISTINCT jsonb_build_array(k.queue, true)) FROM unnest(kinds.kinds_due) AS k) ELSE kinds.woken END);
END
$$;

-- Adds jobs in a transaction of the user's, as `add` with `notify`. Of the driver no more is known than that it can bind a text.
CREATE OR REPLACE FUNCTION {schema}.add_inside_{version}(jobs json) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
DECLARE
  s record;
BEGIN
  SELECT * INTO s FROM json_to_record(jobs) AS j (ids text, data text, separator text, kinds json, idempotency json)
    CROSS JOIN LATERAL json_to_record(j.kinds -> 0) AS k (queue text, type text, due float8, due_in float8, priority float8,
      grp text, keys text, weights jsonb, max_attempts bigint, backoff text, timeout float8, deadline float8, deadline_in float8, keep_for float8);
  IF s.idempotency IS NULL AND json_array_length(s.kinds) = 1 AND s.ids <> ''
    AND {schema}.ids_there(string_to_array(s.ids, s.separator)) IS NULL THEN
    RETURN {schema}.add_uniform_{version}(s.ids, s.data, s.separator, s.queue, s.type, s.due, s.due_in, s.priority, s.grp, s.keys, s.weights,
      s.max_attempts, s.backoff, s.timeout, s.deadline, s.deadline_in, s.keep_for, NULL, notify => true);
  END IF;
  RETURN {schema}.add_{version}(jobs, true, notify => true);
END
$$;

-- Kinds of jobs with their instants, for `add`, and what is worth a wake-up of them; grouped: jobs of some of them wait in lanes of groups
-- or keys.
CREATE OR REPLACE FUNCTION {schema}.kinds_of(kinds json, skew float8, now float8, last float8, ruled boolean, OUT kinds_due {schema}.job_kind[],
  OUT woken json, OUT grouped boolean)
LANGUAGE plpgsql STABLE AS $$
BEGIN
  SELECT array_agg((k.no, k.queue, k.type, CASE WHEN k.due_at > now THEN 'scheduled' ELSE 'waiting' END, k.priority, k.grp, k.keys, k.weights,
      k.max_attempts, k.backoff, k.timeout, coalesce(k.deadline + skew, now + k.deadline_in), k.deadline, k.keep_for, k.due_at,
      CASE WHEN k.due_at > now THEN k.due END)::{schema}.job_kind),
    json_agg(DISTINCT jsonb_build_array(k.queue, k.wake)) FILTER (WHERE k.wake IS NOT NULL),
    bool_or(num_nonnulls(k.grp, k.keys) > 0 AND k.due_at <= now)
  INTO kinds_due, woken, grouped FROM (
    SELECT d.*, CASE WHEN d.no <= 20 THEN {schema}.wakes(d.queue, d.type, d.priority, d.grp, d.keys, d.due_at, now, last, ruled)
      -- Many kinds at once are worth a wake-up without a further look.
      ELSE true END AS wake
    FROM (
      SELECT j.*, greatest(now, coalesce(j.due + skew, now + j.due_in)) AS due_at
      FROM ROWS FROM (json_to_recordset(kinds) AS (queue text, type text, due float8, due_in float8, priority float8, grp text,
        keys text, weights jsonb, max_attempts bigint, backoff text, timeout float8, deadline float8, deadline_in float8, keep_for float8))
        WITH ORDINALITY AS j (queue, type, due, due_in, priority, grp, keys, weights, max_attempts, backoff, timeout, deadline,
          deadline_in, keep_for, no)
    ) d
  ) k;
END
$$;

-- Inserts jobs in their order, so that they are numbered by it. Ids that are there are left out; one that a concurrent transaction is
-- adding is waited for. Answers with the ids of those that were inserted.
--
-- data, idempotency, kind_of: by the number of the job; idempotency, kind_of: NULL where none has a key, and all are of the first kind.
-- instead: jobs that have an entry here are left out; NULL: none is.
CREATE OR REPLACE FUNCTION {schema}.insert_jobs(ids text[], data text[], idempotency text[], kind_of integer[], instead text[],
  kinds {schema}.job_kind[], now float8) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  made text[];
BEGIN
  WITH made AS (
    INSERT INTO {schema}.jobs (id, queue, type, state, priority, grp, keys, data, weights, max_attempts, backoff, timeout, deadline,
      deadline_wall, keep_for, created_at, due_at, due_wall, idempotency_key)
    SELECT n.id, k.queue, k.type, k.state, k.priority, k.grp, k.keys, n.data, k.weights, k.max_attempts, k.backoff, k.timeout, k.deadline,
      k.deadline_wall, k.keep_for, now, k.due_at, k.due_wall, n.key
    FROM unnest(ids, insert_jobs.data, kind_of, idempotency, instead) WITH ORDINALITY AS n (id, data, kind, key, other, no)
    JOIN unnest(kinds) AS k ON k.no = coalesce(n.kind, 1)
    WHERE n.other IS NULL ORDER BY n.no
    ON CONFLICT (id) DO NOTHING RETURNING id
  )
  SELECT array_agg(m.id) INTO made FROM made m;
  RETURN coalesce(made, '{}');
END
$$;

-- By their numbers, those of these ids that are there already or come for the second time; NULL: there are none.
CREATE OR REPLACE FUNCTION {schema}.ids_there(ids text[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  there CONSTANT text[] := ARRAY(SELECT j.id FROM {schema}.jobs j WHERE j.id = ANY (ids));
BEGIN
  IF cardinality(there) = 0 AND cardinality(ids) = (SELECT count(DISTINCT i.id) FROM unnest(ids) AS i (id)) THEN
    RETURN NULL;
  END IF;
  RETURN ARRAY(SELECT CASE WHEN i.time > 1 OR i.id = ANY (there) THEN i.id END FROM (
    SELECT i.*, row_number() OVER (PARTITION BY i.id ORDER BY i.no) AS time
    FROM unnest(ids) WITH ORDINALITY AS i (id, no)) i ORDER BY i.no);
END
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
      WHEN (r.rule ->> 'byGroup')::boolean
        THEN (r.rule -> 'quota') || coalesce(r.rule -> 'groups' -> {schema}.group_of({schema}.state_of(r.fields, j.grp, j.keys)), '{}')
        ELSE r.rule -> 'quota' END AS q) own
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
