-- What there is of each queue, by name; of one, if asked. A queue exists while it has jobs or is paused. Those that have come due
-- are counted as such.
--
-- Answer: [[queue, {state: count}, [paused: '' for the queue, ':' and the type for one], how long the first has waited]].
CREATE OR REPLACE FUNCTION {schema}.overview(queue text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET jit = off SET enable_seqscan = off AS $$
DECLARE
  now float8;
  names text[] := ARRAY[queue];
BEGIN
  IF queue IS NULL THEN
    names := {schema}.queue_names();
  END IF;
  PERFORM {schema}.show_due(n.name) FROM unnest(names) AS n (name);
  now := {schema}.present();
  RETURN (SELECT coalesce(json_agg(json_build_array(n.name, c.counts, p.pauses, {schema}.oldest_waiting(n.name, now)) ORDER BY n.no),
      '[]')
    FROM unnest(names) WITH ORDINALITY AS n (name, no)
    CROSS JOIN LATERAL (SELECT json_object_agg(s.state, s.count) AS counts FROM (
      SELECT 'active' AS state, count(*) AS count FROM {schema}.jobs j
      WHERE j.state = 'active' AND j.queue = n.name HAVING count(*) > 0
      UNION ALL
      SELECT j.state COLLATE "POSIX", count(*) FROM {schema}.jobs j
      WHERE j.queue COLLATE "POSIX" = n.name AND j.state COLLATE "POSIX" <> 'active' GROUP BY j.state COLLATE "POSIX") s) c
    CROSS JOIN LATERAL (SELECT json_agg(p.type ORDER BY p.type) AS pauses FROM {schema}.pauses p WHERE p.queue = n.name) p
    WHERE c.counts IS NOT NULL OR p.pauses IS NOT NULL);
END
$$;
