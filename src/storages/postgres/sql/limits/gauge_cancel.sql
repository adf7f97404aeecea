-- The start of this instant never was. When it was granted, the time after the one before it was over.
CREATE OR REPLACE FUNCTION {schema}.gauge_cancel(id bigint, started_at float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  UPDATE {schema}.limits AS l SET latest_at = NULL, called_at = NULL, called_by = NULL
    WHERE l.id = gauge_cancel.id AND l.latest_at = started_at;
END
$$;
