-- What is kept of a limit, for one group or for all, as whoever only reads sees it (limits/meter.ts): its row, what is in use
-- of the window and what leaves it first, and what is held.
--
-- limit_name, state_grp: whose. window_ms, most: its window, or NULL. more: what is asked for, when `ahead` others have
-- started: as many of the starts that leave the window are told as decide about that; one that is not confirmed as if it had been
-- called when it leaves at the instant at which it is worth looking again (limits/window_wait.sql). at: now.
CREATE OR REPLACE FUNCTION {schema}.seen_limit(
  limit_name text, state_grp text, window_ms float8, most float8, more float8, ahead float8, at float8
) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
  kept {schema}.limits;
  moment float8;
  in_use float8 := 0;
  needed float8;
  leaving jsonb := '[]';
  delay float8;
  held record;
BEGIN
  SELECT * INTO kept FROM {schema}.limits l WHERE l.name = limit_name AND l.grp = state_grp;
  IF kept.id IS NULL THEN
    RETURN jsonb_build_object('now', at, 'row', NULL, 'used', 0, 'leaving', '[]'::jsonb,
      'slots', 0, 'probes', 0, 'until', NULL);
  END IF;
  -- Whatever is decided comes after all that is known.
  moment := greatest(at, kept.newest, kept.latest_at);
  IF window_ms IS NOT NULL AND most IS NOT NULL THEN
    SELECT coalesce(sum(s.n), 0) INTO in_use FROM {schema}.starts s
      WHERE s.limit_id = kept.id AND s.at > moment - window_ms - 1 AND moment - s.at < window_ms;
    needed := greatest(0, in_use + more - most) + ahead;
    IF needed > 0 THEN
      SELECT {schema}.expected_delay(s.at - s.began, window_ms) INTO delay FROM {schema}.starts s
        WHERE s.limit_id = kept.id AND s.claim IS NULL AND s.n > 0 ORDER BY s.at DESC, s.seq DESC LIMIT 1;
      SELECT coalesce(jsonb_agg(jsonb_build_array(f.at, f.n) ORDER BY f.at, f.seq), '[]') INTO leaving FROM (
        SELECT e.at, e.seq, e.n, sum(e.n) OVER (ORDER BY e.at, e.seq) - e.n AS before FROM (
          (SELECT s.at, s.seq, s.n FROM {schema}.starts s
            WHERE s.limit_id = kept.id AND s.at > moment - window_ms - 1 AND moment - s.at < window_ms AND s.n > 0
              AND s.claim IS NULL
            ORDER BY s.at, s.seq LIMIT 10000)
          UNION ALL
          SELECT moment - window_ms + {schema}.look_again_in(
              moment - (s.began + coalesce(delay, 0)), window_ms, window_ms - (moment - s.at)), s.seq, s.n
            FROM {schema}.starts s
            WHERE s.limit_id = kept.id AND s.at > moment - window_ms - 1 AND moment - s.at < window_ms AND s.n > 0
              AND s.claim IS NOT NULL
        ) e ORDER BY e.at, e.seq LIMIT 10000
      ) f WHERE f.before < needed;
    END IF;
  END IF;
  SELECT coalesce(sum(h.slots), 0) AS slots, count(*) FILTER (WHERE h.at >= kept.open_until) AS probes, min(h.until) AS until
    INTO held FROM {schema}.holds h WHERE h.limit_id = kept.id AND (h.until IS NULL OR h.until > moment);
  RETURN jsonb_build_object('now', moment, 'row', to_jsonb(kept), 'used', in_use, 'leaving', leaving,
    'slots', held.slots, 'probes', held.probes, 'until', held.until);
END
$$;
