-- The head starts, and takes what it weighs of all of its limits (`take` in planner/claim-limits.ts).
--
-- Reads: lane, kind, unit, head, c_meter, c_weight, c_slots. Makes: share. Changes: accounts and their numbers, started, what is
-- known of the lane and its unit, and what comes of it.
DECLARE
  own float8;
BEGIN
  started := started + 1;
  started_bytes := started_bytes + j_bytes[head];
  d_places := d_places || j_place[head];
  d_seqs := d_seqs || j_seq[head];
  IF j_seq[head] = l_heavy[lane] AND l_by[lane] IS NOT NULL THEN
    d_freed_names := d_freed_names || l_by[lane];
    d_freed_grps := d_freed_grps || l_grp[lane];
  END IF;
  share := 1;
  FOR r IN 1 .. rule_count LOOP
    CONTINUE WHEN NOT applies[(kind - 1) * rule_count + r];
    meter := meters[c_meter[r]];
    at := meter.account;
    -- As in limits/account_take.sql.
    account := accounts[at];
    own := c_weight[r];
    IF account.latest = started THEN
      own := greatest(0, own - account.charged);
      account.charged := account.charged + own;
    ELSE
      account.latest := started;
      account.charged := own;
      account.starts := account.starts + 1;
    END IF;
    account.taken := account.taken + own;
    account.latest_at := greatest(account.latest_at, now);
    IF account.told_left IS NOT NULL THEN
      account.told_left := greatest(0, account.told_left - own);
    END IF;
    IF meter.holds THEN
      account.held := account.held + c_slots[r];
      account.probes := account.probes + 1;
      account.job_slots := account.job_slots + c_slots[r];
    END IF;
    accounts[at] := account;
    a_taken[at] := account.taken;
    a_held[at] := coalesce(account.held, 0);
    d_use_starts := d_use_starts || started;
    d_use_meters := d_use_meters || c_meter[r];
    d_use_weights := d_use_weights || c_weight[r];
    d_use_slots := d_use_slots || c_slots[r];
    share := greatest(share, meter.share);
  END LOOP;
  l_gave[lane] := true;
  u_touched[unit] := true;
  u_served[unit] := u_served[unit] + 1;
END;
