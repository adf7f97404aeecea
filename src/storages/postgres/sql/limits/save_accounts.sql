-- Writes down what a step has taken of many limits, together: as limits/account_save.sql does for one. Those of which nothing was
-- taken are left as they are.
--
-- accounts: all that the step looked at. number, ttl, began: as account_save. now: the time. Answers their ids, and where in the log
-- the starts are.
CREATE OR REPLACE FUNCTION {schema}.save_accounts(
  accounts {schema}.limit_account[], number bigint, ttl float8, began float8, now float8, OUT ids bigint[], OUT entries bigint[]
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  account {schema}.limit_account;
  chosen boolean[] := '{}';
  any_chosen boolean := false;
  counted float8;
  one record;
BEGIN
  ids := '{}';
  entries := '{}';
  FOR i IN 1 .. cardinality(accounts) LOOP
    account := accounts[i];
    ids[i] := account.id;
    entries[i] := 0;
    chosen[i] := false;
    CONTINUE WHEN account.starts = 0;
    counted := coalesce(account.watch_ms, account.window_ms);
    -- Few share an entry with starts of before, or are looked at through another window than before.
    IF account.resolution > 0 OR account.newest >= now OR (account.before IS NULL AND counted IS NOT NULL) THEN
      account := {schema}.account_save(account, false, number, ttl, began, now);
      ids[i] := account.id;
      entries[i] := account.entry;
    ELSE
      chosen[i] := true;
      any_chosen := true;
    END IF;
  END LOOP;
  IF NOT any_chosen THEN
    RETURN;
  END IF;
  FOR one IN
    WITH fresh AS (
      SELECT a.ordinality AS place, a.name, a.grp, coalesce(a.watch_ms, 0) AS longest
      FROM unnest(accounts) WITH ORDINALITY AS a WHERE chosen[a.ordinality] AND a.id IS NULL
    ), opened AS (
      INSERT INTO {schema}.limits (name, grp, longest, prune_at)
      SELECT f.name, f.grp, f.longest, now + f.longest FROM fresh f RETURNING id, name, grp
    ) SELECT f.place, o.id FROM opened o JOIN fresh f ON f.name = o.name AND f.grp = o.grp
  LOOP
    ids[one.place] := one.id;
  END LOOP;
  FOR one IN
    WITH counting AS (
      SELECT a.ordinality AS place, ids[a.ordinality] AS id, a.taken AS n,
        coalesce(a.watch_ms, a.window_ms) IS NOT NULL OR coalesce(a.longest > 0, false) AS logged
      FROM unnest(accounts) WITH ORDINALITY AS a
      WHERE chosen[a.ordinality] AND (coalesce(a.watch_ms, a.window_ms) IS NOT NULL OR a.longest > 0
        OR (ttl IS NOT NULL AND a.every_ms IS NOT NULL))
    ), entered AS (
      INSERT INTO {schema}.starts (limit_id, at, since, n, claim, began)
      SELECT c.id, now + coalesce(ttl, 0), now, CASE WHEN c.logged THEN c.n ELSE 0 END, CASE WHEN ttl IS NOT NULL THEN number END,
        CASE WHEN ttl IS NOT NULL THEN save_accounts.began END
      FROM counting c RETURNING limit_id, seq
    ) SELECT c.place, e.seq FROM entered e JOIN counting c ON c.id = e.limit_id WHERE c.logged
  LOOP
    entries[one.place] := one.seq;
  END LOOP;
  UPDATE {schema}.limits l SET latest_at = now, called_at = greatest(l.called_at, now + coalesce(ttl, 0)),
    called_by = CASE WHEN ttl IS NOT NULL AND a.every_ms IS NOT NULL AND (l.called_at > now) IS NOT TRUE THEN number END,
    told_left = a.told_left, window_ms = coalesce(a.watch_ms, a.window_ms),
    used = CASE WHEN coalesce(a.watch_ms, a.window_ms) IS NULL THEN 0 ELSE a.before + a.taken END,
    seen_at = coalesce(a.before_at, now), newest = CASE WHEN entries[a.ordinality] > 0 THEN now ELSE l.newest END,
    held = a.job_slots
  FROM unnest(accounts) WITH ORDINALITY AS a WHERE chosen[a.ordinality] AND l.id = ids[a.ordinality];
END
$$;
