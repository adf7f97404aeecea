-- Of each queue the types of which jobs wait, and what is paused; and all live workers (workers.ts).
--
-- Of jobs that have come due and are not shown as such yet the first thousand are looked at. Lanes are not asked: one may be ready
-- though its last job was cancelled, until a claim looks at it.
CREATE OR REPLACE FUNCTION {schema}.read_waiting_types() RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
  SET jit = off SET enable_seqscan = off AS $$
DECLARE
  now float8 := {schema}.present();
BEGIN
  RETURN json_build_object('workers', {schema}.live_workers(NULL, now), 'queues', (
    SELECT coalesce(json_agg(json_build_object('queue', n.name,
      'pauses', (SELECT coalesce(json_agg(p.type), '[]') FROM {schema}.pauses p WHERE p.queue = n.name),
      'types', (SELECT coalesce(json_agg(w.type ORDER BY w.type), '[]') FROM (
        SELECT t.type FROM unnest({schema}.waiting_types(n.name)) AS t (type)
        WHERE EXISTS (SELECT FROM {schema}.jobs j
            WHERE j.queue = n.name AND j.type = t.type AND j.state = 'waiting' AND j.grp IS NULL)
          OR EXISTS (SELECT FROM {schema}.jobs j
            WHERE j.queue = n.name AND j.type = t.type AND j.state = 'waiting' AND j.grp IS NOT NULL)
        UNION
        SELECT d.type FROM (SELECT j.type FROM {schema}.jobs j
          WHERE j.queue = n.name AND j.state = 'scheduled' AND j.due_at <= now AND {schema}.has_passed(j.due_wall) ORDER BY j.due_at LIMIT 1000) AS d) AS w)
      ) ORDER BY n.no), '[]')
    FROM unnest({schema}.queue_names()) WITH ORDINALITY AS n (name, no)));
END
$$;
