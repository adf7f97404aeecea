-- Of the lanes of the unit whose turn it is the one whose head starts next. Jobs are read where none is left of those that were.
--
-- Reads: next_lane. Makes: unit, lane (0: the one that spoke for them is empty, so it is not their turn), kind (its type), head (its
-- first job). Changes: what reading jobs does.
DECLARE
  best integer := 0;
  own integer;
BEGIN
  unit := l_unit[next_lane];
  FOR own_lane IN u_from[unit] .. u_to[unit] LOOP
    CONTINUE WHEN NOT l_ready[own_lane] OR NOT t_open[l_type[own_lane]];
    IF l_first[own_lane] > l_last[own_lane] AND NOT l_whole[own_lane] THEN
      -- {part walk/read_jobs}
      CONTINUE WHEN NOT l_ready[own_lane];
    END IF;
    own := l_first[own_lane];
    IF best = 0 OR j_due[own] < j_due[head] OR (j_due[own] = j_due[head] AND j_seq[own] < j_seq[head]) THEN
      best := own_lane;
      head := own;
    END IF;
  END LOOP;
  lane := CASE WHEN l_ready[next_lane] THEN best ELSE 0 END;
  kind := l_type[lane];
END;
