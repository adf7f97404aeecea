-- Counts `n` starts that nobody can name, and answers where, and when.
CREATE OR REPLACE FUNCTION {schema}.record_starts(id bigint, n float8, now float8) RETURNS {schema}.start_place
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  newest float8;
  moment float8;
  place bigint;
BEGIN
  SELECT l.newest INTO newest FROM {schema}.limits AS l WHERE l.id = record_starts.id;
  moment := greatest(now, newest);
  place := {schema}.enter_starts(id, newest, n, 0, now);
  UPDATE {schema}.limits AS l SET newest = moment WHERE l.id = record_starts.id;
  PERFORM {schema}.shift_total(id, moment, n);
  RETURN (place, moment)::{schema}.start_place;
END
$$;
