-- The starts that share this place in the log count for so much more, or less, together.
CREATE OR REPLACE FUNCTION {schema}.change_entry(entry {schema}.starts, by float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  after float8 := greatest(0, entry.n + by);
BEGIN
  UPDATE {schema}.starts AS s SET n = after WHERE s.seq = entry.seq;
  PERFORM {schema}.shift_total(entry.limit_id, entry.at, after - entry.n);
END
$$;
