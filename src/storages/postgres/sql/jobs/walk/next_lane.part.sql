-- The lane that speaks for the unit whose turn it is: the one that was served the longest ago (byTurn in planner/turns.ts). It is
-- the first of those that were read of a type, or of those that had their turn in this claim already.
--
-- Reads: look, the lists of lanes, `line` and the chains of those that had their turn. Makes: next_lane (0: there is none).
-- Changes: where types and chains stand; t_open, where a type has nothing more; need, where more has to be read first.
next_lane := 0;
FOR k IN 1 .. cardinality(look) + level_count LOOP
  IF k <= cardinality(look) THEN
    kind := look[k];
    CONTINUE WHEN NOT t_open[kind];
    at := t_at[kind];
    WHILE at <= t_end[kind] LOOP
      lane := line[at];
      EXIT WHEN l_ready[lane] AND l_turn[lane] < later;
      at := at + 1;
    END LOOP;
    t_at[kind] := at;
    IF at > t_end[kind] THEN
      IF NOT t_whole[kind] THEN
        need := need || kind;
      ELSIF t_ready[kind] = 0 THEN
        t_open[kind] := false;
      END IF;
      CONTINUE;
    END IF;
  ELSE
    EXIT WHEN cardinality(need) > 0;
    at := v_at[k - cardinality(look)];
    WHILE at <> 0 LOOP
      lane := s_lane[at];
      EXIT WHEN l_ready[lane] AND l_turn[lane] = s_turn[at] AND t_open[l_type[lane]];
      at := s_next[at];
    END LOOP;
    v_at[k - cardinality(look)] := at;
    CONTINUE WHEN at = 0;
  END IF;
  IF next_lane = 0 OR l_priority[lane] > l_priority[next_lane] OR (l_priority[lane] = l_priority[next_lane]
    AND (l_turn[lane] < l_turn[next_lane] OR (l_turn[lane] = l_turn[next_lane] AND l_id[lane] < l_id[next_lane]))) THEN
    next_lane := lane;
  END IF;
END LOOP;
