-- Lanes that wait for the same limit as one of this group did may look again: where it is by group, those of the group.
CREATE OR REPLACE FUNCTION {schema}.unblock_like(limit_name text, lane_grp text, at float8) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT {schema}.unblock_lanes(limit_name,
    CASE WHEN (SELECT (r.rule ->> 'byGroup')::boolean FROM {schema}.rules r WHERE r.name = limit_name)
      THEN ARRAY[lane_grp] END, at)
$$;
