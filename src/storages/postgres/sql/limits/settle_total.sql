-- Before starts are deleted that have left the window: what is taken off later is only what is still there.
CREATE OR REPLACE FUNCTION {schema}.settle_total(kept {schema}.limits, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF kept.window_ms IS NOT NULL THEN
    PERFORM {schema}.keep_total(kept.id, kept.window_ms, {schema}.used_of(kept, kept.window_ms, now), now);
  END IF;
END
$$;
