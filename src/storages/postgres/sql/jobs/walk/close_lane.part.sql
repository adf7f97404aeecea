-- A lane is not taken from any more: it is empty, or blocked.
--
-- Reads: lane. Changes: l_ready, and how many are.
l_ready[lane] := false;
ready_count := ready_count - 1;
t_ready[l_type[lane]] := t_ready[l_type[lane]] - 1;
