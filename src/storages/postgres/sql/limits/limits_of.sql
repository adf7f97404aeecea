-- The names of the limits that `give_back` will write to for these leases: what they hold, what they took and give back, and
-- what they are to hold up. Read before the locks: under the rules lock nothing is held of other names than before.
CREATE OR REPLACE FUNCTION {schema}.limits_of(leases {schema}.ended_lease[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  names text[];
  tokens bigint[];
  gives boolean;
  holds boolean;
  lease {schema}.ended_lease;
BEGIN
  SELECT array_agg(e.token ORDER BY e.token), bool_or(e.unstarted OR e.settled IS NOT NULL), bool_or(e.hold IS NOT NULL)
    INTO tokens, gives, holds
    FROM unnest(leases) AS e;
  names := {schema}.limits_of_tokens(tokens);
  IF gives THEN
    names := names || ARRAY(SELECT DISTINCT l.name
      FROM (SELECT DISTINCT e.limits FROM unnest(leases) AS e WHERE e.unstarted OR e.settled IS NOT NULL) AS given
        CROSS JOIN LATERAL jsonb_array_elements(given.limits) AS taken
        JOIN {schema}.limits AS l ON l.id = (taken ->> 0)::bigint);
  END IF;
  IF holds THEN
    FOREACH lease IN ARRAY leases LOOP
      names := names || {schema}.names_to_hold(lease);
    END LOOP;
  END IF;
  RETURN names;
END
$$;
