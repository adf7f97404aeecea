-- Lanes that wait for limits that weigh, and have another job in front now than the one that was too heavy: it may fit where
-- that one did not, and whoever waited behind it may look as well.
--
-- queue_name, types: of which queue and types. ids: lanes that jobs have come into, NULL: none; seqs: the first of these jobs, each
-- time that some came. Lanes of jobs without a group are looked at all. names: of the limits. at: now.
CREATE OR REPLACE FUNCTION {schema}.look_again(
  queue_name text, types text[], ids bigint[], seqs bigint[], names text[], at float8
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  other record;
BEGIN
  FOR other IN
    WITH changed AS (
      SELECT l.id FROM {schema}.lanes l
      WHERE l.id = ANY (ids) AND l.blocked_until IS NOT NULL AND l.blocked_by = ANY (names)
        AND l.heavy IS DISTINCT FROM {schema}.head_of(l) AND {schema}.head_of(l) = ANY (seqs)
      UNION
      SELECT l.id FROM {schema}.lanes l
      WHERE l.blocked_by = ANY (names) AND l.blocked_until IS NOT NULL AND l.grp = ''
        AND l.queue = queue_name AND l.type = ANY (types) AND l.heavy IS NOT NULL AND l.heavy IS DISTINCT FROM {schema}.head_of(l)
    )
    UPDATE {schema}.lanes l SET blocked_until = NULL FROM changed WHERE l.id = changed.id RETURNING l.blocked_by, l.grp
  LOOP
    PERFORM {schema}.unblock_like(other.blocked_by, other.grp, at);
  END LOOP;
END
$$;
