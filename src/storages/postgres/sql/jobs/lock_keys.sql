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
