-- Which jobs without a group come next, by priority and due time, and how jobs are started.

-- The types of a queue that a claim may take: those it asks for (NULL: any that has open jobs, without a group) and that
-- are not paused. From one type to the next along the index, however many jobs lie between them. has_cursors: there may be cursors, and
-- types that have some are looked at from these on.
CREATE OR REPLACE FUNCTION {schema}.open_types(queue text, asked text[], has_cursors boolean) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  kept text[] := asked;
BEGIN
  IF asked IS NULL AND has_cursors THEN
    kept := {schema}.cursor_types(queue);
  ELSIF asked IS NULL THEN
    WITH RECURSIVE types AS (
      (SELECT j.type FROM {schema}.jobs j
        WHERE j.queue = open_types.queue AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
        ORDER BY j.type LIMIT 1)
      UNION ALL
      SELECT (SELECT j.type FROM {schema}.jobs j
        WHERE j.queue = open_types.queue AND j.type > t.type
          AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
        ORDER BY j.type LIMIT 1)
      FROM types t WHERE t.type IS NOT NULL
    )
    SELECT array_agg(t.type) INTO kept FROM types t WHERE t.type IS NOT NULL;
  ELSIF cardinality(asked) > 1 THEN
    kept := ARRAY(SELECT DISTINCT t FROM unnest(asked) t);
  END IF;
  IF EXISTS (SELECT FROM {schema}.pauses p WHERE p.queue = open_types.queue) THEN
    kept := ARRAY(SELECT t FROM unnest(kept) t
      WHERE NOT EXISTS (SELECT FROM {schema}.pauses p WHERE p.queue = open_types.queue AND p.type = ':' || t));
  END IF;
  RETURN coalesce(kept, '{}');
END
$$;

-- As pick_open, of one type, from where a claim saw the first of them (head_priority, head_due_at, head_seq): jobs that have started
-- since the table was cleaned up last are still in the index before it, and it takes time to pass them all. A job that has come before it
-- since then is as one that comes afterwards.
CREATE OR REPLACE FUNCTION {schema}.pick_first(queue text, type text, head_priority float8, head_due_at float8,
  head_seq bigint, want integer, now float8) RETURNS tid[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  picked tid[] := ARRAY(SELECT j.ctid FROM {schema}.jobs j
    WHERE j.queue = pick_first.queue AND j.type = pick_first.type AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
      AND j.priority = head_priority AND (j.due_at, j.seq) >= (head_due_at, head_seq)
      AND (j.deadline IS NULL OR j.deadline > now)
    ORDER BY j.due_at, j.seq LIMIT want FOR UPDATE SKIP LOCKED);
BEGIN
  IF cardinality(picked) < want THEN
    picked := picked || ARRAY(SELECT j.ctid FROM {schema}.jobs j
      WHERE j.queue = pick_first.queue AND j.type = pick_first.type AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
        AND j.priority < head_priority AND (j.deadline IS NULL OR j.deadline > now)
      ORDER BY j.priority DESC, j.due_at, j.seq LIMIT want - cardinality(picked) FOR UPDATE SKIP LOCKED);
  END IF;
  RETURN picked;
END
$$;

-- The next jobs without a group, of these types: higher priority first, then by due_at, then as they were added. They are locked;
-- those that others have locked are passed over.
--
-- Of one type they lie in the index in this order. Of several the index shows, without locks, how many of each there are
-- among the first; so no more are locked than are taken. Where others were faster, a second look finds the rest. has_cursors: there may
-- be cursors, and those of one type are looked for from these on.
CREATE OR REPLACE FUNCTION {schema}.pick_open(queue text, types text[], want integer, has_cursors boolean, now float8) RETURNS tid[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  picked tid[];
  seen bigint;
BEGIN
  IF cardinality(types) = 1 AND has_cursors THEN
    RETURN {schema}.pick_from_cursors(queue, types[1], want, now);
  END IF;
  IF cardinality(types) = 1 THEN
    RETURN ARRAY(SELECT j.ctid FROM {schema}.jobs j
      WHERE j.queue = pick_open.queue AND j.type = types[1] AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
        AND (j.deadline IS NULL OR j.deadline > now)
      ORDER BY j.priority DESC, j.due_at, j.seq LIMIT want FOR UPDATE SKIP LOCKED);
  END IF;
  WITH first AS (
    SELECT h.type FROM unnest(types) AS t (type)
    CROSS JOIN LATERAL (SELECT j.type, j.priority, j.due_at, j.seq FROM {schema}.jobs j
      WHERE j.queue = pick_open.queue AND j.type = t.type AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
        AND (j.deadline IS NULL OR j.deadline > now)
      ORDER BY j.priority DESC, j.due_at, j.seq LIMIT want) h
    ORDER BY h.priority DESC, h.due_at, h.seq LIMIT want
  ), counts AS (
    SELECT f.type, count(*) AS n FROM first f GROUP BY f.type
  )
  SELECT array_agg(p.at ORDER BY p.priority DESC, p.due_at, p.seq), (SELECT sum(c.n) FROM counts c) INTO picked, seen
  FROM counts c
  CROSS JOIN LATERAL (SELECT j.ctid AS at, j.priority, j.due_at, j.seq FROM {schema}.jobs j
    WHERE j.queue = pick_open.queue AND j.type = c.type AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
      AND (j.deadline IS NULL OR j.deadline > now)
    ORDER BY j.priority DESC, j.due_at, j.seq LIMIT c.n FOR UPDATE SKIP LOCKED) p;
  picked := coalesce(picked, '{}');
  IF cardinality(picked) < seen AND seen = want THEN
    picked := picked || ARRAY(SELECT p.at FROM unnest(types) AS t (type)
      CROSS JOIN LATERAL (SELECT j.ctid AS at, j.priority, j.due_at, j.seq FROM {schema}.jobs j
        WHERE j.queue = pick_open.queue AND j.type = t.type AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
          AND (j.deadline IS NULL OR j.deadline > now) AND j.ctid <> ALL (picked)
        ORDER BY j.priority DESC, j.due_at, j.seq LIMIT want - cardinality(picked) FOR UPDATE SKIP LOCKED) p
      ORDER BY p.priority DESC, p.due_at, p.seq LIMIT want - cardinality(picked));
  END IF;
  RETURN picked;
END
$$;

-- As pick_open, of one type, from the cursors on: by priority, those between cursors, then those behind the next.
CREATE OR REPLACE FUNCTION {schema}.pick_from_cursors(queue text, type text, want integer, now float8) RETURNS tid[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  picked tid[] := '{}';
  above float8 := 'Infinity';
  reached record;
BEGIN
  FOR reached IN
    SELECT k.priority, k.due_at, k.seq FROM {schema}.scan_cursors k WHERE k.queue = pick_from_cursors.queue AND k.type = pick_from_cursors.type
    UNION ALL SELECT '-Infinity', 0, 0 ORDER BY 1 DESC
  LOOP
    picked := picked || ARRAY(SELECT j.ctid FROM {schema}.jobs j
      WHERE j.queue = pick_from_cursors.queue AND j.type = pick_from_cursors.type AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
        AND j.priority < above AND j.priority > reached.priority AND (j.deadline IS NULL OR j.deadline > now)
      ORDER BY j.priority DESC, j.due_at, j.seq LIMIT want - cardinality(picked) FOR UPDATE SKIP LOCKED);
    picked := picked || ARRAY(SELECT j.ctid FROM {schema}.jobs j
      WHERE j.queue = pick_from_cursors.queue AND j.type = pick_from_cursors.type AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
        AND j.priority = reached.priority AND (j.due_at, j.seq) >= (reached.due_at, reached.seq)
        AND (j.deadline IS NULL OR j.deadline > now)
      ORDER BY j.due_at, j.seq LIMIT want - cardinality(picked) FOR UPDATE SKIP LOCKED);
    EXIT WHEN cardinality(picked) = want;
    above := reached.priority;
  END LOOP;
  RETURN picked;
END
$$;

-- The first of these jobs, with so much data at most, but one in any case. How long data is stands in its row: nothing that is kept
-- apart from it, or compressed, is read for that.
CREATE OR REPLACE FUNCTION {schema}.first_bytes(picked tid[], bytes float8) RETURNS tid[]
LANGUAGE sql STABLE AS $$
  SELECT picked[1:greatest(1, (SELECT count(*) FROM (
    SELECT sum(octet_length(j.data)) OVER (ORDER BY p.no) AS total
    FROM unnest(picked) WITH ORDINALITY AS p (at, no) JOIN {schema}.jobs j ON j.ctid = p.at) s WHERE s.total <= bytes)::integer)]
$$;

-- Starts jobs that are locked, in this order: the first gets the token `first`, the next one the next number, and so on. limits:
-- what each of them took; own_limits: the same, where it is different for each. sure: those beyond so many start only if this is the first of several attempts. heard: a listener
-- wants events. at: when. skew: as the function of that name says; jobs are shown by the clock of the server.
--
-- Answers with what is different about them: [at, tokens, ids, ...], each a list, as jobs/started.ts reads it. What is the same for
-- all is known to the caller, and a list of each kind takes a fraction of the time that one for each job would.
CREATE OR REPLACE FUNCTION {schema}.start_jobs(ats tid[], first bigint, queue text, worker text, claim bigint, lease_ms float8,
  limits jsonb, sure integer, heard boolean, at float8, skew float8, own_limits text[] DEFAULT NULL) RETURNS {schema}.started_jobs
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  started {schema}.started_jobs;
BEGIN
  WITH begun AS (
    UPDATE {schema}.jobs j SET state = 'active', attempt = j.attempt + 1, started_at = start_jobs.at,
      lease_until = start_jobs.at + lease_ms, worker = start_jobs.worker, claim = start_jobs.claim, limits = coalesce(own_limits[p.no]::jsonb, start_jobs.limits),
      token = first + p.no - 1
    FROM unnest(ats) WITH ORDINALITY AS p (at, no)
    WHERE j.ctid = p.at AND (p.no <= sure OR (j.attempt = 0 AND j.max_attempts > 1))
    RETURNING j.token, j.seq, j.id, j.type, j.priority, j.data, j.attempt, j.max_attempts,
      nullif(j.backoff, '{"kind":"exponential","initial":1000,"max":600000}') AS backoff, j.keep_for, j.created_at, j.due_at, j.grp,
      CASE WHEN j.weights IS NOT NULL OR j.timeout IS NOT NULL OR j.deadline IS NOT NULL OR j.holds <> 0 OR j.cancel_requested
        OR j.progress IS NOT NULL OR j.error IS NOT NULL OR j.idempotency_key IS NOT NULL OR j.keys IS NOT NULL
      THEN json_build_array(j.weights, j.timeout, coalesce(j.deadline_wall, j.deadline - skew), j.holds, j.cancel_requested, j.progress, j.error, j.idempotency_key,
        j.keys)
      END AS rest
  )
  SELECT json_build_array(start_jobs.at - skew, json_agg(b.token), json_agg(b.id), json_agg(b.type), json_agg(b.priority),
      json_agg(b.data), json_agg(b.attempt), json_agg(b.max_attempts), json_agg(b.backoff), json_agg(b.keep_for),
      json_agg(b.created_at - skew), array_agg(b.due_at - skew), json_agg(b.grp), json_agg(b.rest)),
    count(*), (array_agg(b.due_at))[count(*)], (array_agg(b.seq))[count(*)]
  INTO started FROM begun b;
  IF heard THEN
    INSERT INTO {schema}.events (at, event)
    SELECT start_jobs.at, json_build_object('event', 'started', 'queue', queue, 'id', s.id, 'type', s.type, 'attempt', s.attempt,
      'worker', worker)
    FROM ROWS FROM (json_array_elements(started.jobs -> 1), json_array_elements(started.jobs -> 2),
      json_array_elements(started.jobs -> 3), json_array_elements(started.jobs -> 6)) AS s (token, id, type, attempt)
    WHERE s.id IS NOT NULL ORDER BY s.token::text::bigint;
  END IF;
  IF started.count = 0 THEN
    started.jobs := NULL;
  END IF;
  RETURN started;
END
$$;

-- Does a job of this type wait? Most likely one of this priority from here on, where those stood that a claim has started, or where
-- it saw the first: they are next to each other in the index. If not, there may be one elsewhere.
CREATE OR REPLACE FUNCTION {schema}.any_after(queue text, type text, head_priority float8, head_due_at float8, head_seq bigint,
  now float8) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN coalesce((SELECT true FROM {schema}.jobs j
    WHERE j.queue = any_after.queue AND j.type = any_after.type AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
      AND j.priority = head_priority AND (j.due_at, j.seq) >= (head_due_at, head_seq) AND (j.deadline IS NULL OR j.deadline > now)
    ORDER BY j.due_at, j.seq LIMIT 1), {schema}.any_open(queue, ARRAY[type], false, now));
END
$$;

-- Does a job without a group wait, of one of these types? In the order of the index that is there for it: no other seems to do then.
-- has_cursors: there may be cursors, and it is looked from these on.
CREATE OR REPLACE FUNCTION {schema}.any_open(queue text, types text[], has_cursors boolean, now float8) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  FOR i IN 1 .. cardinality(types) LOOP
    IF has_cursors THEN
      IF ({schema}.first_open(queue, types[i], now)).seq IS NOT NULL THEN
        RETURN true;
      END IF;
    ELSIF (SELECT true FROM {schema}.jobs j
      WHERE j.queue = any_open.queue AND j.type = types[i] AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
        AND (j.deadline IS NULL OR j.deadline > now)
      ORDER BY j.priority DESC, j.due_at, j.seq LIMIT 1)
    THEN
      RETURN true;
    END IF;
  END LOOP;
  RETURN false;
END
$$;

-- When the next scheduled job of these types comes due, or a little before if many others come first. asked: NULL, any; types
-- that are paused do not count, nor those in `besides`. NULL: none comes.
CREATE OR REPLACE FUNCTION {schema}.next_due(queue text, asked text[], besides text[]) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
DECLARE
  job record;
  looked integer := 0;
BEGIN
  FOR job IN
    SELECT j.type, j.due_at FROM {schema}.jobs j
    WHERE j.queue = next_due.queue AND j.state = 'scheduled' ORDER BY j.due_at LIMIT 64
  LOOP
    looked := looked + 1;
    IF looked = 64 OR ((asked IS NULL OR job.type = ANY (asked)) AND (besides IS NULL OR job.type <> ALL (besides)) AND NOT EXISTS (
      SELECT FROM {schema}.pauses p WHERE p.queue = next_due.queue AND p.type = ':' || job.type)) THEN
      RETURN job.due_at;
    END IF;
  END LOOP;
  RETURN NULL;
END
$$;
