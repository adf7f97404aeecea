-- What a limit keeps back is passed over whole (`block` in planner/plan-claim.ts, and what follows it there). Where only its group is in
-- the way the lane is blocked; else all types are closed that the rule applies to, and one that is too heavy is remembered, so
-- that others who claim do not take what it waits for: its lane is blocked, too.
--
-- Reads: lane, kind, head, keeper, meter, longest, kept_weight, kept_slots, for_one_group. Changes: what comes of the lane, how
-- long others of its group wait, and which lane of the type has room first; vain, or which types are open.
DECLARE
  rule {schema}.limit_rule;
BEGIN
  -- Might a lighter one start before it? Who waits for something to be given back may wait for more than others do.
  IF for_one_group OR (meter.weight IS NOT NULL AND NOT meter.paused AND (
    {schema}.limit_wait(meter, accounts[meter.account], 1, 1, now) <> longest
    OR (longest = forever AND greatest(kept_weight, kept_slots) > 1))) THEN
    d_blocked := d_blocked || l_id[lane];
    d_blocked_waits := d_blocked_waits || longest;
    d_blocked_names := d_blocked_names || meter.name;
    -- Those who only wait behind a heavy one are not too heavy themselves.
    d_blocked_heavy := d_blocked_heavy || CASE WHEN meter.weight IS NOT NULL
      AND {schema}.limit_wait(meter, accounts[meter.account], kept_weight, kept_slots, now) > 0 THEN j_seq[head] END;
    -- {part walk/close_lane}
    m_closed[keeper] := longest;
    IF t_blocked[kind] IS NULL THEN
      blocked := blocked || kind;
    END IF;
    IF t_blocked[kind] IS NULL OR longest < t_blocked[kind] THEN
      t_blocked[kind] := longest;
      t_blocked_by[kind] := keeper;
    END IF;
  END IF;
  IF for_one_group THEN
    vain := vain + 1;
  ELSE
    rule := rules[CASE WHEN keeper <= all_count THEN keeper ELSE all_count + 1 + (keeper - all_count - 1) % group_count END];
    FOR k IN 1 .. cardinality(types) LOOP
      IF t_open[k] AND (rule.types IS NULL OR types[k] = ANY (rule.types)) THEN
        t_open[k] := false;
        t_closed[k] := longest;
        t_closed_by[k] := keeper;
        closed := closed || k;
      END IF;
    END LOOP;
  END IF;
END;
