-- A service says what is left until its window begins anew. Of what it says about the same window the least holds, for some
-- of what has started may not have reached it yet; a later window is another one. What is said about one window differs by
-- the time that its answers took, and by how the service rounds: a second. Is more left than it said before?
CREATE OR REPLACE FUNCTION {schema}.gauge_tell(
  name text, grp text, remaining float8, reset_ms float8, now float8
) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  kept {schema}.limits := {schema}.open_limit(name, 0, grp, now);
  until float8 := now + reset_ms;
  said float8 := remaining;
BEGIN
  IF now < kept.told_until AND until <= kept.told_until + 1500 THEN
    said := least(kept.told_left, remaining);
    until := greatest(kept.told_until, until);
  END IF;
  UPDATE {schema}.limits AS l SET told_left = said, told_until = until WHERE l.id = kept.id;
  RETURN coalesce(said > kept.told_left, false);
END
$$;
