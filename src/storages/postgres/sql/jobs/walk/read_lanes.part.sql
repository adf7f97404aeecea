-- Reads more lanes, where those that were read are used up: one more than can start, to see whether anything is left; more, if
-- those before have all been in vain. All lanes come with them that have their turn with them (jobs/walk_page.sql).
--
-- Reads: need, and how much room there is. Changes: the lists of lanes and units, `line` and where types stand in it; groups that
-- nobody has met before are `new_groups`, and `unopened`.
DECLARE
  -- For each type that needs more: how many are read, and after which place of `line` they stand.
  page_types text[];
  page_counts integer[];
  page_places integer[];
  page_at integer[];
  room float8;
  -- What was read; those that are new come first.
  p_id bigint[];
  p_type integer[];
  p_priority float8[];
  p_grp text[];
  p_turn bigint[];
  p_ready boolean[];
  p_unit integer[];
  p_heavy bigint[];
  p_by text[];
  p_since float8[];
  p_served integer[];
  p_family integer[];
  p_line integer[];
  p_rank integer[];
  read_count integer;
  new_count integer;
  old_count integer := cardinality(l_id);
  -- The places of groups: of those met before, and of the families that were read.
  known_groups jsonb := '{}';
  family integer[];
  grp integer;
BEGIN
  FOR k IN 1 .. cardinality(need) LOOP
    kind := need[k];
    -- {part walk/room}
    page_types[k] := types[kind];
    page_counts[k] := least(page, greatest(t_read[kind], ceil(room) + 1));
    page_places[k] := t_read[kind];
    page_at[k] := line_count;
    t_at[kind] := line_count + 1;
    t_end[kind] := line_count;
    line_count := line_count + page_counts[k];
  END LOOP;
  SELECT array_agg(p.id), array_agg(coalesce(array_position(types, p.type), 0)), array_agg(p.priority), array_agg(p.grp),
      array_agg(p.turn), array_agg(p.ready AND NOT p.blocked AND p.type = ANY (types)), array_agg((unit_count + p.unit)::integer),
      array_agg(p.heavy), array_agg(p.heavy_by), array_agg(p.heavy_since), array_agg(p.served),
      array_agg(p.family::integer), array_agg(p.line), array_agg(p.rank::integer), count(p.unit), count(*)
    INTO p_id, p_type, p_priority, p_grp, p_turn, p_ready, p_unit, p_heavy, p_by, p_since, p_served, p_family, p_line,
      p_rank, new_count, read_count
    FROM {schema}.walk_page(queue_name, asked, page_types, page_counts, page_places, l_id) AS p;
  IF group_count > 0 AND unit_count > 0 THEN
    SELECT jsonb_object_agg(g.grp, g.place) INTO known_groups FROM unnest(groups) WITH ORDINALITY AS g (grp, place);
  END IF;
  l_id := l_id || p_id[1 : new_count];
  l_type := l_type || p_type[1 : new_count];
  l_priority := l_priority || p_priority[1 : new_count];
  l_grp := l_grp || p_grp[1 : new_count];
  l_turn := l_turn || p_turn[1 : new_count];
  l_heavy := l_heavy || p_heavy[1 : new_count];
  l_by := l_by || p_by[1 : new_count];
  l_since := l_since || p_since[1 : new_count];
  l_unit := l_unit || p_unit[1 : new_count];
  l_ready := l_ready || p_ready[1 : new_count];
  l_gave := l_gave || array_fill(false, ARRAY[new_count]);
  l_first := l_first || array_fill(1, ARRAY[new_count]);
  l_last := l_last || array_fill(0, ARRAY[new_count]);
  l_whole := l_whole || array_fill(false, ARRAY[new_count]);

  new_groups := '{}';
  FOR k IN 1 .. read_count LOOP
    IF k > new_count THEN
      lane := array_position(l_id, p_id[k]);
    ELSE
      lane := old_count + k;
      unit := p_unit[k];
      IF unit > unit_count THEN
        unit_count := unit;
        u_from[unit] := lane;
        u_served[unit] := p_served[k];
        u_turn[unit] := 0;
        u_touched[unit] := false;
        IF group_count > 0 THEN
          grp := coalesce(family[p_family[k]], (known_groups ->> p_grp[k])::integer);
          IF grp IS NULL THEN
            groups := groups || p_grp[k];
            new_groups := new_groups || p_grp[k];
            unopened := true;
            grp := cardinality(groups);
          END IF;
          family[p_family[k]] := grp;
          u_group[unit] := grp;
        END IF;
      ELSIF p_served[k] > u_served[unit] THEN
        u_served[unit] := p_served[k];
      END IF;
      u_to[unit] := lane;
      IF p_ready[k] THEN
        ready_count := ready_count + 1;
        kind := p_type[k];
        t_ready[kind] := t_ready[kind] + 1;
      END IF;
    END IF;
    IF p_line[k] IS NOT NULL THEN
      kind := need[p_line[k]];
      at := page_at[p_line[k]] + p_rank[k];
      line[at] := lane;
      t_end[kind] := greatest(t_end[kind], at);
    END IF;
  END LOOP;
  FOR k IN 1 .. cardinality(need) LOOP
    kind := need[k];
    t_read[kind] := t_read[kind] + t_end[kind] - page_at[k];
    t_whole[kind] := t_end[kind] - page_at[k] < page_counts[k];
  END LOOP;
  need := '{}';
END;
