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
  FOR i IN 1 .. cardinality(together.blocks) LOOP
    FOR ended IN
      UPDATE {schema}.holds AS h SET n = h.n - together.counts[i], slots = h.slots - together.counts[i]
        WHERE h.token = together.blocks[i] RETURNING h.limit_id, h.n, h.at
    LOOP
      IF ended.n <= 0 THEN
        DELETE FROM {schema}.holds AS h WHERE h.limit_id = ended.limit_id AND h.token = together.blocks[i];
      END IF;
      given := given
        || {schema}.give_slots(ended.limit_id, together.counts[i], NULL, ARRAY[ended.at], NULL, now);
    END LOOP;
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
