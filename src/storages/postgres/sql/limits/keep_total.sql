-- Writes down what is in use now, of a window of this length.
CREATE OR REPLACE FUNCTION {schema}.keep_total(id bigint, window_ms float8, used float8, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  UPDATE {schema}.limits AS l SET window_ms = keep_total.window_ms, used = keep_total.used, seen_at = keep_total.now
    WHERE l.id = keep_total.id;
END
$$;
