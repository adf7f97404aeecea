-- The names of the limits that a service holds up, by what a job said that got to hear of it: those that it named, and all
-- that it ran under and that are not by group.
CREATE OR REPLACE FUNCTION {schema}.names_to_hold(lease {schema}.ended_lease) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF lease.hold IS NULL THEN
    RETURN '{}';
  END IF;
  RETURN ARRAY(
    SELECT jsonb_array_elements_text(lease.hold -> 'names')
    UNION
    SELECT r.name FROM {schema}.rules AS r
      WHERE (lease.hold ->> 'scope')::boolean AND NOT coalesce((r.rule ->> 'byGroup')::boolean, false)
        AND (jsonb_typeof(r.rule -> 'queues') <> 'array' OR r.rule -> 'queues' ? lease.queue)
        AND (jsonb_typeof(r.rule -> 'types') <> 'array' OR r.rule -> 'types' ? lease.type));
END
$$;
