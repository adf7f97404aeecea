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
