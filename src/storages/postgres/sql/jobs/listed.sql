-- Jobs that are alike (add_alike.sql), as a list of jobs (insert_jobs.sql).
CREATE OR REPLACE FUNCTION {schema}.listed(jobs json) RETURNS json
LANGUAGE sql STABLE AS $$
  SELECT json_agg((jobs::jsonb - 'ids' - 'data') || jsonb_build_object('id', n.id, 'data', n.data) ORDER BY n.no)
  FROM json_to_record(jobs) AS r (ids text[], data text[])
  CROSS JOIN LATERAL unnest(r.ids, r.data) WITH ORDINALITY AS n (id, data, no)
$$;
