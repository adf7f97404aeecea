-- A start of this instant counts for so much more, or less: so does what is in use, if the start was counted in that.
CREATE OR REPLACE FUNCTION {schema}.shift_total(id bigint, at float8, by float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF by <> 0 THEN
    UPDATE {schema}.limits AS l SET used = l.used + by
      WHERE l.id = shift_total.id AND l.window_ms IS NOT NULL AND l.seen_at - shift_total.at < l.window_ms;
  END IF;
END
$$;
