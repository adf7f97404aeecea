-- How those of these jobs (a list of ids) ended that have: [[id, state, result, error]], without the last where they are NULL, and
-- [id] where there is no such job. Of large results no more than `most` bytes, and one at least; more: there are others.
CREATE OR REPLACE FUNCTION {schema}.endings(ids json, most integer) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
  SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
  SELECT json_build_object('ended', coalesce(json_agg(CASE
      WHEN f.state IS NULL THEN json_build_array(f.id)
      WHEN f.error IS NOT NULL THEN json_build_array(f.id, f.state, f.result, f.error)
      WHEN f.result IS NOT NULL THEN json_build_array(f.id, f.state, f.result)
      ELSE json_build_array(f.id, f.state) END ORDER BY f.no) FILTER (WHERE f.before < most), '[]'),
    'more', coalesce(bool_or(f.before >= most), false))
  FROM (
    SELECT i.id, i.no, j.state, j.result, CASE WHEN j.state <> 'completed' THEN j.error END AS error,
      coalesce(sum(octet_length(j.result)) OVER (ORDER BY i.no ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
    FROM json_array_elements_text(ids) WITH ORDINALITY AS i (id, no) LEFT JOIN {schema}.jobs j ON j.id = i.id
    WHERE j.id IS NULL OR j.state IN ('completed', 'dead', 'cancelled')
  ) f
$$;
