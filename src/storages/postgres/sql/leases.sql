-- Leases while they last: heartbeats, reports, and attempts that are given back.
--
-- Locks: the rules (shared), the rows of the jobs in the order of their ids; `report` also the limits that are charged.

-- Keeps leases for lease_ms from now. One that has expired is lost for good, even if no sweep has ended it yet.
--
-- Each job is looked up by its id (complete_plainly), and its lease in a hash table of those that are meant, in whatever order
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
  -- Each is looked up by its id (complete_plainly).
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
      SELECT l.name FROM {schema}.holds h JOIN {schema}.limits l ON l.id = h.limit_id WHERE h.token = ANY (tokens)
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
  RETURN json_build_object('events', published, 'wakeAll', {schema}.is_earlier(given, now), 'lost', ARRAY(
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

-- Jobs whose leases ran out before anything of them was called get their attempt back: their workers say so now. They are as they were
-- before they were claimed; those that were dead for it wait again, at their old place. Events that were written stay, and what was
-- counted under limits stays counted. Those that were claimed or changed since stay as they are.
--
-- ids, tokens: of the leases. Answers with the wake-ups: [[queue, as `wakes` says]].
CREATE OR REPLACE FUNCTION {schema}.unspend(ids text[], tokens bigint[]) RETURNS json
LANGUAGE plpgsql VOLATILE SET enable_hashjoin = on AS $$
DECLARE
  now float8 := {schema}.present();
  waiting {schema}.arrival[];
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
    RETURNING (j.seq, j.queue, j.type, j.priority, j.grp, j.keys, j.state, j.due_at)::{schema}.arrival AS job, s.state = 'dead' AS died
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
