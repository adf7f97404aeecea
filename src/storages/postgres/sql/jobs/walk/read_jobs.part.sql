-- Reads the next jobs of a lane; where many lanes will give one each, the first of all those. What somebody has his hands on is
-- passed over. A lane in which nobody is found is empty.
--
-- Reads: own_lane; `line`, for who comes after it. Changes: the lists of jobs, and where those of a lane are; what comes of lanes
-- that are empty; lane and kind, which stand for nothing afterwards.
DECLARE
  room float8;
  -- How many are wanted in all, of each lane, and so how many are read of it: one more, to see whether there is another.
  still integer;
  each integer;
  count integer;
  -- The lanes that are read, and where reading goes on.
  batch integer[] := ARRAY[own_lane];
  batch_types text[];
  batch_priorities float8[];
  batch_grps text[];
  batch_due float8[];
  batch_seq bigint[];
  read_lane integer[];
  read_seq bigint[];
  read_due float8[];
  read_place tid[];
  read_weights jsonb[];
  read_bytes integer[];
BEGIN
  kind := l_type[own_lane];
  -- {part walk/room}
  still := ceil(room) + 1;
  each := ceil(still / greatest(1, ready_count)::float8);
  count := least(page, each + 1);
  IF l_grp[own_lane] = '' THEN
    SELECT array_agg(own_lane), array_agg(h.seq), array_agg(h.due_at), array_agg(h.place), array_agg(h.weights),
      array_agg(h.bytes) INTO read_lane, read_seq, read_due, read_place, read_weights, read_bytes FROM (
        SELECT j.seq, j.due_at, j.ctid AS place, j.weights, octet_length(j.data) AS bytes FROM {schema}.jobs j
        WHERE j.queue = queue_name AND j.type = types[kind] AND j.priority = l_priority[own_lane]
          AND j.state = 'waiting' AND j.grp IS NULL
          AND (j.due_at, j.seq) > (CASE WHEN l_last[own_lane] = 0 THEN '-Infinity' ELSE j_due[l_last[own_lane]] END,
            CASE WHEN l_last[own_lane] = 0 THEN 0 ELSE j_seq[l_last[own_lane]] END)
          AND (j.deadline IS NULL OR j.deadline > now) AND j.seq <> ALL (without)
        ORDER BY j.due_at, j.seq LIMIT count FOR UPDATE SKIP LOCKED
      ) h;
  ELSE
    IF l_last[own_lane] = 0 AND each = 1 AND still > 1 THEN
      at := t_at[kind];
      WHILE at <= t_end[kind] AND cardinality(batch) < still LOOP
        FOR sibling IN u_from[l_unit[line[at]]] .. u_to[l_unit[line[at]]] LOOP
          IF l_ready[sibling] AND l_last[sibling] = 0 AND sibling <> own_lane AND l_grp[sibling] <> '' THEN
            batch := batch || sibling;
          END IF;
        END LOOP;
        at := at + 1;
      END LOOP;
    END IF;
    FOREACH lane IN ARRAY batch LOOP
      batch_types := batch_types || types[l_type[lane]];
      batch_priorities := batch_priorities || l_priority[lane];
      batch_grps := batch_grps || substr(l_grp[lane], 2);
      batch_due := batch_due || CASE WHEN l_last[lane] = 0 THEN '-Infinity' ELSE j_due[l_last[lane]] END;
      batch_seq := batch_seq || CASE WHEN l_last[lane] = 0 THEN 0 ELSE j_seq[l_last[lane]] END;
    END LOOP;
    SELECT array_agg(h.lane), array_agg(h.seq), array_agg(h.due_at), array_agg(h.place), array_agg(h.weights),
      array_agg(h.bytes) INTO read_lane, read_seq, read_due, read_place, read_weights, read_bytes FROM (
        SELECT b.lane, j.seq, j.due_at, j.place, j.weights, j.bytes
        FROM unnest(batch, batch_types, batch_priorities, batch_grps, batch_due, batch_seq) WITH ORDINALITY
          AS b (lane, type, priority, grp, due_at, seq, place)
        CROSS JOIN LATERAL (
          SELECT w.seq, w.due_at, w.ctid AS place, w.weights, octet_length(w.data) AS bytes FROM {schema}.jobs w
          WHERE w.queue = queue_name AND w.type = b.type AND w.priority = b.priority AND w.state = 'waiting'
            AND w.grp IS NOT NULL AND w.grp = b.grp AND (w.due_at, w.seq) > (b.due_at, b.seq)
            AND (w.deadline IS NULL OR w.deadline > now) AND w.seq <> ALL (without)
          ORDER BY w.due_at, w.seq LIMIT count FOR UPDATE SKIP LOCKED
        ) j ORDER BY b.place, j.due_at, j.seq
      ) h;
  END IF;

  FOREACH lane IN ARRAY batch LOOP
    l_first[lane] := job_count + 1;
    l_last[lane] := job_count;
  END LOOP;
  IF read_seq IS NOT NULL THEN
    FOREACH lane IN ARRAY read_lane LOOP
      job_count := job_count + 1;
      IF l_last[lane] < l_first[lane] THEN
        l_first[lane] := job_count;
      END IF;
      l_last[lane] := job_count;
    END LOOP;
    j_seq := j_seq || read_seq;
    j_due := j_due || read_due;
    j_place := j_place || read_place;
    j_weights := j_weights || read_weights;
    j_bytes := j_bytes || read_bytes;
  END IF;
  FOREACH lane IN ARRAY batch LOOP
    l_whole[lane] := l_last[lane] - l_first[lane] + 1 < count;
    IF l_last[lane] < l_first[lane] THEN
      d_emptied := d_emptied || l_id[lane];
      -- {part walk/close_lane}
    END IF;
  END LOOP;
END;
