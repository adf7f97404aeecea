-- Which of these jobs are active and asked to stop: [[queue, id]]. A hint that they are is not enough to stop them.
CREATE OR REPLACE FUNCTION {schema}.asked_to_stop(ids json) RETURNS json
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(json_agg(json_build_array(j.queue, j.id)), '[]')
  FROM (SELECT DISTINCT json_array_elements_text(ids) AS id) AS hinted
  JOIN {schema}.jobs j ON j.id = hinted.id
  WHERE j.state = 'active' AND j.cancel_requested
$$;
