-- How many of a type may start yet: no more than are wanted, and than the rules for all leave room for.
--
-- Reads: kind, want, started, applies, meters, accounts. Makes: room (of the part that asks).
room := want - started;
FOR r IN 1 .. all_count LOOP
  IF applies[(kind - 1) * rule_count + r] THEN
    room := least(room, {schema}.free_of(meters[r], accounts[m_account[r]], now));
  END IF;
END LOOP;
