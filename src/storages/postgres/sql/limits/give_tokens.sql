-- Starts with these tokens, in their order, have ended: what they held is given back, and breakers hear how it went: as the
-- leases say, or, if there are none, well. Answers with what was given back, to be judged by `is_news` when all of the step
-- is done.
CREATE OR REPLACE FUNCTION {schema}.give_tokens(
  tokens bigint[], leases {schema}.ended_lease[], now float8
) RETURNS {schema}.limit_given[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  given {schema}.limit_given[] := '{}';
  together record;
  ended record;
BEGIN
  IF coalesce(cardinality(tokens), 0) = 0 THEN
    RETURN given;
  END IF;
  together := {schema}.blocks_of(tokens);
  -- What those of one claim hold together. Who is the last of them leaves nothing behind.
  FOR ended IN
    WITH gone AS (
      DELETE FROM {schema}.holds AS h USING unnest(together.blocks, together.counts) AS b (token, n)
        WHERE h.token = b.token AND h.n <= b.n RETURNING h.limit_id, h.at, b.n
    ), fewer AS (
      UPDATE {schema}.holds AS h SET n = h.n - b.n, slots = h.slots - b.n
        FROM unnest(together.blocks, together.counts) AS b (token, n)
        WHERE h.token = b.token AND h.n > b.n RETURNING h.limit_id, h.at, b.n
    )
    SELECT e.limit_id, sum(e.n) AS slots, array_agg(e.at) AS ats FROM (SELECT * FROM gone UNION ALL SELECT * FROM fewer) AS e
      GROUP BY e.limit_id
  LOOP
    given := given || {schema}.give_slots(ended.limit_id, ended.slots, NULL, ended.ats, NULL, now);
  END LOOP;
  IF NOT {schema}.hold_alone(tokens) THEN
    RETURN given;
  END IF;
  -- What each holds for itself.
  FOR ended IN
    WITH gone AS (
      DELETE FROM {schema}.holds AS h WHERE h.token = ANY (tokens) RETURNING h.limit_id, h.token, h.slots, h.at
    )
    SELECT gone.limit_id, sum(gone.slots) AS slots, array_agg(gone.token) AS tokens, array_agg(gone.at) AS ats
      FROM gone GROUP BY gone.limit_id
  LOOP
    given := given || {schema}.give_slots(ended.limit_id, ended.slots, ended.tokens, ended.ats, leases, now);
  END LOOP;
  RETURN given;
END
$$;
