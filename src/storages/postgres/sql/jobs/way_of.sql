-- Which way a claim goes under limits: what the jobs that it may take run under, and whether it has to go by lanes, or all of
-- them run under the same limits and count for one under each.
--
-- Who asks for any type gets those of which jobs wait now, and what these run under: only they are taken then (`decided`). A job of
-- another type that comes meanwhile is as one that comes afterwards. Not so while a lane waits for a limit: when that has room is
-- for the plan to tell.
--
-- asked: the types; NULL: any. own: limits that the claim brings along. grouped: it goes by lanes in any case. known: the only type of
-- which jobs wait; NULL: it has to be looked up.
CREATE OR REPLACE FUNCTION {schema}.way_of(queue text, asked text[], own jsonb, grouped boolean, known text[])
RETURNS {schema}.claim_way
LANGUAGE plpgsql STABLE AS $$
DECLARE
  way {schema}.claim_way;
  fewer {schema}.limit_rule[];
BEGIN
  way.types := asked;
  way.decided := false;
  way.rules := {schema}.rules_for(queue, asked, own);
  way.planned := grouped OR NOT {schema}.is_uniform(way.rules, asked);
  IF way.planned AND NOT grouped AND asked IS NULL
    AND NOT EXISTS (SELECT FROM {schema}.lanes l WHERE l.queue = way_of.queue AND l.ready AND l.blocked_until IS NOT NULL)
  THEN
    way.types := coalesce(known, {schema}.open_types(queue, NULL, false));
    fewer := {schema}.rules_for(queue, way.types, own);
    IF {schema}.is_uniform(fewer, way.types) THEN
      way.rules := fewer;
      way.decided := true;
      way.planned := false;
    END IF;
  END IF;
  RETURN way;
END
$$;
