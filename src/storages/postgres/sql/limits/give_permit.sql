-- Ends, takes back or corrects a permit, as its token tells it. One that is unknown, has ended or has expired changes nothing.
--
-- limit_id, number, reserved, taken_at, corrected_until: its token. how: 'released', 'cancelled' or 'used'. used: so much, of
-- the last of these.
CREATE OR REPLACE FUNCTION {schema}.give_permit_{version}(
  limit_id bigint, number bigint, reserved float8, taken_at float8, corrected_until float8, how text, used float8
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  limit_name text;
  now float8;
  held {schema}.holds;
  kept {schema}.limits;
  ended boolean;
  rule {schema}.limit_rule;
  given {schema}.limit_given[] := '{}';
BEGIN
  PERFORM {schema}.begin_step(false);
  -- After a reset what is held is kept elsewhere, under the same name.
  SELECT l.name INTO limit_name FROM {schema}.limits l
    WHERE l.id = give_permit_{version}.limit_id OR l.id IN (SELECT h.limit_id FROM {schema}.holds h WHERE h.token = number) LIMIT 1;
  IF limit_name IS NULL OR NOT {schema}.is_issued(number) THEN
    RETURN '{}';
  END IF;
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  now := {schema}.moment();
  SELECT * INTO held FROM {schema}.holds h WHERE h.token = number AND h.until > now;
  ended := held.token IS NULL AND EXISTS (SELECT FROM {schema}.starts s WHERE s.token = -number);
  IF held.token IS NULL AND NOT ended AND now >= corrected_until THEN
    RETURN '{}';
  END IF;
  IF ended AND how <> 'used' THEN
    RETURN '{}';
  END IF;
  kept := {schema}.limit_by_id(limit_id);
  IF how = 'used' THEN
    rule := {schema}.rule_named(limit_name);
    IF rule.max IS NOT NULL THEN
      IF kept.id IS NOT NULL AND {schema}.settle_permit(kept, number, reserved, corrected_until, used, now) THEN
        given := {schema}.window_freed(kept.name, kept.grp, now);
      END IF;
    ELSIF rule.name IS NOT NULL AND held.slots <> used THEN
      UPDATE {schema}.holds h SET slots = used WHERE h.limit_id = held.limit_id AND h.token = number;
      IF used < held.slots THEN
        given := {schema}.release_holds(ARRAY[held.limit_id], ARRAY[held.slots - used], ARRAY[held.at], now);
      END IF;
    END IF;
    RETURN json_build_object('everybody', {schema}.is_news(given, now));
  END IF;
  IF held.token IS NOT NULL THEN
    DELETE FROM {schema}.holds h WHERE h.limit_id = held.limit_id AND h.token = number;
    given := {schema}.release_holds(ARRAY[held.limit_id], ARRAY[held.slots], ARRAY[held.at], now);
  END IF;
  IF kept.id IS NOT NULL THEN
    IF how = 'cancelled' AND ({schema}.cancel_start(number) OR kept.window_ms IS NULL) THEN
      PERFORM {schema}.gauge_cancel(kept.id, taken_at);
      given := given || {schema}.window_freed(kept.name, kept.grp, now);
    END IF;
    PERFORM {schema}.end_start(kept.id, number, taken_at, corrected_until, now);
  END IF;
  RETURN json_build_object('everybody', {schema}.is_news(given, now));
END
$$;
