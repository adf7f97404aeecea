-- What is kept of one limit, for one group or for all, before the step has taken anything of it. Whoever decides about a
-- start decides no earlier than its newest and latest_at, whatever the clock says.
CREATE OR REPLACE FUNCTION {schema}.open_account(name text, grp text) RETURNS {schema}.limit_account
LANGUAGE plpgsql STABLE AS $$
DECLARE
  account {schema}.limit_account;
BEGIN
  SELECT l.id, open_account.name, open_account.grp, l.latest_at, l.pause_until, l.told_left, l.told_until, l.open_until,
      l.window_ms, l.used, l.seen_at, l.longest, l.newest, l.forgotten_at, l.held,
      NULL, NULL, NULL, NULL, 0, NULL, NULL, 0, 0, 0, 0, 0, l.called_at, l.called_by, l.called_in, NULL, NULL
    INTO account
    FROM {schema}.limits AS l WHERE l.name = open_account.name AND l.grp = open_account.grp;
  IF NOT FOUND THEN
    account.name := open_account.name;
    account.grp := open_account.grp;
    account.job_slots := 0;
    account.resolution := 0;
    account.latest := 0;
    account.charged := 0;
    account.taken := 0;
    account.starts := 0;
    account.entry := 0;
  END IF;
  RETURN account;
END
$$;
