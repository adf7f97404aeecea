-- Counts a start under a token of its own. spent: what was charged for it before, and has left every window. until: so long it
-- is kept at least. ttl, began: it is to be confirmed, by its token (as charge_keys); NULL: it is not.
CREATE OR REPLACE FUNCTION {schema}.record_named(
  id bigint, n float8, token bigint, spent float8, until float8, now float8, ttl float8 DEFAULT NULL, began float8 DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  moment float8;
BEGIN
  UPDATE {schema}.limits AS l SET newest = greatest(l.newest, record_named.now) WHERE l.id = record_named.id
    RETURNING l.newest INTO moment;
  INSERT INTO {schema}.starts (limit_id, at, since, n, token, spent, claim, began)
    VALUES (record_named.id, moment + coalesce(ttl, 0), greatest(moment, until), record_named.n, record_named.token,
      record_named.spent, CASE WHEN ttl IS NOT NULL THEN record_named.token END,
      CASE WHEN ttl IS NOT NULL THEN record_named.began END);
  PERFORM {schema}.shift_total(id, moment + coalesce(ttl, 0), n);
END
$$;
