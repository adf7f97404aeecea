-- Leases have ended: what services said about their limits holds, starts that never were are taken back, the weights of those
-- that a service refused are given back, as is what they held, and breakers hear how it went. Answers with what was given back, to be judged by `is_news` when all of the step
-- is done.
CREATE OR REPLACE FUNCTION {schema}.give_back(
  leases {schema}.ended_lease[], now float8
) RETURNS {schema}.limit_given[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  given {schema}.limit_given[] := '{}';
  tokens bigint[];
  special boolean;
  lease {schema}.ended_lease;
  cancelled record;
BEGIN
  SELECT array_agg(e.token ORDER BY e.token), bool_or(e.hold IS NOT NULL OR e.unstarted OR e.settled IS NOT NULL)
    INTO tokens, special
    FROM unnest(leases) AS e;
  IF special THEN
    FOREACH lease IN ARRAY leases LOOP
      IF lease.hold IS NOT NULL THEN
        PERFORM {schema}.hold_limits(lease, now);
      END IF;
      IF lease.settled IS NOT NULL THEN
        given := given || {schema}.give_weights(lease, now);
      END IF;
    END LOOP;
    FOR cancelled IN
      SELECT e.limits, e.started_at, count(*) AS times FROM unnest(leases) AS e
        WHERE e.unstarted AND e.started_at IS NOT NULL GROUP BY e.limits, e.started_at
    LOOP
      given := given || {schema}.cancel_taken(cancelled.limits, cancelled.started_at, cancelled.times, now);
    END LOOP;
  END IF;
  RETURN given || {schema}.give_tokens(tokens, leases, now);
END
$$;
