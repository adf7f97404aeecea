-- May the head start? If not, what is in its way the longest (`ask` in planner/claim-limits.ts). Takes nothing.
--
-- Reads: lane, kind, unit, head; rules, meters, heavy heads. Makes: c_meter, c_weight, c_slots, for the rules that apply; keeper,
-- longest, kept_weight, kept_slots, never, for_one_group; where something is in its way also `meter`, that of the keeper.
DECLARE
  m integer;
  weight float8;
  slots float8;
  own float8;
  since float8;
BEGIN
  longest := 0;
  keeper := 0;
  never := false;
  for_one_group := false;
  FOR r IN 1 .. rule_count LOOP
    CONTINUE WHEN NOT applies[(kind - 1) * rule_count + r];
    m := CASE WHEN r <= all_count THEN r ELSE r + (u_group[unit] - 1) * group_count END;
    weight := 1;
    slots := 1;
    IF weighs[r] IS NOT NULL THEN
      own := coalesce((j_weights[head] ->> weighs[r])::float8, (rules[r]).estimate);
      IF (rules[r]).max IS NOT NULL THEN
        weight := own;
      ELSE
        slots := own;
      END IF;
    END IF;
    c_meter[r] := m;
    c_weight[r] := weight;
    c_slots[r] := slots;
    -- Whatever is not a matter of numbers is not in the way, and the numbers leave room: most questions end here.
    IF m_plain[m] AND m_used[m] + a_taken[m_account[m]] + weight <= m_max[m] AND a_held[m_account[m]] + slots <= m_slots[m] THEN
      own := 0;
    ELSE
      own := {schema}.limit_wait(meters[m], accounts[m_account[m]], weight, slots, now);
      never := own = -1;
    END IF;
    IF heavy_count > 0 AND weighs[r] IS NOT NULL AND NOT never THEN
      -- A light one would fit now and then for ever, while a heavy one waits.
      since := CASE WHEN j_seq[head] = l_heavy[lane] AND l_by[lane] = (rules[r]).name THEN coalesce(l_since[lane], 0)
        ELSE forever END;
      at := coalesce(m_heavy[m], 0);
      WHILE at <> 0 LOOP
        IF h_lane[at] <> l_id[lane] AND (h_priority[at] > l_priority[lane] OR (h_priority[at] = l_priority[lane]
          AND (h_since[at] < since OR (h_since[at] = since AND h_lane[at] < l_id[lane])))) THEN
          own := greatest(own, CASE WHEN h_until[at] >= 1e18 THEN forever WHEN h_until[at] > now THEN h_until[at] - now
            ELSE h_until[at] + 100 - now END);
        END IF;
        at := h_next[at];
      END LOOP;
    END IF;
    -- Types are closed as a whole; those of a group are met here.
    IF r > all_count THEN
      own := greatest(own, m_closed[m]);
    END IF;
    IF own > longest OR never THEN
      longest := own;
      keeper := m;
      kept_weight := weight;
      kept_slots := slots;
    END IF;
    EXIT WHEN never;
  END LOOP;
  IF keeper > 0 THEN
    meter := meters[keeper];
    -- Of a limit that is stopped by hand no group starts anything.
    for_one_group := meter.by_group AND NOT meter.paused;
  END IF;
END;
