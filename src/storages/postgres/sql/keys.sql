-- Idempotency keys of jobs that are added.
--
-- Locks: the rows of the keys, sorted; then the rows of the jobs that are to be replaced, in the order of their ids.

-- The idempotency keys that these jobs ask for are ours until the end of the transaction. In one go and sorted: whoever adds
-- others with some of the same keys waits, and not crosswise. Answers true where nobody had any of them, each is asked for once, and
-- none of the jobs is there already or comes twice; then the keys belong to them. Else those that were free have run out, and can be taken.
CREATE OR REPLACE FUNCTION {schema}.lock_keys(jobs json, now float8) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  asked bigint;
  taken text[];
  twice boolean;
BEGIN
  WITH asking AS (
    SELECT n.* FROM json_to_recordset(lock_keys.jobs) AS n (id text, queue text, key text, fingerprint text, ttl float8)
    WHERE n.key IS NOT NULL
  ), locked AS (
    INSERT INTO {schema}.keys AS k (queue, key, fingerprint, job, expires_at)
    SELECT DISTINCT ON (a.queue COLLATE "C", a.key COLLATE "C") a.queue, a.key, a.fingerprint, a.id, now + a.ttl
    FROM asking a ORDER BY a.queue COLLATE "C", a.key COLLATE "C"
    -- Never true: the row is locked, and stays as it is.
    ON CONFLICT (queue, key) DO UPDATE SET job = excluded.job WHERE false
    RETURNING k.job
  )
  SELECT (SELECT count(*) FROM asking), (SELECT array_agg(l.job) FROM locked l) INTO asked, taken;
  SELECT count(*) > count(DISTINCT n.id) INTO twice FROM json_to_recordset(lock_keys.jobs) AS n (id text);
  IF asked = 0 THEN
    RETURN true;
  END IF;
  IF cardinality(taken) = asked AND NOT twice AND NOT EXISTS (SELECT FROM {schema}.jobs j WHERE j.id = ANY (taken)) THEN
    RETURN true;
  END IF;
  UPDATE {schema}.keys k SET expires_at = '-Infinity'
  FROM json_to_recordset(lock_keys.jobs) AS n (id text, queue text, key text)
  WHERE k.queue = n.queue AND k.key = n.key AND k.job = n.id AND n.id = ANY (taken);
  RETURN false;
END
$$;

-- The jobs that are to give way to these are ours until the end of the transaction: all at once and in the order of their ids, as
-- everybody does who waits for jobs. Those that run do not give way, and are left alone: a worker is not to wait for a transaction
-- of somebody else's. jobs: a list as jobs/add.ts writes it, whose keys are locked.
CREATE OR REPLACE FUNCTION {schema}.lock_holders(jobs json, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  holders text[] := ARRAY(SELECT k.job
    FROM json_to_recordset(lock_holders.jobs) AS n (queue text, key text, on_duplicate text)
    JOIN {schema}.keys k ON k.queue = n.queue AND k.key = n.key
    WHERE n.on_duplicate = 'replace' AND k.expires_at > now);
BEGIN
  IF cardinality(holders) > 0 THEN
    PERFORM FROM {schema}.jobs j
    WHERE j.id = ANY (holders) AND j.state COLLATE "POSIX" = ANY ('{waiting,scheduled,awaiting}')
    ORDER BY j.id FOR UPDATE;
  END IF;
END
$$;

-- May a job be added that asks for this idempotency key? NULL: yes, and the key is its own now, for `ttl` ms. Else the id of the
-- job that there is already: the same one, or another that has the key. SQLSTATE SL002, with what is wrong in DETAIL, where
-- the key is taken and that is not to be. Whoever calls has locked the key, and the job that may have to give way (lock_holders).
--
-- gone: the job that has given way, as the limits want to hear of it; NULL: none has.
CREATE OR REPLACE FUNCTION {schema}.take_key(id text, queue text, key text, fingerprint text, ttl float8, on_duplicate text,
  now float8, OUT earlier text, OUT gone {schema}.gone_job)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  holder record;
  other record;
  why text;
BEGIN
  PERFORM FROM {schema}.jobs j WHERE j.id = take_key.id;
  IF FOUND THEN
    earlier := take_key.id;
    RETURN;
  END IF;
  SELECT k.fingerprint, k.job INTO holder FROM {schema}.keys k
  WHERE k.queue = take_key.queue AND k.key = take_key.key AND k.expires_at > now;
  IF FOUND THEN
    IF holder.job = take_key.id OR (on_duplicate = 'return' AND holder.fingerprint = take_key.fingerprint) THEN
      earlier := holder.job;
      RETURN;
    END IF;
    IF on_duplicate = 'replace' THEN
      -- One that runs is not locked: its worker would wait for us. One that has come back just now is.
      LOOP
        SELECT j.seq, j.state, j.queue, j.type, j.priority, j.grp INTO other FROM {schema}.jobs j WHERE j.id = holder.job;
        EXIT WHEN other.state IN ('waiting', 'scheduled', 'awaiting') IS NOT TRUE;
        PERFORM FROM {schema}.jobs j WHERE j.id = holder.job AND j.state COLLATE "POSIX" = other.state FOR UPDATE;
        EXIT WHEN FOUND;
      END LOOP;
      IF other.state = 'active' THEN
        why := 'it is active, and cannot be replaced';
      ELSIF other.state IN ('waiting', 'scheduled', 'awaiting') THEN
        PERFORM {schema}.delete_jobs(ARRAY[other.seq], ARRAY[holder.job]);
        IF other.state = 'waiting' THEN
          gone := (other.queue, other.type, other.priority, other.grp);
        END IF;
      END IF;
    ELSIF on_duplicate = 'reject' THEN
      why := 'duplicates are to be rejected';
    ELSE
      why := 'its payload is another one';
    END IF;
    IF why IS NOT NULL THEN
      RAISE EXCEPTION 'the idempotency key "%" belongs to job "%": %', take_key.key, holder.job, why USING ERRCODE = 'SL002',
        DETAIL = json_build_object('why', 'key', 'key', take_key.key, 'id', holder.job, 'because', why)::text;
    END IF;
  END IF;
  UPDATE {schema}.keys k SET fingerprint = take_key.fingerprint, job = take_key.id, expires_at = now + ttl
  WHERE k.queue = take_key.queue AND k.key = take_key.key;
END
$$;
