-- The rest of claim_alike, where more than numbers is in the way, or they leave too little. The locks are taken, and what was held
-- is given back.
--
-- q, sign: as claim_alike. rules: what the jobs of the type that it takes run under; decided: others may run under others. waited:
-- what it saw first need not be so any more. given: what it gave back. now: the time.
CREATE OR REPLACE FUNCTION {schema}.claim_weighed(q {schema}.claim_request, sign {schema}.claim_signs, rules {schema}.limit_rule[],
  decided boolean, waited boolean, given {schema}.limit_given[], now float8) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  types text[] := ARRAY[sign.head_type];
  opened {schema}.opened_claim;
  next_in float8;
BEGIN
  IF waited THEN
    sign.head_type := NULL;
  END IF;
  opened := {schema}.claim_open(q.queue, q.worker, q.claim, least(q.max, 10000), 0, q.bytes, q.types, types, decided, q.lease_ms, rules,
    sign, q.grant_ttl, q.arrived, now);
  next_in := opened.next_in;
  IF next_in > 0 THEN
    -- Counted from now, and not from when the locks were taken: the rest of the step took its time.
    next_in := greatest(0, next_in - greatest(0, {schema}.present() - opened.at));
  END IF;
  RETURN json_build_object('jobs', coalesce(opened.jobs, '[]'), 'stale', '[]'::json, 'more', opened.more,
    'nextInMs', nullif(next_in, 'Infinity'), 'blockedBy', opened.blocked_by, 'everybody', {schema}.is_news(given, now),
    'ends', q.ids IS NOT NULL AND {schema}.tell_ends(q.ids, now), 'grant', opened.granted);
END
$$;
