-- Registers workers as live for ttl_ms from now, or again, and removes those that are gone.
--
-- entries: [{id, queue, info, upMs}]. gone: [id]. Answer: {first}: one of the entries is the live worker that began first.
CREATE OR REPLACE FUNCTION {schema}.register_workers(entries jsonb, ttl_ms float8, gone jsonb) RETURNS json
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8 := {schema}.present();
BEGIN
  DELETE FROM {schema}.workers w WHERE w.id IN (SELECT jsonb_array_elements_text(gone));
  INSERT INTO {schema}.workers AS w (id, queue, info, since, seen_at, until)
    SELECT e ->> 'id', e ->> 'queue', e ->> 'info', now - (e ->> 'upMs')::float8, now, now + ttl_ms
    FROM jsonb_array_elements(entries) AS e ORDER BY e ->> 'id' COLLATE "C"
    ON CONFLICT ON CONSTRAINT workers_pkey DO UPDATE
      SET queue = excluded.queue, info = excluded.info, seen_at = excluded.seen_at, until = excluded.until;
  RETURN json_build_object('first', EXISTS (
    SELECT FROM (SELECT w.id FROM {schema}.workers w WHERE w.until > now ORDER BY w.since, w.id LIMIT 1) AS f
    WHERE f.id IN (SELECT e ->> 'id' FROM jsonb_array_elements(entries) AS e)));
END
$$;
