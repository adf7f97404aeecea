-- Deletes lanes that nobody has used for an hour: so long a lane remembers its turn after the last job has left it. Those of
-- queues where somebody claims at this moment are left for the next time. Answers how many.
--
-- now: the time. most: how many at most.
CREATE OR REPLACE FUNCTION {schema}.sweep_lanes(now float8, most integer) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  kept_ms CONSTANT float8 := 3600000;
  old bigint[];
  queues text[];
  deleted integer;
BEGIN
  SELECT array_agg(l.id), array_agg(DISTINCT l.queue) INTO old, queues FROM (
    SELECT a.id, a.queue FROM {schema}.lanes a WHERE NOT a.ready AND a.used_at <= now - kept_ms ORDER BY a.used_at LIMIT most
  ) l;
  IF old IS NULL THEN
    RETURN 0;
  END IF;
  SELECT array_agg(q.queue) INTO queues FROM unnest(queues) AS q (queue)
    WHERE pg_try_advisory_xact_lock({schema}.lock_key('queue', q.queue));
  DELETE FROM {schema}.lanes l WHERE l.id = ANY (old) AND l.queue = ANY (queues) AND NOT l.ready;
  GET DIAGNOSTICS deleted = ROW_COUNT;
  RETURN deleted;
END
$$;
