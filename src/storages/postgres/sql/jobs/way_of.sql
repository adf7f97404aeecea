-- Which way a claim goes under limits: what the jobs that it may take run under, and whether it has to walk over lanes, or all of
-- them run under the same limits and count for one under each.
--
-- Who asks for any type gets those of which jobs wait now, and what these run under: only they are taken then (`decided`). A job of
-- another type that comes meanwhile is as one that comes afterwards. Not so while a lane waits for a limit: when that has room is
-- for the walk to tell.
--
-- asked: the types; NULL: any. own: limits that the claim brings along. grouped: it walks in any case.
CREATE OR REPLACE FUNCTION {schema}.way_of(queue text, asked text[], own jsonb, grouped boolean,
  OUT rules {schema}.limit_rule[], OUT types text[], OUT decided boolean, OUT walks boolean)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  fewer {schema}.limit_rule[];
BEGIN
  types := asked;
  decided := false;
  rules := {schema}.rules_for(queue, asked, own);
  walks := grouped OR NOT {schema}.is_uniform(rules, asked);
  IF walks AND NOT grouped AND asked IS NULL
    AND NOT EXISTS (SELECT FROM {schema}.lanes l WHERE l.queue = way_of.queue AND l.ready AND l.blocked_until IS NOT NULL)
  THEN
    types := {schema}.open_types(queue, NULL);
    fewer := {schema}.rules_for(queue, types, own);
    IF {schema}.is_uniform(fewer, types) THEN
      rules := fewer;
      decided := true;
      walks := false;
    END IF;
  END IF;
END
$$;
