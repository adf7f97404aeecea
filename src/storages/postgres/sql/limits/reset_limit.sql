-- Forgets what was counted. What is held stays held, under another id: whatever names the old one names nothing then.
CREATE OR REPLACE FUNCTION {schema}.reset_limit(id bigint, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  kept {schema}.limits;
  anew bigint;
BEGIN
  DELETE FROM {schema}.starts AS s WHERE s.limit_id = reset_limit.id;
  DELETE FROM {schema}.limits AS l WHERE l.id = reset_limit.id RETURNING * INTO kept;
  IF EXISTS (SELECT FROM {schema}.holds AS h WHERE h.limit_id = reset_limit.id) THEN
    INSERT INTO {schema}.limits AS l (name, grp, longest, prune_at, held)
      VALUES (kept.name, kept.grp, kept.longest, now + kept.longest, kept.held) RETURNING l.id INTO anew;
    UPDATE {schema}.holds AS h SET limit_id = anew WHERE h.limit_id = reset_limit.id;
  END IF;
END
$$;
