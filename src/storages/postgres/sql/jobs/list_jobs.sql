-- A page of the jobs of a queue, the newest first. Those that have come due are shown as such, whether or not anybody has
-- claimed since.
--
-- query: {queue, states, type, grp, since, until, most, bytes, after}; after: the number of the last job of the page before; bytes: so
-- much data, and so many results, but one job in any case. Answer: {jobs: a list as job_json gives them, more: there is another page}.
-- Each state is a range of its own in the index; the ranges are merged.
CREATE OR REPLACE FUNCTION {schema}.list_jobs(query json) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  q record;
  skew float8 := {schema}.skew();
BEGIN
  SELECT * INTO q FROM json_to_record(query) AS r (queue text, states text[], type text, grp text, since float8, until float8,
    most integer, bytes float8, after bigint);
  PERFORM {schema}.show_due(q.queue);
  RETURN (
    WITH page AS MATERIALIZED (
      SELECT p.id, p.seq, row_number() OVER (ORDER BY p.seq DESC) AS no,
        sum(octet_length(s.data) + coalesce(octet_length(s.result), 0)) OVER (ORDER BY p.seq DESC) AS total
      FROM (
        SELECT i.id, i.seq FROM unnest(q.states) AS s (state) CROSS JOIN LATERAL {schema}.ids_in_state(q.queue, s.state, q.type,
          q.grp, q.since + skew, q.until + skew, NULL, NULL, true, q.after, q.most + 1) i
        ORDER BY i.seq DESC LIMIT q.most + 1
      ) p JOIN {schema}.jobs s ON s.id = p.id
    )
    SELECT json_build_object('jobs', coalesce(json_agg({schema}.job_json(j, skew) ORDER BY p.seq DESC), '[]'),
      'more', (SELECT count(*) FROM page) > count(*))
    FROM page p JOIN {schema}.jobs j ON j.id = p.id WHERE p.no <= q.most AND (p.no = 1 OR p.total <= q.bytes));
END
$$;
