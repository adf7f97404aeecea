-- The jobs of these ids (a list), in this order; null where there is none. As many of the first as have so many bytes of data and
-- results, but one in any case: the answer is shorter than the list then. One that has come due is shown as waiting: the next claim
-- will write that down.
CREATE OR REPLACE FUNCTION {schema}.find_jobs(ids json, bytes float8) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
  SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  now float8 := {schema}.present();
  skew float8 := {schema}.skew();
BEGIN
  RETURN (SELECT coalesce(json_agg(CASE
      WHEN j.id IS NULL THEN NULL
      WHEN j.state = 'scheduled' AND j.due_at <= now AND {schema}.has_passed(j.due_wall) THEN
        {schema}.job_json(jsonb_populate_record(j,
          jsonb_build_object('state', 'waiting', 'due_at', coalesce(j.first_due_at, j.due_at))), skew)
      ELSE {schema}.job_json(j, skew) END ORDER BY i.no), '[]')
    FROM (
      SELECT i.id, i.no,
        sum(coalesce(octet_length(s.data), 0) + coalesce(octet_length(s.result), 0)) OVER (ORDER BY i.no) AS total
      FROM json_array_elements_text(ids) WITH ORDINALITY AS i (id, no) LEFT JOIN {schema}.jobs s ON s.id = i.id
    ) i LEFT JOIN {schema}.jobs j ON j.id = i.id WHERE i.no = 1 OR i.total <= bytes);
END
$$;
