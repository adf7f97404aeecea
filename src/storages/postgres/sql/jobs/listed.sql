-- Jobs that are alike (add_alike.sql), as a list of jobs (insert_jobs.sql).
CREATE OR REPLACE FUNCTION {schema}.listed(ids text[], data text[], columns json) RETURNS json
LANGUAGE sql STABLE AS $$
  SELECT json_agg(columns::jsonb || jsonb_build_object('id', n.id, 'data', n.data) ORDER BY n.no)
  FROM unnest(ids, data) WITH ORDINALITY AS n (id, data, no)
$$;
