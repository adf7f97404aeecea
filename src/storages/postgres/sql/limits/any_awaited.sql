-- Does a lane wait for one of the limits that weigh?
CREATE OR REPLACE FUNCTION {schema}.any_awaited() RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM {schema}.rules r WHERE r.rule ->> 'weight' IS NOT NULL
    AND EXISTS (SELECT FROM {schema}.lanes l WHERE l.blocked_by = r.name AND l.blocked_until IS NOT NULL))
$$;
