-- The unit has had its turn: its lanes come after all others of their priority.
--
-- Reads: unit, started. Changes: the turns of the unit and its lanes, and the chains of those that had one.
DECLARE
  level integer;
BEGIN
  u_served[unit] := 0;
  u_turn[unit] := started;
  FOR own_lane IN u_from[unit] .. u_to[unit] LOOP
    l_turn[own_lane] := later + started;
    CONTINUE WHEN NOT l_ready[own_lane];
    served_count := served_count + 1;
    s_lane[served_count] := own_lane;
    s_turn[served_count] := l_turn[own_lane];
    s_next[served_count] := 0;
    level := array_position(v_priority, l_priority[own_lane]);
    IF level IS NULL THEN
      level_count := level_count + 1;
      level := level_count;
      v_priority[level] := l_priority[own_lane];
      v_first[level] := served_count;
      v_at[level] := served_count;
    ELSE
      s_next[v_last[level]] := served_count;
      IF v_at[level] = 0 THEN
        v_at[level] := served_count;
      END IF;
    END IF;
    v_last[level] := served_count;
  END LOOP;
END;
