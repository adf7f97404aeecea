-- Which of the jobs were not added, for their ids were there, or came twice: [[number of the job from 0, its id]].
CREATE OR REPLACE FUNCTION {schema}.not_added(jobs json, made text[]) RETURNS json
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN cardinality(made) < json_array_length(jobs) THEN (
    SELECT json_agg(json_build_array(n.no - 1, n.id)) FROM (
      SELECT e.no, e.job ->> 'id' AS id, row_number() OVER (PARTITION BY e.job ->> 'id' ORDER BY e.no) AS time
      FROM json_array_elements(jobs) WITH ORDINALITY AS e (job, no)) n
    WHERE n.time > 1 OR n.id <> ALL (made)) END
$$;
