-- The look that has found the head in `sign` took long: the next one begins there. Not so where jobs of several types wait, and a claim
-- asks for any: who is the first of them is for the index to tell.
--
-- types: as a claim asks for. passed: so many entries it passed. whole: that was the whole index; in a while it is to be looked
-- through again: what that takes is a twentieth of the time in between, about. Answers with sign, and `look_at` in it.
CREATE OR REPLACE FUNCTION {schema}.mark_head(queue text, types text[], sign {schema}.claim_signs, passed bigint, whole boolean,
  now float8) RETURNS {schema}.claim_signs
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  next_look float8 := CASE WHEN whole THEN now + greatest(250, passed / 100) ELSE sign.look_at END;
BEGIN
  IF cardinality(types) > 1 OR NOT {schema}.may_mark(queue) THEN
    RETURN sign;
  END IF;
  IF types IS NULL AND sign.head_type <> sign.last_type THEN
    DELETE FROM {schema}.marks k WHERE k.queue = mark_head.queue AND k.asked = '';
    sign.look_at := NULL;
    RETURN sign;
  END IF;
  IF sign.head_type = coalesce(types[1], sign.last_type) THEN
    INSERT INTO {schema}.marks AS k (queue, asked, priority, type, due_at, seq, look_at)
    VALUES (mark_head.queue, coalesce(types[1], ''), sign.head_priority, sign.head_type, sign.head_due_at, sign.head_seq,
      next_look)
    ON CONFLICT ON CONSTRAINT marks_pkey DO UPDATE SET type = sign.head_type, due_at = sign.head_due_at, seq = sign.head_seq;
    sign.look_at := next_look;
  END IF;
  IF whole THEN
    UPDATE {schema}.marks k SET look_at = next_look
    WHERE k.queue = mark_head.queue AND k.asked = coalesce(types[1], '') AND k.look_at <> next_look;
  END IF;
  RETURN sign;
END
$$;
