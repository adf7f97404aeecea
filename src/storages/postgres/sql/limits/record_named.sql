-- Counts a start under a token of its own. spent: what was charged for it before, and has left every window. until: so long it
-- is kept at least.
CREATE OR REPLACE FUNCTION {schema}.record_named(
  id bigint, n float8, token bigint, spent float8, until float8, now float8
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  moment float8;
BEGIN
  UPDATE {schema}.limits AS l SET newest = greatest(l.newest, record_named.now) WHERE l.id = record_named.id
    RETURNING l.newest INTO moment;
  INSERT INTO {schema}.starts (limit_id, at, since, n, token, spent)
    VALUES (record_named.id, moment, greatest(moment, until), record_named.n, record_named.token, record_named.spent);
  PERFORM {schema}.shift_total(id, moment, n);
END
$$;
