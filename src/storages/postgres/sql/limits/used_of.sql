-- How much of a window is in use under what is kept here; nothing, where nothing is.
CREATE OR REPLACE FUNCTION {schema}.used_of(kept {schema}.limits, window_ms float8, now float8) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN {schema}.window_used(kept.id, kept.window_ms, kept.used, kept.seen_at, used_of.window_ms, now);
END
$$;
