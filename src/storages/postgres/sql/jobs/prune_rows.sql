-- Deletes what has been kept long enough, 500 of each kind at the most: jobs, idempotency keys, limits of claims, what is
-- known of steps, events and those who listened to them, workers that are not live. What others have in their hands is left for the next time. deleted: how many. more: there may be more.
CREATE OR REPLACE FUNCTION {schema}.prune_rows(now float8, OUT deleted integer, OUT more boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  seqs bigint[];
  ids text[];
  count integer;
BEGIN
  SELECT array_agg(k.seq), array_agg(k.id), count(*) INTO seqs, ids, deleted FROM (
    SELECT j.seq, j.id FROM {schema}.jobs j WHERE j.delete_at IS NOT NULL AND j.delete_at <= now
    ORDER BY j.delete_at LIMIT 500 FOR UPDATE SKIP LOCKED) k;
  IF deleted > 0 THEN
    PERFORM {schema}.delete_jobs(seqs, ids);
  END IF;
  more := deleted = 500;

  DELETE FROM {schema}.keys k WHERE k.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}.keys o WHERE o.expires_at <= now ORDER BY o.expires_at LIMIT 500 FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS count = ROW_COUNT;
  deleted := deleted + count;
  more := more OR count = 500;

  -- They are written down again once a day, as long as there are claims.
  DELETE FROM {schema}.claims c WHERE c.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}.claims o WHERE o.at <= now - 2592000000 ORDER BY o.at LIMIT 500 FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS count = ROW_COUNT;
  deleted := deleted + count;

  count := {schema}.prune_steps(500);
  deleted := deleted + count;
  more := more OR count = 500;

  DELETE FROM {schema}.listeners l WHERE l.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}.listeners o WHERE o.until <= now LIMIT 500 FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS count = ROW_COUNT;
  deleted := deleted + count;

  DELETE FROM {schema}.workers w WHERE w.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}.workers o WHERE o.until <= now LIMIT 500 FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS count = ROW_COUNT;
  deleted := deleted + count;
  more := more OR count = 500;

  -- Events are for those who listen now: a minute, and ten thousand of them. They are numbered as they happen.
  DELETE FROM {schema}.events e WHERE e.ctid = ANY (ARRAY(
    SELECT f.at FROM (
      SELECT o.ctid AS at, o.seq, o.at AS told_at FROM {schema}.events o ORDER BY o.seq LIMIT 500 FOR UPDATE SKIP LOCKED) f
    WHERE f.told_at <= now - 60000 OR f.seq <= (SELECT max(n.seq) FROM {schema}.events n) - 10000));
  GET DIAGNOSTICS count = ROW_COUNT;
  deleted := deleted + count;
  more := more OR count = 500;
END
$$;
