-- Of jobs that were not added, for there is another one instead, those for which that is not the job itself: an earlier call has
-- added those. One that comes twice was added once.
--
-- jobs: a list as jobs/add.ts writes it. others: [[number of the job from 0, the id that there is instead]].
CREATE OR REPLACE FUNCTION {schema}.others_than(jobs json, others json) RETURNS json
LANGUAGE sql STABLE AS $$
  SELECT json_agg(o.other ORDER BY n.no) FROM (
    SELECT e.no, e.job ->> 'id' AS id, row_number() OVER (PARTITION BY e.job ->> 'id' ORDER BY e.no) AS time
    FROM json_array_elements(jobs) WITH ORDINALITY AS e (job, no)) n
  JOIN json_array_elements(others) AS o (other) ON (o.other ->> 0)::bigint = n.no - 1
  WHERE n.time > 1 OR n.id <> o.other ->> 1
$$;
