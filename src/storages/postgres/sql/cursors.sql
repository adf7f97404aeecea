-- Marks: how far the jobs of a type are gone. While an old snapshot keeps the server from cleaning up, a claim would pass every entry of jobs
-- that are gone; from a mark on it does not.
--
-- Locks: that of the marks of a queue, which no step waits for.

-- How many entries of the index of jobs that wait without a group were passed on this connection, of late, whether or not a job
-- still waits there. What is counted of a look is the difference.
CREATE OR REPLACE FUNCTION {schema}.passed() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
  SELECT pg_stat_get_xact_tuples_returned('{schema}.jobs_open'::regclass)
$$;

-- Were so many entries passed, since there were `before` (passed), that looks should begin at a mark, or at another one? 5,000
-- take some milliseconds; where the server can clean up it does not come to that. To move a mark costs little.
CREATE OR REPLACE FUNCTION {schema}.passed_many(before bigint, marked boolean) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT {schema}.passed() - before > CASE WHEN marked THEN 1000 ELSE 5000 END
$$;

-- It took long to find this job, the first of a type that waits: the next look begins here. There are few marks for a type: where
-- jobs have ever other priorities they are of no use.
CREATE OR REPLACE FUNCTION {schema}.set_mark(queue text, type text, priority float8, due_at float8, seq bigint, now float8)
RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  most CONSTANT integer := 8;
BEGIN
  -- One step at a time sets marks in a queue, and none waits for it.
  IF seq IS NULL OR NOT pg_try_advisory_xact_lock({schema}.lock_key('mark', queue)) THEN
    RETURN;
  END IF;
  UPDATE {schema}.marks k SET due_at = set_mark.due_at, seq = set_mark.seq
  WHERE k.queue = set_mark.queue AND k.type = set_mark.type AND k.priority = set_mark.priority;
  IF NOT FOUND THEN
    INSERT INTO {schema}.marks (queue, type, priority, due_at, seq, look_at)
    SELECT set_mark.queue, set_mark.type, set_mark.priority, set_mark.due_at, set_mark.seq, now + 250
    WHERE (SELECT count(*) FROM {schema}.marks k WHERE k.queue = set_mark.queue AND k.type = set_mark.type) < most;
  END IF;
END
$$;

-- The types of a queue of which jobs wait without a group, as open_types finds them; of those that have marks from these on.
CREATE OR REPLACE FUNCTION {schema}.marked_types(queue text) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  types text[] := '{}';
  after text := '';
  mark record;
  found_type text;
BEGIN
  FOR mark IN
    SELECT DISTINCT k.type FROM {schema}.marks k WHERE k.queue = marked_types.queue
    UNION ALL SELECT NULL ORDER BY 1 NULLS LAST
  LOOP
    -- Those between this one and the one before it.
    LOOP
      found_type := CASE WHEN mark.type IS NULL
        THEN (SELECT j.type FROM {schema}.jobs j
          WHERE j.queue = marked_types.queue AND j.type > after AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
          ORDER BY j.type LIMIT 1)
        ELSE (SELECT j.type FROM {schema}.jobs j
          WHERE j.queue = marked_types.queue AND j.type > after AND j.type < mark.type AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
          ORDER BY j.type LIMIT 1) END;
      EXIT WHEN found_type IS NULL;
      types := types || found_type;
      after := found_type;
    END LOOP;
    EXIT WHEN mark.type IS NULL;
    IF ({schema}.first_open(queue, mark.type, '-Infinity')).seq IS NOT NULL THEN
      types := types || mark.type;
    END IF;
    after := mark.type;
  END LOOP;
  RETURN types;
END
$$;

-- The first job of this type that waits without a group, from the marks on: by priority, those between marks, then those behind the next.
CREATE OR REPLACE FUNCTION {schema}.first_open(queue text, type text, now float8, OUT priority float8, OUT due_at float8,
  OUT seq bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  above float8 := 'Infinity';
  mark record;
BEGIN
  FOR mark IN
    SELECT k.priority, k.due_at, k.seq FROM {schema}.marks k WHERE k.queue = first_open.queue AND k.type = first_open.type
    UNION ALL SELECT '-Infinity', 0, 0 ORDER BY 1 DESC
  LOOP
    SELECT j.priority, j.due_at, j.seq INTO priority, due_at, seq FROM {schema}.jobs j
    WHERE j.queue = first_open.queue AND j.type = first_open.type AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
      AND j.priority < above AND j.priority > mark.priority AND (j.deadline IS NULL OR j.deadline > now)
    ORDER BY j.priority DESC, j.due_at, j.seq LIMIT 1;
    EXIT WHEN FOUND;
    SELECT j.priority, j.due_at, j.seq INTO priority, due_at, seq FROM {schema}.jobs j
    WHERE j.queue = first_open.queue AND j.type = first_open.type AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
      AND j.priority = mark.priority AND (j.due_at, j.seq) >= (mark.due_at, mark.seq) AND (j.deadline IS NULL OR j.deadline > now)
    ORDER BY j.due_at, j.seq LIMIT 1;
    EXIT WHEN FOUND;
    above := mark.priority;
  END LOOP;
END
$$;

-- Now and then one claim at a time looks at all jobs before the marks of a queue: where a job has come back there it moves the mark to
-- that job, and where few entries are left, since the server has cleaned up, it deletes the mark. The longer that takes the less often
-- it is done: for a twentieth of the time, about.
--
-- Answers when it is to be done next; NULL: it was done just now.
CREATE OR REPLACE FUNCTION {schema}.look_before_marks(queue text, now float8) RETURNS float8
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  look_at float8 := (SELECT min(k.look_at) FROM {schema}.marks k WHERE k.queue = look_before_marks.queue);
  before bigint;
  mark record;
  first record;
BEGIN
  IF look_at > now OR NOT pg_try_advisory_xact_lock({schema}.lock_key('mark', queue)) THEN
    RETURN look_at;
  END IF;
  FOR mark IN SELECT k.* FROM {schema}.marks k WHERE k.queue = look_before_marks.queue LOOP
    before := {schema}.passed();
    SELECT j.due_at, j.seq INTO first FROM {schema}.jobs j
    WHERE j.queue = look_before_marks.queue AND j.type = mark.type AND j.priority = mark.priority AND j.state = 'waiting'
      AND j.grp IS NULL AND j.keys IS NULL
    ORDER BY j.due_at, j.seq LIMIT 1;
    IF {schema}.passed_many(before, false) THEN
      UPDATE {schema}.marks k SET due_at = coalesce(first.due_at, k.due_at), seq = coalesce(first.seq, k.seq),
        look_at = now + greatest(250, ({schema}.passed() - before) / 100)
      WHERE k.queue = look_before_marks.queue AND k.type = mark.type AND k.priority = mark.priority;
    ELSE
      DELETE FROM {schema}.marks k WHERE k.queue = look_before_marks.queue AND k.type = mark.type AND k.priority = mark.priority;
    END IF;
  END LOOP;
  RETURN NULL;
END
$$;
