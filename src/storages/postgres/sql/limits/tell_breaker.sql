-- The breaker of a limit hears how leases have ended that held it, in their order: tokens and ats are of what they held;
-- leases is NULL where all of them went well. Does it close with that? It opens after so many failures in a row, and when a
-- probe fails; a probe that goes well closes it.
CREATE OR REPLACE FUNCTION {schema}.tell_breaker(
  kept {schema}.limits, rule {schema}.limit_rule, leases {schema}.ended_lease[], tokens bigint[], ats float8[], now float8
) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  fails integer := kept.failures;
  opens float8 := kept.open_until;
  closed boolean := false;
  one record;
BEGIN
  FOR one IN
    SELECT coalesce(e.how, 'well') AS how, e.kinds, held.at
      FROM unnest(tokens, ats) AS held (token, at)
        LEFT JOIN unnest(leases) WITH ORDINALITY AS e ON e.token = held.token
      WHERE e.how IS NULL OR e.how <> 'gone' ORDER BY e.ordinality
  LOOP
    IF one.how = 'well' THEN
      fails := 0;
      IF opens <= one.at THEN
        opens := NULL;
        closed := true;
      END IF;
      CONTINUE;
    END IF;
    CONTINUE WHEN rule.kinds IS NOT NULL AND NOT rule.kinds && coalesce(one.kinds, '{}');
    IF opens IS NULL THEN
      fails := fails + 1;
      CONTINUE WHEN fails < rule.failures;
    ELSIF one.at < opens THEN
      -- It began before the breaker opened, and says nothing new.
      CONTINUE;
    END IF;
    fails := 0;
    opens := now + rule.open_ms;
  END LOOP;
  IF fails = kept.failures AND opens IS NOT DISTINCT FROM kept.open_until THEN
    RETURN false;
  END IF;
  UPDATE {schema}.limits AS l SET failures = fails, open_until = opens
    WHERE l.id = kept.id;
  RETURN closed;
END
$$;
