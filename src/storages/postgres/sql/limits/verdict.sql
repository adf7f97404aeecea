-- When may a start happen that takes so much of the window and so many slots, and what is in its way the longest? It is
-- decideStart in limits/key-state.ts, to the last bit; what the step has taken so far counts.
CREATE OR REPLACE FUNCTION {schema}.verdict(
  meter {schema}.limit_meter, account {schema}.limit_account, weight float8, slots float8, now float8
) RETURNS {schema}.limit_verdict
LANGUAGE plpgsql STABLE AS $$
DECLARE
  longest float8 := 0;
  reason text;
  own float8;
  held float8 := 0;
  probes float8 := 0;
  expires_in float8 := 'Infinity';
BEGIN
  IF (meter.max > 0 AND weight > meter.max) OR (meter.concurrency > 0 AND slots > meter.concurrency) THEN
    RETURN (-1, 'window')::{schema}.limit_verdict;
  END IF;
  IF meter.holds AND account.held IS NOT NULL THEN
    held := account.held;
    probes := account.probes;
    expires_in := account.expires_in;
  END IF;
  IF meter.paused THEN
    longest := 'Infinity';
    reason := 'paused';
  END IF;
  own := greatest(account.pause_until - now, meter.held_until - now);
  IF own > longest THEN
    longest := own;
    reason := 'held';
  END IF;
  IF meter.max IS NOT NULL AND meter.window_ms IS NOT NULL THEN
    own := CASE WHEN meter.max = 0 THEN 'Infinity' ELSE
      {schema}.window_wait(account.id, account.forgotten_at, meter.max, meter.window_ms, weight,
        meter.used + account.taken, account.taken, account.grant_ttl, now) END;
    own := greatest(own, meter.blind_until - now);
    IF own > longest THEN
      longest := own;
      reason := 'window';
    END IF;
  END IF;
  IF meter.every_ms IS NOT NULL THEN
    own := {schema}.spacing_wait(meter, account, now);
    IF own > longest THEN
      longest := own;
      reason := 'spacing';
    END IF;
  END IF;
  IF held + slots > meter.concurrency THEN
    own := CASE WHEN meter.concurrency = 0 THEN 'Infinity' ELSE expires_in END;
    IF own > longest THEN
      longest := own;
      reason := 'concurrency';
    END IF;
  END IF;
  IF now < account.told_until AND weight > coalesce(account.told_left, 0) THEN
    own := account.told_until - now;
    IF own > longest THEN
      longest := own;
      reason := 'told';
    END IF;
  END IF;
  IF meter.probes IS NOT NULL AND account.open_until IS NOT NULL THEN
    own := CASE WHEN now < account.open_until THEN account.open_until - now
      WHEN probes < meter.probes THEN 0 ELSE expires_in END;
    IF own > longest THEN
      longest := own;
      reason := 'breaker';
    END IF;
  END IF;
  RETURN (longest, reason)::{schema}.limit_verdict;
END
$$;
