-- What jobs that were claimed together hold of a limit in one row, they hold each for itself from now on. Whoever calls it is
-- alone.
CREATE OR REPLACE FUNCTION {schema}.hold_singly(name text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  WITH block AS (
    DELETE FROM {schema}.holds AS h USING {schema}.limits AS l
      WHERE l.name = hold_singly.name AND h.limit_id = l.id AND h.token < 0 RETURNING h.limit_id, h.token, h.at
  )
  INSERT INTO {schema}.holds (limit_id, token, slots, at)
    SELECT block.limit_id, j.token, 1, block.at FROM block
      JOIN {schema}.jobs AS j ON j.state = 'active' AND {schema}.block_of(j.token) = block.token;
END
$$;
