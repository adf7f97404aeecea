-- Counts `n` starts in the log, and answers where. Those less than `resolution` apart share a row, stamped with the latest of
-- them: never over. Below 0 nobody shares. newest: when the newest start was; no start is stamped before it. Neither the
-- total nor the newest start of the limit is written.
CREATE OR REPLACE FUNCTION {schema}.enter_starts(
  id bigint, newest float8, n float8, resolution float8, now float8
) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  moment float8 := greatest(now, newest);
  place bigint;
BEGIN
  IF resolution >= 0 THEN
    place := {schema}.shared_entry(id, newest, resolution, moment);
  END IF;
  IF place IS NOT NULL THEN
    UPDATE {schema}.starts AS s SET at = moment, n = s.n + enter_starts.n WHERE s.seq = place;
  ELSE
    INSERT INTO {schema}.starts AS s (limit_id, at, since, n)
      VALUES (enter_starts.id, moment, moment, enter_starts.n) RETURNING s.seq INTO place;
  END IF;
  RETURN place;
END
$$;
