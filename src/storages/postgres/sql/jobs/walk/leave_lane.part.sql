-- The head leaves its lane: it starts, or can never.
--
-- Reads: lane, head. Changes: the head of the lane; if there is no other, what comes of the lane.
l_first[lane] := head + 1;
IF l_first[lane] > l_last[lane] AND l_whole[lane] THEN
  d_emptied := d_emptied || l_id[lane];
  -- {part walk/close_lane}
END IF;
