-- Leases: how they last (heartbeats, reports), how they end (settle), and attempts that are given back.
--
-- Locks: the rules (shared), the rows of the jobs in the order of their ids, then the limits that the jobs hold something of or are
-- charged to.

-- Keeps leases for lease_ms from now. One that has expired is lost for good, even if no sweep has ended it yet.
--
-- Each job is looked up by its id (complete_fast), and its lease in a hash table of those that are meant, in whatever order
-- they come: a look through all of them, for each, would cost more than anything else. The planner makes that table of a
-- subquery that it cannot turn into a join: therefore IS TRUE.
--
-- leases: [{n, id, token}], in any order. Answer: {lost: [n], cancelled: [n]}: leases that were lost, and jobs that are
-- to be cancelled.
CREATE OR REPLACE FUNCTION {schema}.heartbeat_{version}(leases json, lease_ms float8) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
DECLARE
  now float8;
  ns integer[];
  ids text[];
  tokens bigint[];
  ats tid[];
  -- What was kept, and which of that is to be stopped.
  kept_ids text[];
  kept bigint[];
  stopping text[];
BEGIN
  PERFORM {schema}.begin_step();
  SELECT array_agg(o.n), array_agg(o.id), array_agg(o.token) INTO ns, ids, tokens
  FROM json_to_recordset(leases) AS o (n integer, id text, token bigint);
  SELECT array_agg(l.at) INTO ats FROM (
    SELECT j.ctid AS at FROM {schema}.jobs j
    WHERE j.id = ANY (ids) AND j.lease_until IS NOT NULL
      AND ((j.id, j.token) IN (SELECT o.id, o.token FROM unnest(ids, tokens) AS o (id, token))) IS TRUE
    ORDER BY j.id FOR UPDATE
  ) l;
  now := {schema}.moment();
  WITH renewed AS (
    UPDATE {schema}.jobs j SET lease_until = now + lease_ms WHERE j.ctid = ANY (ats) AND j.lease_until > now
    RETURNING j.id, j.token, j.cancel_requested
  )
  SELECT array_agg(r.id), array_agg(r.token), array_agg(r.id) FILTER (WHERE r.cancel_requested) INTO kept_ids, kept, stopping
  FROM renewed r;
  IF cardinality(kept) = cardinality(ids) AND stopping IS NULL THEN
    RETURN '{"lost": [], "cancelled": []}';
  END IF;
  RETURN json_build_object('lost', ARRAY(
      SELECT o.n FROM unnest(ns, ids, tokens) AS o (n, id, token)
      WHERE ((o.id, o.token) IN (SELECT k.id, k.token FROM unnest(kept_ids, kept) AS k (id, token))) IS NOT TRUE ORDER BY o.n
    ), 'cancelled', ARRAY(
      SELECT o.n FROM unnest(ns, ids, tokens) AS o (n, id, token)
      WHERE ((o.id, o.token) IN (SELECT k.id, k.token FROM unnest(kept_ids, kept) AS k (id, token))) IS TRUE
        AND (o.id IN (SELECT s.id FROM unnest(stopping) AS s (id))) IS TRUE ORDER BY o.n
    ));
END
$$;

-- Writes progress, log lines and real weights of running jobs.
--
-- reports: [{n, id, token, progress: its text, log: [text], warnings: [{about, message}],
-- weights: {name: weight}}]. Answer: {lost: [n], wakeAll, events}.
CREATE OR REPLACE FUNCTION {schema}.report_{version}(reports json) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
DECLARE
  now float8;
  ids text[];
  leased bigint[];
  ns integer[];
  tokens bigint[];
  taken jsonb[];
  one record;
  given {schema}.limit_given[] := '{}';
  published boolean;
  warned boolean;
BEGIN
  PERFORM {schema}.begin_step();
  SELECT array_agg(o.id), array_agg(o.token) INTO ids, leased FROM json_to_recordset(reports) AS o (id text, token bigint);
  -- Each is looked up by its id (complete_fast).
  WITH locked AS MATERIALIZED (
    SELECT j.id, j.token, j.limits FROM {schema}.jobs j
    WHERE j.id = ANY (ids) AND j.token = ANY (leased) AND j.lease_until IS NOT NULL ORDER BY j.id FOR UPDATE
  )
  SELECT coalesce(array_agg(o.n), '{}'), array_agg(l.token) FILTER (WHERE o.weights IS NOT NULL),
    array_agg(l.limits) FILTER (WHERE o.weights IS NOT NULL)
  INTO ns, tokens, taken
  FROM locked l JOIN json_to_recordset(reports) AS o (n integer, id text, token bigint, weights json)
    ON o.token = l.token AND o.id = l.id;
  IF tokens IS NOT NULL THEN
    -- What the jobs hold each for itself, and what they took.
    PERFORM {schema}.lock_limits(ARRAY(
      SELECT l.name FROM {schema}.slots h JOIN {schema}.limits l ON l.id = h.limit_id WHERE h.token = ANY (tokens)
      UNION
      SELECT l.name FROM unnest(taken) AS list, jsonb_array_elements(list) AS t JOIN {schema}.limits l ON l.id = (t ->> 0)::bigint));
  END IF;
  now := {schema}.moment();
  published := {schema}.events_wanted(now);
  PERFORM {schema}.write_log(reports, ns, now);
  FOR one IN
    SELECT o.id, o.weights FROM json_to_recordset(reports) AS o (n integer, id text, weights jsonb)
    WHERE o.weights IS NOT NULL AND o.n = ANY (ns) ORDER BY o.n
  LOOP
    given := given || (SELECT {schema}.correct_weights(j.seq, j.token, j.started_at, j.limits, one.weights, now)
      FROM {schema}.jobs j WHERE j.id = one.id);
  END LOOP;
  INSERT INTO {schema}.events (at, event)
  SELECT now, json_build_object('event', 'warning', 'queue', j.queue, 'id', j.id, 'type', j.type, 'attempt', j.attempt,
    'about', w.warning->>'about', 'message', w.warning->>'message')
  FROM json_to_recordset(reports) AS o (n integer, id text, warnings json)
  JOIN {schema}.jobs j ON j.id = o.id
  CROSS JOIN LATERAL json_array_elements(o.warnings) WITH ORDINALITY AS w (warning, i)
  WHERE published AND o.n = ANY (ns) ORDER BY o.n, w.i;
  warned := FOUND;
  WITH said AS (
    SELECT o.n, o.id, o.progress FROM json_to_recordset(reports) AS o (n integer, id text, progress text)
    WHERE o.progress IS NOT NULL AND o.n = ANY (ns)
  ), latest AS (
    SELECT DISTINCT ON (s.id) s.id, s.progress FROM said s ORDER BY s.id, s.n DESC
  ), written AS (
    UPDATE {schema}.jobs j SET progress = l.progress FROM latest l WHERE j.id = l.id RETURNING j.id, j.queue, j.type
  )
  INSERT INTO {schema}.events (at, event)
  SELECT now, json_build_object('event', 'progress', 'queue', w.queue, 'id', w.id, 'type', w.type, 'progress', s.progress::json)
  FROM said s JOIN written w ON w.id = s.id WHERE published ORDER BY s.n;
  published := FOUND OR warned;
  RETURN json_build_object('events', published, 'wakeAll', {schema}.wakes_waiters(given, now), 'lost', ARRAY(
    SELECT o.n FROM json_to_recordset(reports) AS o (n integer) WHERE o.n <> ALL (ns) ORDER BY o.n));
END
$$;

-- Writes the log lines of these reports (report; only those of the numbers ns). The latest thousand of a job are kept.
CREATE OR REPLACE FUNCTION {schema}.write_log(reports json, ns integer[], now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  written bigint[];
BEGIN
  WITH lines AS (
    INSERT INTO {schema}.log (job, at, attempt, text)
    SELECT j.seq, now, j.attempt, line.text
    FROM json_to_recordset(reports) AS o (n integer, id text, log json)
    CROSS JOIN LATERAL json_array_elements_text(o.log) WITH ORDINALITY AS line (text, no)
    JOIN {schema}.jobs j ON j.id = o.id
    WHERE o.n = ANY (ns)
    ORDER BY o.n, line.no
    RETURNING job
  )
  SELECT array_agg(DISTINCT l.job) INTO written FROM lines l;
  IF written IS NOT NULL THEN
    -- Deleting the job goes by this: there is a log to delete.
    UPDATE {schema}.jobs j SET logged = true
    WHERE j.id = ANY (ARRAY(SELECT o.id FROM json_to_recordset(reports) AS o (n integer, id text) WHERE o.n = ANY (ns)))
      AND j.seq = ANY (written) AND NOT j.logged;
    DELETE FROM {schema}.log l USING unnest(written) AS w (job) WHERE l.job = w.job AND l.seq <=
      (SELECT k.seq FROM {schema}.log k WHERE k.job = w.job ORDER BY k.seq DESC OFFSET 1000 LIMIT 1);
  END IF;
END
$$;

-- Ends leases, one for each job.
--
-- outcomes: a list, as lock_leases takes it; or, where all of them ended well, {ids, tokens, results}, as complete_fast does.
-- again: as lock_leases. Answer: {stale: [numbers of outcomes whose lease was lost], woken, wakeAll, events, ends}.
CREATE OR REPLACE FUNCTION {schema}.settle_{version}(outcomes json, again boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_hashjoin = off AS $$
DECLARE
  now float8;
  begun boolean := {schema}.begin_step() IS NULL;
  ruled boolean := EXISTS (SELECT FROM {schema}.rules);
  plain record;
  completed bigint[];
  ending {schema}.ending_leases;
  ended record;
  wake_all boolean := false;
BEGIN
  now := {schema}.present();
  IF json_typeof(outcomes) = 'object' THEN
    SELECT * INTO plain FROM json_to_record(outcomes) AS r (ids text[], tokens bigint[], results jsonb);
    IF NOT {schema}.events_wanted(now) THEN
      completed := {schema}.complete_fast(plain.ids, plain.tokens, plain.results,
        (SELECT j.keep_for IS DISTINCT FROM 0 FROM {schema}.jobs j WHERE j.id = plain.ids[1]), now);
      IF cardinality(completed) = cardinality(plain.ids) AND NOT ruled THEN
        RETURN CASE WHEN {schema}.publish_ends(plain.ids, now) THEN '{"stale": [], "ends": true}' ELSE '{"stale": []}' END;
      END IF;
    END IF;
    ending := {schema}.begin_settle(NULL, plain.ids, plain.tokens, plain.results, completed, ruled, again, now);
  ELSE
    ending := {schema}.begin_settle(outcomes, NULL, NULL, NULL, NULL, ruled, again, now);
  END IF;
  IF cardinality(ending.limits) > 0 THEN
    PERFORM {schema}.lock_limits(ending.limits);
  END IF;
  now := {schema}.moment();
  ended := {schema}.finish_settle(ending, now);
  IF ended.given IS NOT NULL THEN
    wake_all := {schema}.wakes_waiters(ended.given, now);
  END IF;
  RETURN json_build_object('stale', ending.stale, 'woken', ended.woken, 'wakeAll', wake_all, 'events', ended.published,
    'ends', ending.ends_published);
END
$$;

-- Locks the jobs whose leases are to be ended, by a settle or a claim, and finds out which limits have to be locked for it.
--
-- outcomes: a list, as lock_leases takes it; or ids, leased, results: as complete_fast, of which these are `completed` already (NULL:
-- none). ruled: there are limits. again: as lock_leases.
CREATE OR REPLACE FUNCTION {schema}.begin_settle(outcomes json, ids text[], leased bigint[], results jsonb, completed bigint[],
  ruled boolean, again boolean, now float8) RETURNS {schema}.ending_leases
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  ending {schema}.ending_leases;
BEGIN
  completed := coalesce(completed, '{}');
  IF cardinality(completed) < cardinality(ids) THEN
    outcomes := (SELECT json_agg(json_build_object('n', o.no - 1, 'id', o.id, 'token', o.token, 'result', results ->> o.id))
      FROM unnest(ids, leased) WITH ORDINALITY AS o (id, token, no) WHERE o.token <> ALL (completed));
  END IF;
  IF outcomes IS NOT NULL THEN
    ending := {schema}.lock_leases(outcomes, ruled, again);
  ELSE
    ending.ats := '{}';
    ending.stale := '{}';
  END IF;
  ending.limits := '{}';
  ending.ends_published := cardinality(completed) > 0 AND {schema}.publish_ends(ids, now);
  IF ruled AND cardinality(completed) > 0 THEN
    -- In their order, as they come if all of them are completed.
    ending.completed := CASE WHEN cardinality(completed) = cardinality(leased) THEN leased
      ELSE ARRAY(SELECT t FROM unnest(completed) AS t ORDER BY t) END;
  END IF;
  IF num_nonnulls(ending.completed, ending.leases) > 0 THEN
    ending.limits := {schema}.limits_to_release(ending.completed, ending.leases);
  END IF;
  RETURN ending;
END
$$;

-- Ends leases whose jobs are locked, and so are their limits. given: what was given back, to be judged by `wakes_waiters` when all of the step is
-- done. woken, late, published: as end_leases.
CREATE OR REPLACE FUNCTION {schema}.finish_settle(ending {schema}.ending_leases, now float8, OUT given {schema}.limit_given[],
  OUT woken json, OUT late boolean, OUT published boolean)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  woken := ending.woken;
  late := false;
  published := false;
  IF num_nonnulls(ending.completed, ending.leases) > 0 THEN
    given := {schema}.release_limits(ending.completed, ending.leases, now);
  END IF;
  IF cardinality(ending.ats) > 0 THEN
    SELECT coalesce(e.woken, finish_settle.woken), e.late, e.published INTO woken, late, published FROM {schema}.end_leases(ending, now) AS e;
  END IF;
END
$$;

-- The fast path, of almost all jobs: they are completed, and no listener wants events. One statement, as a rule, and no lock before it:
-- the rows are taken in the order of their ids, as by every step that waits for jobs. Their slots are released later.
--
-- Each is looked up by its id, whatever the planner believes of the table: there is no join that it could turn round, and no
-- state is named, for which there is another index. Only the active have a lease. Which token belongs to an id is found by halves,
-- for the tokens grow: a look through all of them, for each, would cost more than anything else.
--
-- ids, leased: the jobs and their tokens, in the same order, all of them different, and the tokens growing (those that are not
-- are left alone). results: by id; NULL: none has one. keeps: the first of them is kept. Answers with the tokens of those that
-- were done; the leases of the others are lost.
CREATE OR REPLACE FUNCTION {schema}.complete_fast(ids text[], leased bigint[], results jsonb, keeps boolean, now float8)
RETURNS bigint[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  done bigint[];
  more bigint[];
  gone text[];
  seqs bigint[];
  failed bigint[];
  logged bigint[];
BEGIN
  IF NOT keeps THEN
    WITH deleted AS (
      DELETE FROM {schema}.jobs j
      WHERE j.id = ANY (ids) AND leased[width_bucket(j.token, leased)] = j.token AND ids[width_bucket(j.token, leased)] = j.id
        AND j.lease_until IS NOT NULL AND j.keep_for = 0
      RETURNING j.token, CASE WHEN j.attempt > 1 OR j.error IS NOT NULL THEN j.seq END AS failed,
        CASE WHEN j.logged THEN j.seq END AS logged
    )
    SELECT coalesce(array_agg(d.token), '{}'), array_agg(d.failed) FILTER (WHERE d.failed IS NOT NULL),
      array_agg(d.logged) FILTER (WHERE d.logged IS NOT NULL) INTO done, failed, logged FROM deleted d;
    IF failed IS NOT NULL THEN
      DELETE FROM {schema}.attempts a WHERE a.job = ANY (failed);
    END IF;
    IF logged IS NOT NULL THEN
      DELETE FROM {schema}.log l WHERE l.job = ANY (logged);
    END IF;
    IF cardinality(done) = cardinality(ids) THEN
      RETURN done;
    END IF;
    -- There are others among them. They would be locked out of order, so this does not wait for them: all of it is begun again.
    PERFORM FROM {schema}.jobs j
    WHERE j.id = ANY (ids) AND leased[width_bucket(j.token, leased)] = j.token AND ids[width_bucket(j.token, leased)] = j.id
      AND j.lease_until IS NOT NULL FOR UPDATE NOWAIT;
  END IF;
  WITH completed AS (
    UPDATE {schema}.jobs j SET state = 'completed', finished_at = now, lease_until = NULL, result = results ->> j.id,
      delete_at = now + coalesce(j.keep_for, {schema}.kept_ms('completed'))
    WHERE j.id = ANY (ids) AND leased[width_bucket(j.token, leased)] = j.token AND ids[width_bucket(j.token, leased)] = j.id
      AND j.lease_until IS NOT NULL
    RETURNING j.token, CASE WHEN j.keep_for = 0 THEN j.id END AS gone, CASE WHEN j.keep_for = 0 THEN j.seq END AS seq
  )
  SELECT coalesce(array_agg(c.token), '{}'), array_agg(c.gone) FILTER (WHERE c.gone IS NOT NULL),
    array_agg(c.seq) FILTER (WHERE c.seq IS NOT NULL) INTO more, gone, seqs FROM completed c;
  IF gone IS NOT NULL THEN
    PERFORM {schema}.delete_jobs(seqs, gone);
  END IF;
  RETURN done || more;
END
$$;

-- Locks the jobs whose leases are to be ended, in the order of their ids, as every step does that waits for jobs. Each is looked up
-- by its id, and its lease in a hash table (heartbeat).
--
-- outcomes: a list as jobs/outcomes.ts writes it, each with its number n. ruled: there are limits. again: an earlier call may have done it
-- already; what it has ended is not stale then. Those that are stale and were not started spend no attempt all the same.
CREATE OR REPLACE FUNCTION {schema}.lock_leases(outcomes json, ruled boolean, again boolean) RETURNS {schema}.ending_leases
LANGUAGE plpgsql VOLATILE SET enable_hashjoin = on AS $$
DECLARE
  ending {schema}.ending_leases;
  ids text[];
  tokens bigint[];
BEGIN
  SELECT array_agg(o.id), array_agg(o.token) INTO ids, tokens
  FROM json_to_recordset(outcomes) AS o (id text, token bigint);
  WITH locked AS MATERIALIZED (
    SELECT j.ctid AS at, j.id, j.token, j.queue, j.type, j.grp, j.keys, j.started_at, j.limits FROM {schema}.jobs j
    WHERE j.id = ANY (ids) AND j.lease_until IS NOT NULL
      AND ((j.id, j.token) IN (SELECT o.id, o.token FROM unnest(ids, tokens) AS o (id, token))) IS TRUE
    ORDER BY j.id FOR UPDATE
  )
  SELECT array_agg(l.at), array_agg(o.n), array_agg(o.to), array_agg(o.result),
    coalesce(bool_or(num_nonnulls(l.grp, l.keys) > 0 AND o.to IN ('retry', 'back')), false),
    array_agg((l.token, l.queue, l.type, l.grp, l.keys, l.started_at, l.limits,
      CASE WHEN o.to IS NULL THEN 'well' WHEN o.to IN ('retry', 'dead') THEN 'failed' ELSE 'gone' END,
      o.kinds, o.hold, coalesce(o.unstarted, false),
      CASE WHEN o.held AND NOT coalesce(o.unstarted, false) THEN coalesce(o.settled, '{}') END)::{schema}.ended_lease ORDER BY o.n)
      FILTER (WHERE ruled OR l.limits IS NOT NULL OR o.hold IS NOT NULL)
  INTO ending.ats, ending.ns, ending.tos, ending.results, ending.grouped, ending.leases
  FROM locked l JOIN json_to_recordset(outcomes) AS o (n integer, id text, token bigint, "to" text, result text, kinds text[], hold jsonb,
    unstarted boolean, held boolean, settled text[]) ON o.token = l.token AND o.id = l.id;
  ending.outcomes := outcomes;
  ending.ats := coalesce(ending.ats, '{}');
  ending.stale := '{}';
  IF cardinality(ending.ats) < cardinality(ids) THEN
    SELECT {schema}.unspend(array_agg(o.id), array_agg(o.token)) INTO ending.woken
    FROM json_to_recordset(outcomes) AS o (id text, token bigint, unstarted boolean, unspend boolean)
    WHERE o.unstarted OR o.unspend;
    ending.stale := ARRAY(SELECT o.n FROM json_to_recordset(outcomes) AS o (n integer, id text, token bigint)
      WHERE (o.n IN (SELECT h.n FROM unnest(ending.ns) AS h (n))) IS NOT TRUE AND NOT (again AND NOT EXISTS (
        SELECT FROM {schema}.jobs j WHERE j.id = o.id AND (j.token <> o.token OR j.lease_until IS NOT NULL OR coalesce(j.claim, -1) < 0)))
      ORDER BY o.n);
  END IF;
  RETURN ending;
END
$$;

-- Writes how leases ended. Everything but limits, whose state is written before.
--
-- woken: [[queue, as `wakes` says]]. late: one came back whose deadline has passed. published: events were written.
CREATE OR REPLACE FUNCTION {schema}.end_leases(ending {schema}.ending_leases, now float8, OUT woken json, OUT late boolean,
  OUT published boolean)
LANGUAGE plpgsql VOLATILE SET enable_hashjoin = on AS $$
DECLARE
  ats tid[] := ending.ats;
  ns integer[] := ending.ns;
  tos text[] := ending.tos;
  results text[] := ending.results;
  outcomes json := ending.outcomes;
  well integer := cardinality(ats) - cardinality(array_remove(tos, NULL));
  count integer := 0;
BEGIN
  late := false;
  published := {schema}.events_wanted(now);
  IF published THEN
    INSERT INTO {schema}.events (at, event)
    SELECT now, CASE
      WHEN o.to IS NULL THEN
        json_build_object('event', 'completed', 'queue', j.queue, 'id', j.id, 'type', j.type, 'attempt', j.attempt)
      WHEN o.to = 'dead' THEN
        json_build_object('event', 'dead', 'queue', j.queue, 'id', j.id, 'type', j.type, 'attempt', j.attempt,
          'error', o.error::json)
      WHEN o.to = 'cancelled' OR j.cancel_requested THEN
        json_build_object('event', 'cancelled', 'queue', j.queue, 'id', j.id, 'type', j.type)
      ELSE
        json_build_object('event', 'retried', 'queue', j.queue, 'id', j.id, 'type', j.type, 'attempt', j.attempt,
          'inMs', o.in_ms, 'error', o.error::json)
      END
    FROM unnest(ats, ns) AS l (at, n)
    JOIN json_to_recordset(outcomes) AS o (n integer, "to" text, in_ms float8, error text) ON o.n = l.n
    JOIN {schema}.jobs j ON j.ctid = l.at
    ORDER BY o.n;
  ELSIF {schema}.events_wanted(now, true) THEN
    published := {schema}.publish_ends(ARRAY(SELECT j.id FROM unnest(ats) AS l (at) JOIN {schema}.jobs j ON j.ctid = l.at), now);
  END IF;
  IF well > 0 THEN
    UPDATE {schema}.jobs j SET state = 'completed', finished_at = now, lease_until = NULL, result = e.result,
      delete_at = now + coalesce(j.keep_for, {schema}.kept_ms('completed'))
    FROM unnest(ats, tos, results) AS e (at, how, result)
    WHERE j.ctid = e.at AND e.how IS NULL AND j.keep_for IS DISTINCT FROM 0;
    GET DIAGNOSTICS count = ROW_COUNT;
    IF count < well THEN
      PERFORM {schema}.delete_jobs(array_agg(j.seq), array_agg(j.id))
      FROM unnest(ats, tos) AS e (at, how) JOIN {schema}.jobs j ON j.ctid = e.at
      WHERE e.how IS NULL AND j.keep_for = 0 AND j.state = 'active';
    END IF;
  END IF;
  IF well < cardinality(ats) THEN
    SELECT r.woken, r.late INTO woken, late FROM {schema}.release_leases(ARRAY(
      SELECT (l.at, o.to, o.in_ms, o.held, o.error)::{schema}.lease_end FROM unnest(ats, ns) AS l (at, n)
      JOIN json_to_recordset(outcomes) AS o (n integer, "to" text, in_ms float8, held boolean, error text) ON o.n = l.n
      WHERE o.to IS NOT NULL ORDER BY o.n), false, now) r;
  END IF;
END
$$;

-- Ends leases in every way but well: jobs are tried again, given back, dead or cancelled. One that was asked to stop does not come
-- back. One that is tried again or given back takes its old place when it is due.
--
-- ends: the rows, which are locked, and how they end, in the order in which attempts are recorded. stalled: the leases have run out; the
-- claim that started the jobs is kept with its sign changed then, for it is not the end that its worker had in mind, and may be
-- undone (unspend). woken, late: as end_leases.
CREATE OR REPLACE FUNCTION {schema}.release_leases(ends {schema}.lease_end[], stalled boolean, now float8, OUT woken json,
  OUT late boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  grouped {schema}.lane_job[];
BEGIN
  WITH outcome AS MATERIALIZED (
    SELECT o.*, row_number() OVER () AS no FROM unnest(ends) AS o
  ), failed AS (
    INSERT INTO {schema}.attempts (job, attempt, started_at, ended_at, worker, error)
    SELECT j.seq, j.attempt, coalesce(j.started_at, now), now, coalesce(j.worker, ''), o.error
    FROM outcome o JOIN {schema}.jobs j ON j.ctid = o.at WHERE o.to <> 'back' AND o.error IS NOT NULL
    ORDER BY o.no
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
      claim = CASE WHEN stalled THEN -j.claim ELSE j.claim END,
      attempt = j.attempt - CASE WHEN o.to = 'back' THEN 1 ELSE 0 END,
      holds = j.holds + CASE WHEN o.held THEN 1 ELSE 0 END,
      error = coalesce(o.error, j.error)
    FROM outcome o
    JOIN {schema}.jobs was ON was.ctid = o.at
    CROSS JOIN LATERAL (SELECT o.to IN ('dead', 'cancelled') OR was.cancel_requested AS ends,
      CASE WHEN o.in_ms > 0 THEN now + o.in_ms ELSE was.due_at END AS at) due
    WHERE j.ctid = o.at
    RETURNING {schema}.lane_job_of(j) AS job,
      j.deadline <= now AND j.state IN ('waiting', 'scheduled') AS late
  )
  SELECT r.grouped, {schema}.wake_ups(r.jobs, now), r.late INTO grouped, woken, late FROM (
    SELECT array_agg(r.job) AS jobs, array_agg(r.job) FILTER (WHERE num_nonnulls((r.job).grp, (r.job).keys) > 0) AS grouped,
      coalesce(bool_or(r.late), false) AS late FROM released r) r;
  IF grouped IS NOT NULL THEN
    PERFORM {schema}.insert_arrivals(grouped);
  END IF;
END
$$;

-- Jobs whose leases ran out before anything of them was called get their attempt back: their workers say so now. They are as they were
-- before they were claimed; those that were dead for it wait again, at their old place. Events that were written stay, and what was
-- counted under limits stays counted. Those that were claimed or changed since stay as they are.
--
-- ids, tokens: of the leases. Answers with the wake-ups: [[queue, as `wakes` says]].
CREATE OR REPLACE FUNCTION {schema}.unspend(ids text[], tokens bigint[]) RETURNS json
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now float8 := {schema}.present();
  waiting {schema}.lane_job[];
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
    RETURNING {schema}.lane_job_of(j) AS job, s.state = 'dead' AS died
  )
  SELECT b.jobs, {schema}.wake_ups(b.jobs, now) INTO waiting, woken FROM (
    SELECT array_agg(job) FILTER (WHERE died) AS jobs FROM back) b;
  PERFORM {schema}.insert_arrivals(waiting);
  RETURN woken;
END
$$;

-- What the claim of this number has started, and lost since without a call, as its leases ran out, gets its attempt back. Answer: {woken}.
CREATE OR REPLACE FUNCTION {schema}.unspend_claim_{version}(number bigint) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off AS $$
BEGIN
  PERFORM {schema}.begin_step();
  RETURN (SELECT json_build_object('woken', {schema}.unspend(array_agg(j.id), array_agg(j.token)))
    FROM {schema}.jobs j WHERE j.claim < 0 AND j.claim = -number);
END
$$;

-- The leases that a claim has given and that are in force, and what is to be confirmed of it: for a client that has given up waiting for
-- the answer. claim: its number. Volatile, for it looks after the claim was waited for (begin_attempt).
CREATE OR REPLACE FUNCTION {schema}.claimed_by_{version}(claim bigint, worker text) RETURNS text
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT json_build_object('leases', coalesce(json_agg(json_build_array(j.id, j.token) ORDER BY j.token), '[]'),
    'grant', {schema}.grant_of(-{schema}.block_of(min(j.token))))
  FROM {schema}.jobs j WHERE j.state = 'active' AND j.claim = claimed_by_{version}.claim AND j.worker = claimed_by_{version}.worker
$$;
