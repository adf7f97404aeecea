-- The same, without a reason: where whatever is not a matter of numbers is not in the way, and the numbers leave room, the
-- question ends here. Most do.
CREATE OR REPLACE FUNCTION {schema}.limit_wait(
  meter {schema}.limit_meter, account {schema}.limit_account, weight float8, slots float8, now float8
) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF NOT meter.paused AND meter.every_ms IS NULL
    AND (meter.held_until IS NULL OR meter.held_until <= now)
    AND (account.pause_until IS NULL OR account.pause_until <= now)
    AND (account.told_until IS NULL OR account.told_until <= now)
    AND (meter.probes IS NULL OR account.open_until IS NULL)
    AND (meter.concurrency IS NULL OR account.held + slots <= meter.concurrency)
    AND (meter.max IS NULL OR meter.window_ms IS NULL OR (
      meter.max > 0 AND meter.used + account.taken + weight <= meter.max
      AND (meter.blind_until IS NULL OR meter.blind_until <= now)
      AND (account.forgotten_at IS NULL OR now - account.forgotten_at >= meter.window_ms)))
  THEN
    RETURN 0;
  END IF;
  RETURN ({schema}.verdict(meter, account, weight, slots, now)).wait;
END
$$;
