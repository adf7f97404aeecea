-- Cursors: how far the jobs of a type are gone. While an old snapshot keeps the server from cleaning up, a claim would pass every entry of jobs
-- that are gone; from a cursor on it does not.
--
-- Locks: that of the cursors of a queue, which no step waits for.

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

-- The types of a queue of which jobs wait without a group, as open_types finds them; of those that have cursors from these on.
CREATE OR REPLACE FUNCTION {schema}.cursor_types(queue text) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  types text[] := '{}';
  after text := '';
  reached record;
  found_type text;
BEGIN
  FOR reached IN
    SELECT DISTINCT k.type FROM {schema}.scan_cursors k WHERE k.queue = cursor_types.queue
    UNION ALL SELECT NULL ORDER BY 1 NULLS LAST
  LOOP
    -- Those between this one and the one before it.
    LOOP
      found_type := CASE WHEN reached.type IS NULL
        THEN (SELECT j.type FROM {schema}.jobs j
          WHERE j.queue = cursor_types.queue AND j.type > after AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
          ORDER BY j.type LIMIT 1)
        ELSE (SELECT j.type FROM {schema}.jobs j
          WHERE j.queue = cursor_types.queue AND j.type > after AND j.type < reached.type AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
          ORDER BY j.type LIMIT 1) END;
      EXIT WHEN found_type IS NULL;
      types := types || found_type;
      after := found_type;
    END LOOP;
    EXIT WHEN reached.type IS NULL;
    IF ({schema}.first_open(queue, reached.type, '-Infinity')).seq IS NOT NULL THEN
      types := types || reached.type;
    END IF;
    after := reached.type;
  END LOOP;
  RETURN types;
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
