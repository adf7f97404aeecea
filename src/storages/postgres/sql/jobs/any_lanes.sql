-- Does any job of these types wait in a group? Then turns have to be taken, whatever the limits are. It only decides which
-- way a claim goes, so no lock is needed.
--
-- queue_name, asked: of which queue and types; NULL: of any type.
CREATE OR REPLACE FUNCTION {schema}.any_lanes(queue_name text, asked text[]) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF asked IS NULL THEN
    RETURN EXISTS (SELECT FROM {schema}.lanes
        WHERE queue = queue_name AND ready AND blocked_until IS NULL AND grp <> '')
      OR EXISTS (SELECT FROM {schema}.arrivals WHERE queue = queue_name);
  END IF;
  RETURN EXISTS (SELECT FROM unnest(asked) AS a (type) WHERE EXISTS (SELECT FROM {schema}.lanes l
      WHERE l.queue = queue_name AND l.type = a.type AND l.ready AND l.blocked_until IS NULL AND l.grp <> ''))
    OR EXISTS (SELECT FROM unnest(asked) AS a (type) WHERE EXISTS (SELECT FROM {schema}.arrivals r
      WHERE r.queue = queue_name AND r.type = a.type));
END
$$;
