-- Something of a limit was given back: whatever waits for it may look again. Was anything waiting? Lanes are known to wait until
-- a claim looks at them: what was given back may be taken by somebody else before.
--
-- limit_name: which. lane_grps: of which groups, as lanes say it; NULL: of all. at: now.
CREATE OR REPLACE FUNCTION {schema}.unblock_lanes(limit_name text, lane_grps text[], at float8) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF lane_grps IS NULL THEN
    UPDATE {schema}.lanes SET blocked_until = least(blocked_until, at)
      WHERE blocked_by = limit_name AND blocked_until IS NOT NULL;
  ELSE
    UPDATE {schema}.lanes SET blocked_until = least(blocked_until, at)
      WHERE blocked_by = limit_name AND blocked_until IS NOT NULL AND grp = ANY (lane_grps);
  END IF;
  RETURN FOUND;
END
$$;
