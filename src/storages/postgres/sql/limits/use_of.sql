-- What is going to be written under a limit that is looked at, with starts of this instant.
CREATE OR REPLACE FUNCTION {schema}.use_of(
  use {schema}.limit_use, account {schema}.limit_account, now float8
) RETURNS {schema}.limit_use
LANGUAGE plpgsql STABLE AS $$
BEGIN
  -- A log that somebody looks at knows of every start, whatever the rule itself counts.
  use.counted := coalesce(account.watch_ms, account.window_ms);
  use.before := CASE WHEN account.watch_ms IS NOT NULL THEN account.before
    WHEN account.window_ms IS NOT NULL THEN
      {schema}.window_used(account.id, account.window_ms, account.used, account.seen_at, account.window_ms, now) END;
  use.before_at := now;
  use.logged := use.counted IS NOT NULL OR coalesce(account.longest > 0, false);
  use.entry := {schema}.shared_entry(account.id, account.newest, account.resolution, now);
  RETURN use;
END
$$;
