-- Jobs that waited do not any more, and have not started: where another one is in front now than the one that was too heavy, it
-- is looked at, and so is whoever waited behind it. Answers whether that is news for everybody: it is where limits weigh. The
-- locks of these limits are held.
CREATE OR REPLACE FUNCTION {schema}.left_lane(gone {schema}.gone_job[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  names text[] := {schema}.weighing();
  at float8 := {schema}.present();
  other record;
BEGIN
  IF names = '{}' OR coalesce(cardinality(gone), 0) = 0 THEN
    RETURN false;
  END IF;
  FOR other IN
    WITH changed AS (
      SELECT DISTINCT l.id FROM unnest(gone) AS g
        CROSS JOIN LATERAL (SELECT k.* FROM {schema}.lanes k WHERE k.queue = g.queue AND k.priority = g.priority
          AND k.grp = coalesce(':' || g.grp, '') AND k.type = g.type LIMIT 1) l
      WHERE l.blocked_until IS NOT NULL AND l.blocked_by = ANY (names)
        AND l.heavy IS DISTINCT FROM {schema}.head_of(l::{schema}.lanes)
    )
    UPDATE {schema}.lanes l SET blocked_until = NULL FROM changed WHERE l.id = changed.id RETURNING l.blocked_by, l.grp
  LOOP
    PERFORM {schema}.unblock_like(other.blocked_by, other.grp, at);
  END LOOP;
  RETURN true;
END
$$;
