-- Refuses jobs (by their ids) that could never start under the limits in force, for they weigh too much: SQLSTATE SL002, with
-- what is wrong in DETAIL. As storage/stored-rules.ts: refuseImpossible.
CREATE OR REPLACE FUNCTION {schema}.refuse_impossible(ids text[]) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  wrong json;
BEGIN
  SELECT json_build_object('why', 'weight', 'rule', of.name, 'weight', of.weight, 'said', of.said, 'most', of.most) INTO wrong
  FROM (
    SELECT i.no, r.name, r.rule ->> 'weight' AS weight, said.weight AS said, CASE
      WHEN (r.rule #> '{quota,max}') <> 'null' THEN
        CASE WHEN quota.max > 0 AND said.weight > quota.max THEN quota.max
          WHEN quota.concurrency > 0 AND 1 > quota.concurrency THEN quota.concurrency END
      WHEN quota.max > 0 AND 1 > quota.max THEN quota.max
      WHEN quota.concurrency > 0 AND said.weight > quota.concurrency THEN quota.concurrency END AS most
    FROM unnest(refuse_impossible.ids) WITH ORDINALITY AS i (id, no)
    JOIN {schema}.jobs j ON j.id = i.id
    CROSS JOIN {schema}.rules r
    CROSS JOIN LATERAL (SELECT coalesce(j.weights -> (r.rule ->> 'weight'), r.rule -> 'estimate')::float8 AS weight) said
    CROSS JOIN LATERAL (SELECT CASE
      WHEN (r.rule ->> 'byGroup')::boolean AND j.grp IS NOT NULL
        THEN (r.rule -> 'quota') || coalesce(r.rule -> 'groups' -> j.grp, '{}') ELSE r.rule -> 'quota' END AS q) own
    CROSS JOIN LATERAL (SELECT (own.q ->> 'max')::float8 AS max, (own.q ->> 'concurrency')::float8 AS concurrency) quota
    WHERE r.rule ->> 'weight' IS NOT NULL
      AND (r.rule -> 'queues' = 'null' OR (r.rule -> 'queues') ? j.queue)
      AND (r.rule -> 'types' = 'null' OR (r.rule -> 'types') ? j.type)
  ) of
  WHERE of.most IS NOT NULL ORDER BY of.no, of.name LIMIT 1;
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION 'the job can never start: it weighs % under the limit "%"', wrong ->> 'said', wrong ->> 'rule'
      USING ERRCODE = 'SL002', DETAIL = wrong::text;
  END IF;
END
$$;
