-- Forgets a group that is idle. Nobody's clock is before this any more: who comes later does not miss what was dropped. Where
-- somebody else writes down the time just now, it waits for another turn.
CREATE OR REPLACE FUNCTION {schema}.drop_idle(kept {schema}.limits, now float8) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  deleted integer;
BEGIN
  PERFORM FROM {schema}.meta FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN 0;
  END IF;
  UPDATE {schema}.meta SET last = drop_idle.now WHERE last < drop_idle.now;
  DELETE FROM {schema}.starts AS s WHERE s.limit_id = kept.id;
  GET DIAGNOSTICS deleted = ROW_COUNT;
  DELETE FROM {schema}.limits AS l WHERE l.id = kept.id;
  RETURN deleted + 1;
END
$$;
