-- A page of the jobs of a queue, the newest first. Those that have come due are shown as such, whether or not anybody has
-- claimed since.
--
-- query: {queue, states, type, grp, since, until, most, after}; after: the number of the last job of the page before. Answer: a
-- list as job_json gives them. Each state is a range of its own in the index; the ranges are merged.
CREATE OR REPLACE FUNCTION {schema}.list_jobs(query json) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  q record;
  skew float8 := {schema}.skew();
BEGIN
  SELECT * INTO q FROM json_to_record(query) AS r (queue text, states text[], type text, grp text, since float8, until float8,
    most integer, after bigint);
  PERFORM {schema}.show_due(q.queue);
  RETURN (SELECT coalesce(json_agg({schema}.job_json(j, skew) ORDER BY j.seq DESC), '[]') FROM (
    SELECT p.id FROM unnest(q.states) AS s (state) CROSS JOIN LATERAL {schema}.ids_in_state(q.queue, s.state, q.type, q.grp,
      q.since + skew, q.until + skew, NULL, NULL, true, q.after, q.most) p
    ORDER BY p.seq DESC LIMIT q.most) page JOIN {schema}.jobs j ON j.id = page.id);
END
$$;
