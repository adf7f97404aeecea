-- What is kept of a limit, of how many groups, for people: of the group that is asked for, or of those that were used last,
-- a hundred at the most.
--
-- rule: as it is in force. asked: a group, or NULL. at: now.
CREATE OR REPLACE FUNCTION {schema}.seen_states(rule jsonb, asked text, at float8) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
  limit_name text := rule ->> 'name';
  by_group boolean := (rule ->> 'byGroup')::boolean;
  known bigint;
  grps text[];
  states jsonb;
BEGIN
  SELECT count(*) INTO known FROM {schema}.limits WHERE name = limit_name AND (grp <> '') = by_group;
  IF NOT by_group THEN
    grps := ARRAY[''];
  ELSIF asked IS NOT NULL THEN
    grps := ARRAY[':' || asked];
  ELSE
    SELECT array_agg(l.grp ORDER BY l.grp <> '-', l.latest_at DESC NULLS LAST, l.id DESC) INTO grps FROM (
      SELECT id, grp, latest_at FROM {schema}.limits WHERE name = limit_name AND grp <> ''
      ORDER BY grp <> '-', latest_at DESC NULLS LAST, id DESC LIMIT 100
    ) l;
  END IF;
  SELECT coalesce(jsonb_agg({schema}.seen_limit(limit_name, g.grp, (g.quota ->> 'windowMs')::float8,
      (g.quota ->> 'max')::float8, 1, 0, at) || jsonb_build_object('grp', g.grp) ORDER BY g.place), '[]')
    INTO states FROM (
      SELECT grp, place, (rule -> 'quota') || CASE WHEN left(grp, 1) = ':' THEN coalesce(rule -> 'groups' -> substr(grp, 2), '{}')
        ELSE '{}' END AS quota
      FROM unnest(grps) WITH ORDINALITY AS u (grp, place)
    ) g;
  RETURN jsonb_build_object('groups', known, 'states', states);
END
$$;
