-- Idempotency keys of jobs that are added: one job for one key of a queue.
--
-- Locks: the rows of the keys, sorted; then the rows of the jobs that are to be replaced, in the order of their ids. Jobs that run are
-- not locked: a worker is not to wait for a transaction of the user's.

-- Takes the keys that jobs ask for, for `ttl` ms each. Nothing of the jobs themselves is written but that those are deleted which
-- give way. Raises SQLSTATE SL002, with what is wrong in DETAIL, where a key is taken and that is not to be.
--
-- asked: NULL: none asks for one. Else an entry for each of the jobs, {} or {id, queue, key, fingerprint, ttl, on_duplicate};
-- on_duplicate: what if the key is taken: 'return' the job that has it, if its fingerprint is the same, 'reject', or 'replace' it
-- unless it runs. ids: of all jobs.
--
-- keys: by the number of the job. instead: by the number, the id of the job that there is: the same one, or another that has the key;
-- NULL: all are to be added. left_out: the same, with those that give way to a later one of the call. gone: those that have given
-- way, and waited.
CREATE OR REPLACE FUNCTION {schema}.take_keys(asked json, ids text[], now float8, OUT keys text[], OUT instead text[],
  OUT left_out text[], OUT gone {schema}.lane_job[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  wanted integer := 0;
  free text[];
  one record;
  holder record;
  other {schema}.lane_job;
  number bigint;
  why text;
BEGIN
  IF asked IS NOT NULL THEN
    -- In one go and sorted: calls with some of the same keys wait for each other, and not crosswise.
    WITH asking AS (
      SELECT n.* FROM json_to_recordset(asked) AS n (id text, queue text, key text, fingerprint text, ttl float8)
      WHERE n.key IS NOT NULL
    ), locked AS (
      INSERT INTO {schema}.keys AS k (queue, key, fingerprint, job, expires_at)
      SELECT DISTINCT ON (a.queue COLLATE "C", a.key COLLATE "C") a.queue, a.key, a.fingerprint, a.id, now + a.ttl
      FROM asking a ORDER BY a.queue COLLATE "C", a.key COLLATE "C"
      -- Never true: the row is locked, and stays as it is.
      ON CONFLICT (queue, key) DO UPDATE SET job = excluded.job WHERE false
      RETURNING k.job
    )
    SELECT (SELECT count(*) FROM asking), (SELECT array_agg(l.job) FROM locked l) INTO wanted, free;
    keys := ARRAY(SELECT n.key FROM ROWS FROM (json_to_recordset(asked) AS (key text)) WITH ORDINALITY AS n (key, no) ORDER BY n.no);
  END IF;
  instead := {schema}.ids_there(ids);
  left_out := instead;
  -- As a rule all of them are free.
  IF wanted = 0 OR (cardinality(free) = wanted AND instead IS NULL) THEN
    RETURN;
  END IF;

  -- Those that were free can be taken, one after the other.
  UPDATE {schema}.keys k SET expires_at = '-Infinity'
  FROM json_to_recordset(asked) AS n (id text, queue text, key text)
  WHERE k.queue = n.queue AND k.key = n.key AND k.job = n.id AND n.id = ANY (free);
  PERFORM FROM {schema}.jobs j
  WHERE j.id = ANY (ARRAY(SELECT k.job FROM json_to_recordset(asked) AS n (queue text, key text, on_duplicate text)
      JOIN {schema}.keys k ON k.queue = n.queue AND k.key = n.key WHERE n.on_duplicate = 'replace' AND k.expires_at > now))
    AND j.state COLLATE "POSIX" = ANY ('{waiting,scheduled,awaiting}')
  ORDER BY j.id FOR UPDATE;
  instead := coalesce(instead, array_fill(NULL::text, ARRAY[cardinality(ids)]));
  left_out := instead;
  FOR one IN
    SELECT n.* FROM ROWS FROM (json_to_recordset(asked) AS (id text, queue text, key text, fingerprint text, ttl float8,
      on_duplicate text)) WITH ORDINALITY AS n (id, queue, key, fingerprint, ttl, on_duplicate, no)
    WHERE n.key IS NOT NULL ORDER BY n.no
  LOOP
    CONTINUE WHEN instead[one.no] IS NOT NULL;
    SELECT k.fingerprint, k.job INTO holder FROM {schema}.keys k
    WHERE k.queue = one.queue AND k.key = one.key AND k.expires_at > now;
    IF FOUND THEN
      IF holder.job = one.id OR (one.on_duplicate = 'return' AND holder.fingerprint = one.fingerprint) THEN
        instead[one.no] := holder.job;
        left_out[one.no] := holder.job;
        -- If a later one has its id, that one is added.
        number := (SELECT min(i.no) FROM unnest(ids) WITH ORDINALITY AS i (id, no) WHERE i.id = one.id AND i.no > one.no);
        IF number IS NOT NULL THEN
          instead[number] := NULL;
          left_out[number] := NULL;
        END IF;
        CONTINUE;
      END IF;
      why := CASE one.on_duplicate WHEN 'return' THEN 'its payload is another one' WHEN 'reject' THEN 'duplicates are to be rejected' END;
      IF one.on_duplicate = 'replace' THEN
        -- One that runs is not locked. One that has come back just now is.
        LOOP
          SELECT ({schema}.lane_job_of(j)).* INTO other FROM {schema}.jobs j WHERE j.id = holder.job;
          EXIT WHEN other.state IN ('waiting', 'scheduled', 'awaiting') IS NOT TRUE;
          PERFORM FROM {schema}.jobs j WHERE j.id = holder.job AND j.state COLLATE "POSIX" = other.state FOR UPDATE;
          EXIT WHEN FOUND;
        END LOOP;
        IF other.state = 'active' THEN
          why := 'it is active, and cannot be replaced';
        ELSIF other.state IN ('waiting', 'scheduled', 'awaiting') THEN
          PERFORM {schema}.delete_jobs(ARRAY[other.seq], ARRAY[holder.job]);
          IF other.state = 'waiting' THEN
            gone := gone || other;
          END IF;
        ELSIF other.state IS NULL THEN
          -- It may be one of those before this one, which are not there yet.
          number := (SELECT i.no FROM unnest(ids, left_out) WITH ORDINALITY AS i (id, other, no)
            WHERE i.id = holder.job AND i.other IS NULL AND i.no < one.no);
          IF number IS NOT NULL THEN
            left_out[number] := one.id;
          END IF;
        END IF;
        -- If a later one has its id, that one is added.
        number := (SELECT min(i.no) FROM unnest(ids) WITH ORDINALITY AS i (id, no) WHERE i.id = holder.job AND i.no > one.no);
        IF number IS NOT NULL AND why IS NULL THEN
          instead[number] := NULL;
          left_out[number] := NULL;
        END IF;
      END IF;
      IF why IS NOT NULL THEN
        RAISE EXCEPTION 'the idempotency key "%" belongs to job "%": %', one.key, holder.job, why USING ERRCODE = 'SL002',
          DETAIL = json_build_object('why', 'key', 'key', one.key, 'id', holder.job, 'because', why)::text;
      END IF;
    END IF;
    UPDATE {schema}.keys k SET fingerprint = one.fingerprint, job = one.id, expires_at = now + one.ttl
    WHERE k.queue = one.queue AND k.key = one.key;
  END LOOP;
  -- Those that were locked for a job that was there already.
  DELETE FROM {schema}.keys k USING json_to_recordset(asked) AS n (queue text, key text)
  WHERE k.queue = n.queue AND k.key = n.key AND k.expires_at = '-Infinity';
END
$$;
