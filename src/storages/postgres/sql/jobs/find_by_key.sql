-- The job that has this idempotency key, as find_jobs gives it: a list with one element, or none where the key is not kept.
CREATE OR REPLACE FUNCTION {schema}.find_by_key(queue text, key text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8 := {schema}.present();
BEGIN
  RETURN {schema}.find_jobs((SELECT coalesce(json_agg(k.job), '[]') FROM {schema}.keys k
    WHERE k.queue = find_by_key.queue AND k.key = find_by_key.key AND k.expires_at > now), 0);
END
$$;
