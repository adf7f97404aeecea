-- Writes down what the step has taken of a limit: on its row, and in its log. From then on it has an id, and says where in
-- the log the starts are. alone: it is the start of a permit, with a row of its own. number, ttl, began: of the grant that is to be
-- confirmed (tables/1.sql); ttl is NULL where none is.
CREATE OR REPLACE FUNCTION {schema}.account_save(
  account {schema}.limit_account, alone boolean, number bigint, ttl float8, began float8, now float8
) RETURNS {schema}.limit_account
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- A log that somebody looks at knows of every start, whatever the rule itself counts.
  counted float8 := coalesce(account.watch_ms, account.window_ms);
  kept {schema}.limits;
BEGIN
  IF account.id IS NULL THEN
    kept := {schema}.open_limit(account.name, coalesce(account.watch_ms, 0), account.grp, now);
    account.id := kept.id;
    account.longest := kept.longest;
  END IF;
  IF account.starts = 0 THEN
    RETURN account;
  END IF;
  IF account.before IS NULL AND counted IS NOT NULL THEN
    account.before := {schema}.window_used(
      account.id, account.window_ms, account.used, account.seen_at, counted, now);
    account.before_at := now;
  END IF;
  IF counted IS NOT NULL OR account.longest > 0 THEN
    IF ttl IS NULL THEN
      account.entry := {schema}.enter_starts(
        account.id, account.newest, account.taken, CASE WHEN alone THEN -1 ELSE account.resolution END, now);
    ELSE
      INSERT INTO {schema}.starts AS s (limit_id, at, since, n, claim, began)
        VALUES (account.id, greatest(now, account.newest) + ttl, now, account.taken, number, account_save.began)
        RETURNING s.seq INTO account.entry;
    END IF;
    account.newest := greatest(account.newest, now);
  ELSIF ttl IS NOT NULL AND account.every_ms IS NOT NULL THEN
    INSERT INTO {schema}.starts (limit_id, at, since, n, claim, began)
      VALUES (account.id, now + ttl, now, 0, number, account_save.began);
  END IF;
  UPDATE {schema}.limits AS l SET latest_at = account_save.now, called_at = greatest(l.called_at, account_save.now + coalesce(ttl, 0)),
      called_by = CASE WHEN ttl IS NOT NULL AND account.every_ms IS NOT NULL AND (l.called_at > account_save.now) IS NOT TRUE
        THEN number END,
      told_left = account.told_left, window_ms = counted,
      used = CASE WHEN counted IS NULL THEN 0 ELSE account.before + account.taken END,
      seen_at = coalesce(account.before_at, account_save.now), newest = account.newest,
      held = CASE WHEN alone THEN l.held ELSE account.job_slots END
    WHERE l.id = account.id;
  RETURN account;
END
$$;
