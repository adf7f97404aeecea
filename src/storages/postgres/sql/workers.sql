-- The registry of workers. No locks.

-- Registers workers as live for ttl_ms from now, or again, and removes those that are gone.
--
-- entries: [{id, queue, info, upMs}]. gone: [id]. Answer: {first}: one of the entries is the live worker that began first.
CREATE OR REPLACE FUNCTION {schema}.register_workers_{version}(entries jsonb, ttl_ms float8, gone jsonb) RETURNS json
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

-- The live workers of a queue, or of all (NULL), the one that began first in front: [{id, queue, info, since, seenAt}].
CREATE OR REPLACE FUNCTION {schema}.read_workers_{version}(of_queue text) RETURNS jsonb
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(jsonb_agg(jsonb_build_object('id', w.id, 'queue', w.queue, 'info', w.info, 'since', w.since - {schema}.skew(),
      'seenAt', w.seen_at - {schema}.skew()) ORDER BY w.since, w.id), '[]')
    FROM {schema}.workers w WHERE w.until > {schema}.present() AND (of_queue IS NULL OR w.queue = of_queue)
$$;

-- Of each queue the types of which jobs wait, and what is paused; and all live workers (workers.ts).
--
-- Of jobs that have come due and are not shown as such yet the first thousand are looked at. Lanes are not asked: one may be ready
-- though its last job was cancelled, until a claim looks at it.
CREATE OR REPLACE FUNCTION {schema}.read_waiting_types_{version}() RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
  SET jit = off SET enable_seqscan = off AS $$
DECLARE
  now float8 := {schema}.present();
BEGIN
  RETURN json_build_object('workers', {schema}.read_workers_{version}(NULL), 'queues', (
    SELECT coalesce(json_agg(json_build_object('queue', n.name,
      'pauses', (SELECT coalesce(json_agg(p.type), '[]') FROM {schema}.pauses p WHERE p.queue = n.name),
      'types', (SELECT coalesce(json_agg(w.type ORDER BY w.type), '[]') FROM (
        SELECT t.type FROM unnest({schema}.waiting_types(n.name)) AS t (type)
        WHERE EXISTS (SELECT FROM {schema}.jobs j
            WHERE j.queue = n.name AND j.type = t.type AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL)
          OR EXISTS (SELECT FROM {schema}.jobs j
            WHERE j.queue = n.name AND j.type = t.type AND j.state = 'waiting' AND coalesce(j.grp, j.keys) IS NOT NULL)
        UNION
        SELECT d.type FROM (SELECT j.type FROM {schema}.jobs j
          WHERE j.queue = n.name AND j.state = 'scheduled' AND j.due_at <= now AND {schema}.has_passed(j.due_wall) ORDER BY j.due_at LIMIT 1000) AS d) AS w)
      ) ORDER BY n.no), '[]')
    FROM unnest({schema}.queue_names()) WITH ORDINALITY AS n (name, no)));
END
$$;
