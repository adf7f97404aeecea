-- The first who waits without a group, as claim looks for it, where there are marks: from these on, or of a lower priority than any
-- of them. Now and then all of the index is looked through, by one claim at a time: for who has come before a mark (he was
-- given back, or is of a priority of which there is no mark), and to see whether marks are still needed.
--
-- types: as a claim asks for. now: the time. Answers with sign, and what was found in it; `look_at` is NULL where no mark was used.
CREATE OR REPLACE FUNCTION {schema}.marked_head(queue text, types text[], sign {schema}.claim_signs, now float8)
RETURNS {schema}.claim_signs
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  wanted text := coalesce(types[1], '');
  before bigint := {schema}.passed();
  head record;
  whole boolean;
BEGIN
  sign.look_at := CASE WHEN cardinality(types) > 1 THEN NULL
    ELSE (SELECT max(k.look_at) FROM {schema}.marks k WHERE k.queue = marked_head.queue AND k.asked = wanted) END;
  whole := sign.look_at IS NULL OR (sign.look_at <= now AND {schema}.may_mark(queue));
  IF whole THEN
    SELECT j.type, j.priority, j.due_at, j.seq INTO head FROM {schema}.jobs j
    WHERE j.queue = marked_head.queue AND j.type >= wanted AND j.state = 'waiting' AND j.grp IS NULL
    ORDER BY j.type, j.priority DESC, j.due_at, j.seq LIMIT 1;
    sign.last_type := CASE WHEN types IS NULL THEN (SELECT j.type FROM {schema}.jobs j
      WHERE j.queue = marked_head.queue AND j.state = 'waiting' AND j.grp IS NULL ORDER BY j.type DESC LIMIT 1) END;
  ELSE
    SELECT j.type, j.priority, j.due_at, j.seq INTO head FROM {schema}.marks k
    CROSS JOIN LATERAL (SELECT j.type, j.priority, j.due_at, j.seq FROM {schema}.jobs j
      WHERE j.queue = k.queue AND j.type = k.type AND j.priority = k.priority AND j.state = 'waiting' AND j.grp IS NULL
        AND (j.due_at, j.seq) >= (k.due_at, k.seq)
      ORDER BY j.due_at, j.seq LIMIT 1) j
    WHERE k.queue = marked_head.queue AND k.asked = wanted ORDER BY k.priority DESC LIMIT 1;
    IF NOT FOUND THEN
      SELECT j.type, j.priority, j.due_at, j.seq INTO head FROM (SELECT k.type, k.priority FROM {schema}.marks k
        WHERE k.queue = marked_head.queue AND k.asked = wanted ORDER BY k.priority LIMIT 1) k
      CROSS JOIN LATERAL (SELECT j.type, j.priority, j.due_at, j.seq FROM {schema}.jobs j
        WHERE j.queue = marked_head.queue AND j.type = k.type AND j.priority < k.priority AND j.state = 'waiting'
          AND j.grp IS NULL
        ORDER BY j.priority DESC, j.due_at, j.seq LIMIT 1) j;
    END IF;
    sign.last_type := head.type;
  END IF;
  sign.head_type := head.type;
  sign.head_priority := head.priority;
  sign.head_due_at := head.due_at;
  sign.head_seq := head.seq;
  IF {schema}.passed_many(before) THEN
    RETURN {schema}.mark_head(queue, types, sign, {schema}.passed() - before, whole, now);
  END IF;
  IF whole AND sign.look_at IS NOT NULL THEN
    -- Those that it has passed were not needed. The others are for the next one to pass.
    DELETE FROM {schema}.marks k WHERE k.queue = marked_head.queue AND k.asked = wanted AND (head.type = k.type
      AND (head.priority > k.priority OR (head.priority = k.priority AND (head.due_at, head.seq) < (k.due_at, k.seq)))) IS NOT TRUE;
    IF NOT EXISTS (SELECT FROM {schema}.marks k WHERE k.queue = marked_head.queue AND k.asked = wanted) THEN
      sign.look_at := NULL;
    END IF;
  END IF;
  RETURN sign;
END
$$;
