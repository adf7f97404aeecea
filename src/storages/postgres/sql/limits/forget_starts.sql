-- Deletes starts that no window can see, a step of them; what a permit holds may still be corrected, and of others `since`
-- says until when. A little more than the longest window is kept: who comes to the very end of it finds it undisturbed. One that is
-- not confirmed is kept for an hour more: its call may turn out to have been made too late. newest: of those deleted.
CREATE OR REPLACE FUNCTION {schema}.forget_starts(
  kept {schema}.limits, now float8, OUT deleted integer, OUT newest float8
)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM {schema}.settle_total(kept, now);
  WITH old AS (
    SELECT s.seq FROM {schema}.starts AS s
      WHERE s.limit_id = kept.id AND s.at <= now - kept.longest - 1
        AND (s.claim IS NULL OR s.at <= now - kept.longest - 3600000)
        AND (s.token IS NULL OR (s.since <= now
          AND NOT EXISTS (SELECT FROM {schema}.holds AS h WHERE h.token = s.token)))
      ORDER BY s.at, s.seq LIMIT 500
  ), gone AS (
    DELETE FROM {schema}.starts AS s WHERE s.seq = ANY (ARRAY(SELECT old.seq FROM old)) RETURNING s.at
  )
  -- Without a window nothing was counted.
  SELECT count(*), CASE WHEN kept.longest > 0 THEN max(gone.at) END INTO deleted, newest FROM gone;
END
$$;
