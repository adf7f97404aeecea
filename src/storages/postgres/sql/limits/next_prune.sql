-- When to look again at a name whose starts are kept for so long. Busy names are looked at now and then, not at every turn.
CREATE OR REPLACE FUNCTION {schema}.next_prune(now float8, oldest float8, longest float8) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT greatest(now + 1000 + longest / 10, oldest + longest + 1)
$$;
