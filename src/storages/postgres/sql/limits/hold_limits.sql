-- What a service said about its limits: nothing starts under them for a while; under those by group, in the group of the job.
CREATE OR REPLACE FUNCTION {schema}.hold_limits(lease {schema}.ended_lease, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  name text;
  by_group boolean;
BEGIN
  FOREACH name IN ARRAY {schema}.names_to_hold(lease) LOOP
    by_group := ({schema}.rule_named(name)).by_group;
    PERFORM {schema}.gauge_hold(name, {schema}.state_grp(coalesce(by_group, false), lease.grp),
      now + (lease.hold ->> 'forMs')::float8, now);
  END LOOP;
END
$$;
