-- What a claim came to, as far as it is about these lanes: of the others nothing is written. What starts does.
CREATE OR REPLACE FUNCTION {schema}.only_lanes(done {schema}.planned_grants, ids bigint[]) RETURNS {schema}.planned_grants
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  IF NOT (done.lanes || done.emptied || done.blocked) <@ ids THEN
    SELECT coalesce(array_agg(l.id), '{}'), coalesce(array_agg(l.turn), '{}'), coalesce(array_agg(l.served), '{}'),
        coalesce(array_agg(l.gave), '{}')
      INTO done.lanes, done.turns, done.served, done.gave
      FROM unnest(done.lanes, done.turns, done.served, done.gave) AS l (id, turn, served, gave) WHERE l.id = ANY (ids);
    SELECT coalesce(array_agg(e), '{}') INTO done.emptied FROM unnest(done.emptied) AS e WHERE e = ANY (ids);
    SELECT coalesce(array_agg(b.id), '{}'), coalesce(array_agg(b.wait), '{}'), coalesce(array_agg(b.name), '{}'),
        coalesce(array_agg(b.heavy), '{}')
      INTO done.blocked, done.blocked_waits, done.blocked_names, done.blocked_heavy
      FROM unnest(done.blocked, done.blocked_waits, done.blocked_names, done.blocked_heavy) AS b (id, wait, name, heavy)
      WHERE b.id = ANY (ids);
  END IF;
  RETURN done;
END
$$;
