-- What waiting jobs of a type say that they weigh, by name: which part of them says so, and how much on average. Of the first
-- thousand that are found.
CREATE OR REPLACE FUNCTION {schema}.waiting_weights(of_queue text, of_type text, at float8) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  WITH seen AS MATERIALIZED (
    SELECT f.weights FROM (
      SELECT j.weights FROM {schema}.jobs j
        WHERE j.queue = of_queue AND j.type = of_type AND j.state = 'waiting' AND j.grp IS NULL
      UNION ALL
      SELECT j.weights FROM {schema}.jobs j
        WHERE j.queue = of_queue AND j.type = of_type AND j.state = 'waiting' AND j.grp IS NOT NULL
      UNION ALL
      SELECT j.weights FROM {schema}.jobs j
        WHERE j.queue = of_queue AND j.state = 'scheduled' AND j.due_at <= at AND {schema}.has_passed(j.due_wall) AND j.type = of_type
    ) f LIMIT 1000
  ), said AS (
    SELECT w.key, w.value::text::float8 AS weight
    FROM seen s, jsonb_each(CASE WHEN jsonb_typeof(s.weights) = 'object' THEN s.weights END) w
    WHERE jsonb_typeof(w.value) = 'number'
  )
  SELECT coalesce(jsonb_object_agg(t.key, jsonb_build_object(
      'part', t.count / (SELECT count(*) FROM seen)::float8, 'mean', t.sum / t.count)), '{}')
    FROM (SELECT key, sum(weight) AS sum, count(*)::float8 AS count FROM said GROUP BY key) t
$$;
