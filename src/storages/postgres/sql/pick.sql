-- Which jobs without a group come next, by priority and due time, and how jobs are started.
--
-- Cursors say how far the jobs of a type are gone. While an old snapshot keeps the server from cleaning up, a claim would pass every entry
-- of jobs that are gone; from a cursor on it does not.
--
-- Locks: jobs are taken with SKIP LOCKED. That of the cursors of a queue no step waits for.

-- The types of a queue that a claim may take: those it asks for (NULL: any that has open jobs, without a group) and that
-- are not paused. From one type to the next along the index, however many jobs lie between them; of those that have cursors from these on.
CREATE OR REPLACE FUNCTION {schema}.open_types(queue text, asked text[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  types text[] := asked;
  after text := '';
  reached text;
  found_type text;
BEGIN
  IF asked IS NULL THEN
    types := '{}';
    FOR reached IN
      SELECT DISTINCT k.type FROM {schema}.scan_cursors k WHERE k.queue = open_types.queue
      UNION ALL SELECT NULL ORDER BY 1 NULLS LAST
    LOOP
      -- Those between this one and the one before it.
      LOOP
        IF reached IS NULL THEN
          SELECT j.type INTO found_type FROM {schema}.jobs j
          WHERE j.queue = open_types.queue AND j.type > after AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
          ORDER BY j.type LIMIT 1;
        ELSE
          SELECT j.type INTO found_type FROM {schema}.jobs j
          WHERE j.queue = open_types.queue AND j.type > after AND j.type < reached AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
          ORDER BY j.type LIMIT 1;
        END IF;
        EXIT WHEN found_type IS NULL;
        types := types || found_type;
        after := found_type;
      END LOOP;
      EXIT WHEN reached IS NULL;
      IF ({schema}.first_open(queue, reached, '-Infinity')).seq IS NOT NULL THEN
        types := types || reached;
      END IF;
      after := reached;
    END LOOP;
  ELSIF cardinality(asked) > 1 THEN
    types := ARRAY(SELECT DISTINCT t FROM unnest(asked) t);
  END IF;
  IF EXISTS (SELECT FROM {schema}.pauses p WHERE p.queue = open_types.queue) THEN
    types := ARRAY(SELECT t FROM unnest(types) t
      WHERE NOT EXISTS (SELECT FROM {schema}.pauses p WHERE p.queue = open_types.queue AND p.type = ':' || t));
  END IF;
  RETURN types;
END
$$;

-- The types of a queue of which jobs may wait, in order. From one type to the next along the indexes, however many jobs or lanes lie
-- between them. Names are not empty.
CREATE OR REPLACE FUNCTION {schema}.waiting_types(queue_name text) RETURNS text[]
LANGUAGE sql STABLE AS $$
  WITH RECURSIVE steps (type) AS (
    SELECT '' COLLATE "C"
    UNION ALL
    SELECT least(
      (SELECT j.type FROM {schema}.jobs j WHERE j.queue = queue_name AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
        AND j.type > s.type ORDER BY j.type LIMIT 1),
      (SELECT j.type FROM {schema}.jobs j WHERE j.queue = queue_name AND j.state = 'waiting' AND coalesce(j.grp, j.keys) IS NOT NULL
        AND j.type > s.type ORDER BY j.type LIMIT 1),
      (SELECT l.type FROM {schema}.lanes l WHERE l.queue = queue_name AND l.ready AND l.blocked_until IS NULL
        AND l.type > s.type ORDER BY l.type LIMIT 1),
      (SELECT g.type FROM {schema}.gates g WHERE g.queue = queue_name AND g.type > s.type ORDER BY g.type LIMIT 1))
    FROM steps s WHERE s.type IS NOT NULL
  )
  SELECT coalesce(array_agg(s.type), '{}') FROM steps s WHERE s.type <> ''
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

-- How many entries of the index of jobs that wait without a group were passed on this connection, of late, whether or not a job
-- still waits there. What is counted of a look is the difference.
CREATE OR REPLACE FUNCTION {schema}.passed() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
  SELECT pg_stat_get_xact_tuples_returned('{schema}.jobs_open'::regclass)
$$;

-- Were so many entries passed, since there were `before` (passed), that looks should begin at a cursor, or at another one? 5,000
-- take some milliseconds; where the server can clean up it does not come to that. To move a cursor costs little.
CREATE OR REPLACE FUNCTION {schema}.passed_many(before bigint, has_cursors boolean) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT {schema}.passed() - before > CASE WHEN has_cursors THEN 1000 ELSE 5000 END
$$;

-- It took long to find this job, the first of a type that waits: the next look begins here. There are few cursors for a type: where
-- jobs have ever other priorities they are of no use.
CREATE OR REPLACE FUNCTION {schema}.set_cursor(queue text, type text, priority float8, due_at float8, seq bigint, now float8)
RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  most CONSTANT integer := 8;
BEGIN
  -- One step at a time sets cursors in a queue, and none waits for it.
  IF seq IS NULL OR NOT pg_try_advisory_xact_lock({schema}.lock_key('cursor', queue)) THEN
    RETURN;
  END IF;
  UPDATE {schema}.scan_cursors k SET due_at = set_cursor.due_at, seq = set_cursor.seq
  WHERE k.queue = set_cursor.queue AND k.type = set_cursor.type AND k.priority = set_cursor.priority;
  IF NOT FOUND THEN
    INSERT INTO {schema}.scan_cursors (queue, type, priority, due_at, seq, look_at)
    SELECT set_cursor.queue, set_cursor.type, set_cursor.priority, set_cursor.due_at, set_cursor.seq, now + 250
    WHERE (SELECT count(*) FROM {schema}.scan_cursors k WHERE k.queue = set_cursor.queue AND k.type = set_cursor.type) < most;
  END IF;
END
$$;

-- The first job of this type that waits without a group, from the cursors on: by priority, those between cursors, then those behind the next.
CREATE OR REPLACE FUNCTION {schema}.first_open(queue text, type text, now float8, OUT priority float8, OUT due_at float8,
  OUT seq bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  above float8 := 'Infinity';
  reached record;
BEGIN
  FOR reached IN
    SELECT k.priority, k.due_at, k.seq FROM {schema}.scan_cursors k WHERE k.queue = first_open.queue AND k.type = first_open.type
    UNION ALL SELECT '-Infinity', 0, 0 ORDER BY 1 DESC
  LOOP
    SELECT j.priority, j.due_at, j.seq INTO priority, due_at, seq FROM {schema}.jobs j
    WHERE j.queue = first_open.queue AND j.type = first_open.type AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
      AND j.priority < above AND j.priority > reached.priority AND (j.deadline IS NULL OR j.deadline > now)
    ORDER BY j.priority DESC, j.due_at, j.seq LIMIT 1;
    EXIT WHEN FOUND;
    SELECT j.priority, j.due_at, j.seq INTO priority, due_at, seq FROM {schema}.jobs j
    WHERE j.queue = first_open.queue AND j.type = first_open.type AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
      AND j.priority = reached.priority AND (j.due_at, j.seq) >= (reached.due_at, reached.seq) AND (j.deadline IS NULL OR j.deadline > now)
    ORDER BY j.due_at, j.seq LIMIT 1;
    EXIT WHEN FOUND;
    above := reached.priority;
  END LOOP;
END
$$;

-- Now and then one claim at a time looks at all jobs before the cursors of a queue: where a job has come back there it moves the cursor to
-- that job, and where few entries are left, since the server has cleaned up, it deletes the cursor. The longer that takes the less often
-- it is done: for a twentieth of the time, about.
--
-- Answers when it is to be done next; NULL: it was done just now.
CREATE OR REPLACE FUNCTION {schema}.look_before_cursors(queue text, now float8) RETURNS float8
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  look_at float8 := (SELECT min(k.look_at) FROM {schema}.scan_cursors k WHERE k.queue = look_before_cursors.queue);
  before bigint;
  reached record;
  first record;
BEGIN
  IF look_at > now OR NOT pg_try_advisory_xact_lock({schema}.lock_key('cursor', queue)) THEN
    RETURN look_at;
  END IF;
  FOR reached IN SELECT k.* FROM {schema}.scan_cursors k WHERE k.queue = look_before_cursors.queue LOOP
    before := {schema}.passed();
    SELECT j.due_at, j.seq INTO first FROM {schema}.jobs j
    WHERE j.queue = look_before_cursors.queue AND j.type = reached.type AND j.priority = reached.priority AND j.state = 'waiting'
      AND j.grp IS NULL AND j.keys IS NULL
    ORDER BY j.due_at, j.seq LIMIT 1;
    IF {schema}.passed_many(before, false) THEN
      UPDATE {schema}.scan_cursors k SET due_at = coalesce(first.due_at, k.due_at), seq = coalesce(first.seq, k.seq),
        look_at = now + greatest(250, ({schema}.passed() - before) / 100)
      WHERE k.queue = look_before_cursors.queue AND k.type = reached.type AND k.priority = reached.priority;
    ELSE
      DELETE FROM {schema}.scan_cursors k WHERE k.queue = look_before_cursors.queue AND k.type = reached.type AND k.priority = reached.priority;
    END IF;
  END LOOP;
  RETURN NULL;
END
$$;
