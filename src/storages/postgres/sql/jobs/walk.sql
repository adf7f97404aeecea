-- Which jobs a claim starts, and what is in the way of others: the walk of storage/walk.ts over lanes, asking as in
-- storage/under-limits.ts. By priority, then by turns, then as they came due, each with all of its limits or not at all; what a
-- limit keeps back is passed over whole. Lanes, first jobs and limits are read together, as many as may be needed, and walked
-- over in lists; nothing is written.
--
-- queue_name: of which queue. asked: the types that the claim asks for; NULL: any. types: those of them that may start.
-- all_rules: what they run under. want: how many may start. without: jobs that cannot be had. now_at: now.
CREATE OR REPLACE FUNCTION {schema}.walk(
  queue_name text, asked text[], types text[], all_rules {schema}.limit_rule[], want integer, without bigint[], now_at float8
) RETURNS {schema}.walked
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- So many lanes are blocked, and jobs refused for good, before a claim ends: then another one goes on.
  patience CONSTANT integer := 1000;
  page CONSTANT integer := 1000;
  -- Turns of this claim come after all others.
  later CONSTANT bigint := 4000000000000000000;
  forever CONSTANT float8 := 'Infinity';
  done {schema}.walked;
  now float8 := now_at;
  started integer := 0;
  vain integer := 0;
  -- Rules: those for all, then those by group. Which apply to which type; where they weigh, by what.
  for_all {schema}.limit_rule[] := '{}';
  by_group {schema}.limit_rule[] := '{}';
  rules {schema}.limit_rule[];
  rule {schema}.limit_rule;
  rule_count integer;
  all_count integer;
  group_count integer;
  applies boolean[] := '{}';
  weighs text[] := '{}';
  shares boolean := false;
  -- Types: may they be taken from? Of their lines: which part was read last, where it stands, and whether there is more.
  type_count integer := cardinality(types);
  t_open boolean[] := '{}';
  t_at integer[] := '{}';
  t_end integer[] := '{}';
  t_read integer[] := '{}';
  t_whole boolean[] := '{}';
  t_ready integer[] := '{}';
  t_blocked float8[] := '{}';
  t_blocked_by integer[] := '{}';
  t_closed float8[] := '{}';
  t_closed_by integer[] := '{}';
  closed integer[] := '{}';
  blocked integer[] := '{}';
  look integer[] := '{}';
  need integer[] := '{}';
  line integer[] := '{}';
  line_count integer := 0;
  -- Lanes, those of a unit side by side.
  lane_count integer := 0;
  l_id bigint[] := '{}';
  l_type integer[] := '{}';
  l_priority float8[] := '{}';
  l_grp text[] := '{}';
  l_turn bigint[] := '{}';
  l_ready boolean[] := '{}';
  l_moved boolean[] := '{}';
  l_unit integer[] := '{}';
  l_heavy bigint[] := '{}';
  l_by text[] := '{}';
  l_since float8[] := '{}';
  l_gave boolean[] := '{}';
  l_first integer[] := '{}';
  l_last integer[] := '{}';
  l_whole boolean[] := '{}';
  l_looked boolean[] := '{}';
  known integer := 0;
  unit_count integer := 0;
  u_from integer[] := '{}';
  u_to integer[] := '{}';
  u_served integer[] := '{}';
  u_turn integer[] := '{}';
  u_touched boolean[] := '{}';
  u_group integer[] := '{}';
  groups text[] := '{}';
  family integer[];
  new_groups text[];
  -- Lanes that had their turn in this claim, by priority, in order.
  served_count integer := 0;
  s_lane integer[] := '{}';
  s_turn bigint[] := '{}';
  s_next integer[] := '{}';
  level_count integer := 0;
  v_priority float8[] := '{}';
  v_first integer[] := '{}';
  v_last integer[] := '{}';
  v_at integer[] := '{}';
  -- Jobs that were read, those of a lane side by side.
  j_seq bigint[] := '{}';
  j_due float8[] := '{}';
  j_place tid[] := '{}';
  j_weights jsonb[] := '{}';
  job_count integer := 0;
  read_lane integer[];
  read_seq bigint[];
  read_due float8[];
  read_place tid[];
  read_weights jsonb[];
  batch integer[];
  batch_types text[];
  batch_priorities float8[];
  batch_grps text[];
  batch_due float8[];
  batch_seq bigint[];
  -- Limits, and the heavy ones that wait for them.
  meters {schema}.limit_meter[] := '{}';
  accounts {schema}.limit_account[] := '{}';
  opened record;
  m_closed float8[] := '{}';
  -- Where only numbers matter: how much fits, what is used and held of that.
  meter_count integer := 0;
  m_plain boolean[] := '{}';
  m_account integer[] := '{}';
  m_max float8[] := '{}';
  m_used float8[] := '{}';
  m_slots float8[] := '{}';
  a_taken float8[] := '{}';
  a_held float8[] := '{}';
  heavy_count integer := 0;
  m_heavy integer[] := '{}';
  h_next integer[] := '{}';
  h_lane bigint[] := '{}';
  h_priority float8[] := '{}';
  h_until float8[] := '{}';
  h_since float8[] := '{}';
  -- What comes of it (see the type).
  d_places tid[] := '{}';
  d_seqs bigint[] := '{}';
  d_use_starts integer[] := '{}';
  d_use_meters integer[] := '{}';
  d_use_weights float8[] := '{}';
  d_use_slots float8[] := '{}';
  d_lanes bigint[] := '{}';
  d_turns integer[] := '{}';
  d_served integer[] := '{}';
  d_gave boolean[] := '{}';
  d_emptied bigint[] := '{}';
  d_blocked bigint[] := '{}';
  d_blocked_waits float8[] := '{}';
  d_blocked_names text[] := '{}';
  d_blocked_heavy bigint[] := '{}';
  d_refused tid[] := '{}';
  d_refused_seqs bigint[] := '{}';
  d_refused_meters integer[] := '{}';
  d_refused_weights float8[] := '{}';
  d_freed_names text[] := '{}';
  d_freed_grps text[] := '{}';
  -- What is asked.
  closing integer := 0;
  first integer;
  lane integer;
  other integer;
  unit integer;
  head integer;
  kind integer;
  at integer;
  m integer;
  place integer;
  one record;
  meter {schema}.limit_meter;
  account {schema}.limit_account;
  weight float8;
  slots float8;
  c_weight float8[] := '{}';
  c_slots float8[] := '{}';
  own float8;
  since float8;
  longest float8;
  keeper integer;
  by_weight float8;
  by_slots float8;
  never boolean;
  share integer;
  room float8;
  still integer;
  count integer;
  best_wait float8;
  best_by integer;
BEGIN
  FOREACH rule IN ARRAY all_rules LOOP
    IF rule.by_group THEN
      by_group := by_group || rule;
      shares := shares OR rule.groups IS NOT NULL;
    ELSE
      for_all := for_all || rule;
    END IF;
  END LOOP;
  rules := for_all || by_group;
  all_count := cardinality(for_all);
  group_count := cardinality(by_group);
  rule_count := all_count + group_count;
  FOR k IN 1 .. type_count LOOP
    t_open[k] := true;
    t_at[k] := 1;
    t_end[k] := 0;
    t_read[k] := 0;
    t_whole[k] := false;
    t_ready[k] := 0;
    look := look || k;
    FOR r IN 1 .. rule_count LOOP
      applies[(k - 1) * rule_count + r] := (rules[r]).types IS NULL OR types[k] = ANY ((rules[r]).types);
    END LOOP;
  END LOOP;
  FOR r IN 1 .. rule_count LOOP
    weighs[r] := (rules[r]).weight;
  END LOOP;
  IF all_count > 0 THEN
    SELECT * INTO opened FROM {schema}.meters_for_all(for_all, now);
    now := opened.at;
    meters := opened.meters;
    accounts := opened.accounts;
    FOR r IN 1 .. all_count LOOP
      CONTINUE WHEN weighs[r] IS NULL;
      FOR one IN SELECT * FROM {schema}.heavy_heads((rules[r]).name, NULL, now) LOOP
        heavy_count := heavy_count + 1;
        h_next[heavy_count] := coalesce(m_heavy[r], 0);
        m_heavy[r] := heavy_count;
        h_lane[heavy_count] := one.lane;
        h_priority[heavy_count] := one.priority;
        h_until[heavy_count] := one.until;
        h_since[heavy_count] := one.since;
      END LOOP;
    END LOOP;
  END IF;
  best_wait := forever;

  <<walking>>
  LOOP
    -- More lanes, where those that were read are used up: one more than can start, to see whether anything is left; more, if
    -- those before have all been in vain.
    IF cardinality(need) > 0 THEN
      family := '{}';
      new_groups := '{}';
      at := unit_count;
      DECLARE
        page_types text[] := '{}';
        page_counts integer[] := '{}';
        page_places integer[] := '{}';
        page_at integer[] := '{}';
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
        known_groups jsonb := '{}';
      BEGIN
        FOR k IN 1 .. cardinality(need) LOOP
          kind := need[k];
          room := want - started;
          FOR r IN 1 .. all_count LOOP
            IF applies[(kind - 1) * rule_count + r] THEN
              room := least(room, {schema}.free_of(meters[r], accounts[(meters[r]).account], now));
            END IF;
          END LOOP;
          page_types[k] := types[kind];
          page_counts[k] := least(page, greatest(t_read[kind], ceil(room) + 1));
          page_places[k] := t_read[kind];
          page_at[k] := line_count;
          t_at[kind] := line_count + 1;
          t_end[kind] := line_count;
          line_count := line_count + page_counts[k];
        END LOOP;
        SELECT array_agg(p.id), array_agg(coalesce(array_position(types, p.type), 0)), array_agg(p.priority), array_agg(p.grp),
            array_agg(p.turn), array_agg(p.ready AND NOT p.blocked AND p.type = ANY (types)), array_agg((at + p.unit)::integer),
            array_agg(p.heavy), array_agg(p.heavy_by), array_agg(p.heavy_since), array_agg(p.served),
            array_agg(p.family::integer), array_agg(p.line), array_agg(p.rank::integer), count(p.unit), count(*)
          INTO p_id, p_type, p_priority, p_grp, p_turn, p_ready, p_unit, p_heavy, p_by, p_since, p_served, p_family, p_line,
            p_rank, count, place
          FROM {schema}.walk_page(queue_name, asked, page_types, page_counts, page_places, l_id) AS p;
        IF group_count > 0 AND at > 0 THEN
          SELECT jsonb_object_agg(g.grp, g.place) INTO known_groups FROM unnest(groups) WITH ORDINALITY AS g (grp, place);
        END IF;
        -- Those that were read before come last.
        l_id := l_id || p_id[1 : count];
        l_type := l_type || p_type[1 : count];
        l_priority := l_priority || p_priority[1 : count];
        l_grp := l_grp || p_grp[1 : count];
        l_turn := l_turn || p_turn[1 : count];
        l_ready := l_ready || p_ready[1 : count];
        l_unit := l_unit || p_unit[1 : count];
        l_heavy := l_heavy || p_heavy[1 : count];
        l_by := l_by || p_by[1 : count];
        l_since := l_since || p_since[1 : count];
        l_moved := l_moved || array_fill(false, ARRAY[count]);
        l_gave := l_gave || array_fill(false, ARRAY[count]);
        l_whole := l_whole || array_fill(false, ARRAY[count]);
        l_looked := l_looked || array_fill(false, ARRAY[count]);
        l_first := l_first || array_fill(1, ARRAY[count]);
        l_last := l_last || array_fill(0, ARRAY[count]);
        FOR k IN 1 .. place LOOP
          IF k > count THEN
            lane := array_position(l_id, p_id[k]);
          ELSE
            lane_count := lane_count + 1;
            lane := lane_count;
            unit := p_unit[k];
            IF unit > unit_count THEN
              unit_count := unit;
              u_from[unit] := lane;
              u_served[unit] := p_served[k];
              u_touched[unit] := false;
              u_turn[unit] := 0;
              IF group_count > 0 THEN
                other := family[p_family[k]];
                IF other IS NULL THEN
                  other := (known_groups ->> p_grp[k])::integer;
                  IF other IS NULL THEN
                    other := cardinality(groups) + 1;
                    groups[other] := p_grp[k];
                    new_groups := new_groups || p_grp[k];
                  END IF;
                  family[p_family[k]] := other;
                END IF;
                u_group[unit] := other;
              END IF;
            ELSIF p_served[k] > u_served[unit] THEN
              u_served[unit] := p_served[k];
            END IF;
            u_to[unit] := lane;
            IF p_ready[k] THEN
              known := known + 1;
              kind := p_type[k];
              t_ready[kind] := t_ready[kind] + 1;
            END IF;
          END IF;
          IF p_line[k] IS NOT NULL THEN
            other := p_line[k];
            line[page_at[other] + p_rank[k]] := lane;
            t_end[need[other]] := greatest(t_end[need[other]], page_at[other] + p_rank[k]);
          END IF;
        END LOOP;
        FOR k IN 1 .. cardinality(need) LOOP
          kind := need[k];
          t_read[kind] := t_read[kind] + t_end[kind] - page_at[k];
          t_whole[kind] := t_end[kind] - page_at[k] < page_counts[k];
        END LOOP;
      END;
      need := '{}';
      IF group_count > 0 AND cardinality(new_groups) > 0 THEN
        SELECT * INTO opened FROM {schema}.walk_meters(by_group, new_groups, now);
        now := opened.at;
        place := cardinality(accounts);
        FOR k IN 1 .. cardinality(opened.meters) LOOP
          meter := opened.meters[k];
          meter.account := meter.account + place;
          meters := meters || meter;
        END LOOP;
        accounts := accounts || opened.accounts;
        FOR r IN all_count + 1 .. rule_count LOOP
          CONTINUE WHEN weighs[r] IS NULL;
          FOR one IN SELECT * FROM {schema}.heavy_heads((rules[r]).name, new_groups, now) LOOP
            heavy_count := heavy_count + 1;
            m := r + (array_position(groups, one.grp) - 1) * group_count;
            h_next[heavy_count] := coalesce(m_heavy[m], 0);
            m_heavy[m] := heavy_count;
            h_lane[heavy_count] := one.lane;
            h_priority[heavy_count] := one.priority;
            h_until[heavy_count] := one.until;
            h_since[heavy_count] := one.since;
          END LOOP;
        END LOOP;
      END IF;
    END IF;

    FOR k IN meter_count + 1 .. cardinality(meters) LOOP
      meter := meters[k];
      account := accounts[meter.account];
      m_closed[k] := 0;
      m_account[k] := meter.account;
      m_used[k] := meter.used;
      m_max[k] := CASE WHEN meter.max IS NULL OR meter.window_ms IS NULL THEN forever WHEN meter.max = 0 THEN -1
        ELSE meter.max END;
      m_slots[k] := coalesce(meter.concurrency, forever);
      m_plain[k] := NOT meter.paused AND meter.every_ms IS NULL AND coalesce(meter.held_until <= now, true)
        AND coalesce(account.pause_until <= now, true) AND coalesce(account.told_until <= now, true)
        AND (meter.probes IS NULL OR account.open_until IS NULL) AND (meter.window_ms IS NULL OR (
          coalesce(meter.blind_until <= now, true) AND coalesce(now - account.forgotten_at >= meter.window_ms, true)));
      a_taken[meter.account] := account.taken;
      a_held[meter.account] := coalesce(account.held, 0);
    END LOOP;
    meter_count := cardinality(meters);

    -- The lane that speaks for the unit whose turn it is: the one that was served the longest ago.
    first := 0;
    IF vain < patience THEN
      FOREACH kind IN ARRAY look LOOP
        CONTINUE WHEN NOT t_open[kind];
        at := t_at[kind];
        WHILE at <= t_end[kind] LOOP
          lane := line[at];
          EXIT WHEN l_ready[lane] AND NOT l_moved[lane];
          at := at + 1;
        END LOOP;
        t_at[kind] := at;
        IF at > t_end[kind] THEN
          IF NOT t_whole[kind] THEN
            need := need || kind;
          ELSIF t_ready[kind] = 0 THEN
            t_open[kind] := false;
          END IF;
        ELSIF first = 0 OR l_priority[lane] > l_priority[first] OR (l_priority[lane] = l_priority[first]
          AND (l_turn[lane] < l_turn[first] OR (l_turn[lane] = l_turn[first] AND l_id[lane] < l_id[first]))) THEN
          first := lane;
        END IF;
      END LOOP;
      CONTINUE walking WHEN cardinality(need) > 0;
      FOR k IN 1 .. level_count LOOP
        at := v_at[k];
        WHILE at <> 0 LOOP
          lane := s_lane[at];
          EXIT WHEN l_ready[lane] AND l_turn[lane] = s_turn[at] AND t_open[l_type[lane]];
          at := s_next[at];
        END LOOP;
        v_at[k] := at;
        IF at <> 0 AND (first = 0 OR l_priority[lane] > l_priority[first] OR (l_priority[lane] = l_priority[first]
          AND (l_turn[lane] < l_turn[first] OR (l_turn[lane] = l_turn[first] AND l_id[lane] < l_id[first])))) THEN
          first := lane;
        END IF;
      END LOOP;
    END IF;

    -- Nothing starts any more: what was taken since a job was refused may keep it back for longer. So the first of each type
    -- that is closed is asked again.
    IF first = 0 THEN
      EXIT walking WHEN vain >= patience;
      closing := closing + 1;
      EXIT walking WHEN closing > cardinality(closed);
      t_open := array_fill(false, ARRAY[type_count]);
      t_open[closed[closing]] := true;
      look := ARRAY[closed[closing]];
      v_at := v_first;
      CONTINUE walking;
    END IF;

    -- Of the lanes of the unit the one whose first job came due first.
    lane := 0;
    unit := l_unit[first];
    FOR own_lane IN u_from[unit] .. u_to[unit] LOOP
      CONTINUE WHEN NOT l_ready[own_lane] OR NOT t_open[l_type[own_lane]];
      IF l_first[own_lane] > l_last[own_lane] AND NOT l_whole[own_lane] THEN
        -- Jobs of this lane are read; where many lanes will give one each, the first of all those.
        kind := l_type[own_lane];
        room := want - started;
        FOR r IN 1 .. all_count LOOP
          IF applies[(kind - 1) * rule_count + r] THEN
            room := least(room, {schema}.free_of(meters[r], accounts[(meters[r]).account], now));
          END IF;
        END LOOP;
        still := ceil(room) + 1;
        share := ceil(still / greatest(1, known)::float8);
        batch := ARRAY[own_lane];
        count := least(page, share + 1);
        IF l_grp[own_lane] = '' THEN
          SELECT array_agg(own_lane), array_agg(h.seq), array_agg(h.due_at), array_agg(h.place), array_agg(h.weights)
            INTO read_lane, read_seq, read_due, read_place, read_weights FROM (
              SELECT j.seq, j.due_at, j.ctid AS place, j.weights FROM {schema}.jobs j
              WHERE j.queue = queue_name AND j.type = types[kind] AND j.priority = l_priority[own_lane]
                AND j.state = 'waiting' AND j.grp IS NULL
                AND (j.due_at, j.seq) > (CASE WHEN l_last[own_lane] = 0 THEN '-Infinity' ELSE j_due[l_last[own_lane]] END,
                  CASE WHEN l_last[own_lane] = 0 THEN 0 ELSE j_seq[l_last[own_lane]] END)
                AND (j.deadline IS NULL OR j.deadline > now) AND j.seq <> ALL (without)
              ORDER BY j.due_at, j.seq LIMIT count FOR UPDATE SKIP LOCKED
            ) h;
        ELSE
          IF NOT l_looked[own_lane] AND share = 1 AND still > 1 THEN
            at := t_at[kind];
            WHILE at <= t_end[kind] AND cardinality(batch) < still LOOP
              FOR sibling IN u_from[l_unit[line[at]]] .. u_to[l_unit[line[at]]] LOOP
                IF l_ready[sibling] AND NOT l_looked[sibling] AND sibling <> own_lane AND l_grp[sibling] <> '' THEN
                  batch := batch || sibling;
                END IF;
              END LOOP;
              at := at + 1;
            END LOOP;
          END IF;
          batch_types := '{}';
          batch_priorities := '{}';
          batch_grps := '{}';
          batch_due := '{}';
          batch_seq := '{}';
          FOREACH other IN ARRAY batch LOOP
            batch_types := batch_types || types[l_type[other]];
            batch_priorities := batch_priorities || l_priority[other];
            batch_grps := batch_grps || substr(l_grp[other], 2);
            IF l_last[other] = 0 THEN
              batch_due := batch_due || '-Infinity'::float8;
              batch_seq := batch_seq || 0::bigint;
            ELSE
              batch_due := batch_due || j_due[l_last[other]];
              batch_seq := batch_seq || j_seq[l_last[other]];
            END IF;
          END LOOP;
          SELECT array_agg(h.lane), array_agg(h.seq), array_agg(h.due_at), array_agg(h.place), array_agg(h.weights)
            INTO read_lane, read_seq, read_due, read_place, read_weights FROM (
              SELECT b.lane, j.seq, j.due_at, j.place, j.weights
              FROM unnest(batch, batch_types, batch_priorities, batch_grps, batch_due, batch_seq) WITH ORDINALITY
                AS b (lane, type, priority, grp, due_at, seq, place)
              CROSS JOIN LATERAL (
                SELECT w.seq, w.due_at, w.ctid AS place, w.weights FROM {schema}.jobs w
                WHERE w.queue = queue_name AND w.type = b.type AND w.priority = b.priority AND w.state = 'waiting'
                  AND w.grp IS NOT NULL AND w.grp = b.grp AND (w.due_at, w.seq) > (b.due_at, b.seq)
                  AND (w.deadline IS NULL OR w.deadline > now) AND w.seq <> ALL (without)
                ORDER BY w.due_at, w.seq LIMIT count FOR UPDATE SKIP LOCKED
              ) j ORDER BY b.place, j.due_at, j.seq
            ) h;
        END IF;
        FOREACH other IN ARRAY batch LOOP
          l_looked[other] := true;
          l_first[other] := job_count + 1;
          l_last[other] := job_count;
        END LOOP;
        IF read_seq IS NOT NULL THEN
          FOR k IN 1 .. cardinality(read_seq) LOOP
            other := read_lane[k];
            IF l_last[other] < l_first[other] THEN
              l_first[other] := job_count + k;
            END IF;
            l_last[other] := job_count + k;
          END LOOP;
          j_seq := j_seq || read_seq;
          j_due := j_due || read_due;
          j_place := j_place || read_place;
          j_weights := j_weights || read_weights;
          job_count := job_count + cardinality(read_seq);
        END IF;
        FOREACH other IN ARRAY batch LOOP
          l_whole[other] := l_last[other] - l_first[other] + 1 < count;
          IF l_last[other] < l_first[other] THEN
            l_ready[other] := false;
            known := known - 1;
            t_ready[l_type[other]] := t_ready[l_type[other]] - 1;
            d_emptied := d_emptied || l_id[other];
          END IF;
        END LOOP;
      END IF;
      CONTINUE WHEN NOT l_ready[own_lane];
      IF lane = 0 OR j_due[l_first[own_lane]] < j_due[head]
        OR (j_due[l_first[own_lane]] = j_due[head] AND j_seq[l_first[own_lane]] < j_seq[head]) THEN
        lane := own_lane;
        head := l_first[own_lane];
      END IF;
    END LOOP;
    CONTINUE walking WHEN lane = 0;

    -- May it start? If not, what is in its way the longest.
    kind := l_type[lane];
    longest := 0;
    keeper := 0;
    never := false;
    FOR r IN 1 .. rule_count LOOP
      CONTINUE WHEN NOT applies[(kind - 1) * rule_count + r];
      m := CASE WHEN r <= all_count THEN r ELSE r + (u_group[unit] - 1) * group_count END;
      weight := 1;
      slots := 1;
      IF weighs[r] IS NOT NULL THEN
        own := coalesce((j_weights[head] ->> weighs[r])::float8, (rules[r]).estimate);
        IF (rules[r]).max IS NOT NULL THEN
          weight := own;
        ELSE
          slots := own;
        END IF;
      END IF;
      c_weight[r] := weight;
      c_slots[r] := slots;
      -- Whatever is not a matter of numbers is not in the way, and the numbers leave room: most questions end here.
      IF m_plain[m] AND m_used[m] + a_taken[m_account[m]] + weight <= m_max[m] AND a_held[m_account[m]] + slots <= m_slots[m] THEN
        own := 0;
      ELSE
        own := {schema}.limit_wait(meters[m], accounts[m_account[m]], weight, slots, now);
      END IF;
      IF own = -1 THEN
        keeper := m;
        by_weight := weight;
        by_slots := slots;
        never := true;
        EXIT;
      END IF;
      IF heavy_count > 0 AND weighs[r] IS NOT NULL THEN
        -- A light one would fit now and then for ever, while a heavy one waits.
        since := CASE WHEN j_seq[head] = l_heavy[lane] AND l_by[lane] = (rules[r]).name THEN coalesce(l_since[lane], 0)
          ELSE forever END;
        at := coalesce(m_heavy[m], 0);
        WHILE at <> 0 LOOP
          IF h_lane[at] <> l_id[lane] AND (h_priority[at] > l_priority[lane] OR (h_priority[at] = l_priority[lane]
            AND (h_since[at] < since OR (h_since[at] = since AND h_lane[at] < l_id[lane])))) THEN
            own := greatest(own, CASE WHEN h_until[at] >= 1e18 THEN forever WHEN h_until[at] > now THEN h_until[at] - now
              ELSE h_until[at] + 100 - now END);
          END IF;
          at := h_next[at];
        END LOOP;
      END IF;
      -- Types are closed as a whole; those of a group are met here.
      IF r > all_count THEN
        own := greatest(own, m_closed[m]);
      END IF;
      IF own > longest THEN
        longest := own;
        keeper := m;
        by_weight := weight;
        by_slots := slots;
      END IF;
    END LOOP;

    IF keeper = 0 AND (closing > 0 OR started >= want) THEN
      IF closing = 0 THEN
        done.more := true;
        EXIT walking;
      END IF;
      -- It could start, but for what closed its type.
      IF best_by IS NULL OR t_closed[kind] < best_wait THEN
        best_wait := t_closed[kind];
        best_by := t_closed_by[kind];
      END IF;
      t_open[kind] := false;
      CONTINUE walking;
    END IF;

    IF keeper = 0 OR never THEN
      -- It leaves its lane: it starts, or can never.
      l_first[lane] := head + 1;
      IF l_first[lane] > l_last[lane] AND l_whole[lane] THEN
        l_ready[lane] := false;
        known := known - 1;
        t_ready[kind] := t_ready[kind] - 1;
        d_emptied := d_emptied || l_id[lane];
      END IF;
      IF never THEN
        vain := vain + 1;
        d_refused := d_refused || j_place[head];
        d_refused_seqs := d_refused_seqs || j_seq[head];
        d_refused_meters := d_refused_meters || keeper;
        d_refused_weights := d_refused_weights || CASE WHEN (meters[keeper]).weighs_window THEN by_weight ELSE by_slots END;
        CONTINUE walking;
      END IF;
      started := started + 1;
      d_places := d_places || j_place[head];
      d_seqs := d_seqs || j_seq[head];
      IF j_seq[head] = l_heavy[lane] AND l_by[lane] IS NOT NULL THEN
        d_freed_names := d_freed_names || l_by[lane];
        d_freed_grps := d_freed_grps || l_grp[lane];
      END IF;
      share := 1;
      FOR r IN 1 .. rule_count LOOP
        CONTINUE WHEN NOT applies[(kind - 1) * rule_count + r];
        m := CASE WHEN r <= all_count THEN r ELSE r + (u_group[unit] - 1) * group_count END;
        meter := meters[m];
        at := meter.account;
        -- As in limits/account_take.sql.
        account := accounts[at];
        own := c_weight[r];
        IF account.latest = started THEN
          own := greatest(0, own - account.charged);
          account.charged := account.charged + own;
        ELSE
          account.latest := started;
          account.charged := own;
          account.starts := account.starts + 1;
        END IF;
        account.taken := account.taken + own;
        account.latest_at := greatest(account.latest_at, now);
        IF account.told_left IS NOT NULL THEN
          account.told_left := greatest(0, account.told_left - own);
        END IF;
        IF meter.holds THEN
          account.held := account.held + c_slots[r];
          account.probes := account.probes + 1;
          account.job_slots := account.job_slots + c_slots[r];
        END IF;
        accounts[at] := account;
        a_taken[at] := account.taken;
        a_held[at] := coalesce(account.held, 0);
        d_use_starts := d_use_starts || started;
        d_use_meters := d_use_meters || m;
        d_use_weights := d_use_weights || c_weight[r];
        d_use_slots := d_use_slots || c_slots[r];
        share := greatest(share, meter.share);
      END LOOP;
      l_gave[lane] := true;
      u_touched[unit] := true;
      u_served[unit] := u_served[unit] + 1;
      CONTINUE walking WHEN shares AND u_served[unit] < share;
      u_served[unit] := 0;
      u_turn[unit] := started;
      FOR own_lane IN u_from[unit] .. u_to[unit] LOOP
        l_turn[own_lane] := later + started;
        l_moved[own_lane] := true;
        CONTINUE WHEN NOT l_ready[own_lane];
        served_count := served_count + 1;
        s_lane[served_count] := own_lane;
        s_turn[served_count] := l_turn[own_lane];
        s_next[served_count] := 0;
        place := array_position(v_priority, l_priority[own_lane]);
        IF place IS NULL THEN
          level_count := level_count + 1;
          v_priority[level_count] := l_priority[own_lane];
          v_first[level_count] := served_count;
          v_at[level_count] := served_count;
        ELSE
          s_next[v_last[place]] := served_count;
          IF v_at[place] = 0 THEN
            v_at[place] := served_count;
          END IF;
        END IF;
        v_last[coalesce(place, level_count)] := served_count;
      END LOOP;
      CONTINUE walking;
    END IF;

    meter := meters[keeper];
    IF meter.by_group AND NOT meter.paused THEN
      vain := vain + 1;
    ELSIF closing > 0 THEN
      IF best_by IS NULL OR longest < best_wait THEN
        best_wait := longest;
        best_by := keeper;
      END IF;
      t_open[kind] := false;
      CONTINUE walking;
    END IF;
    -- The lane is blocked where only its group is in the way; and one that is too heavy is remembered, so that others who claim
    -- do not take what it waits for. Might a lighter one start before it? Who waits for something to be given back may wait
    -- for more than others do.
    IF (meter.by_group AND NOT meter.paused) OR (meter.weight IS NOT NULL AND NOT meter.paused AND (
      {schema}.limit_wait(meter, accounts[meter.account], 1, 1, now) <> longest
      OR (longest = forever AND greatest(by_weight, by_slots) > 1))) THEN
      l_ready[lane] := false;
      known := known - 1;
      t_ready[kind] := t_ready[kind] - 1;
      d_blocked := d_blocked || l_id[lane];
      d_blocked_waits := d_blocked_waits || longest;
      d_blocked_names := d_blocked_names || meter.name;
      -- Those who only wait behind a heavy one are not too heavy themselves.
      d_blocked_heavy := d_blocked_heavy || CASE WHEN meter.weight IS NOT NULL
        AND {schema}.limit_wait(meter, accounts[meter.account], by_weight, by_slots, now) > 0 THEN j_seq[head] END;
      m_closed[keeper] := longest;
      IF t_blocked[kind] IS NULL THEN
        blocked := blocked || kind;
      END IF;
      IF t_blocked[kind] IS NULL OR longest < t_blocked[kind] THEN
        t_blocked[kind] := longest;
        t_blocked_by[kind] := keeper;
      END IF;
    END IF;
    CONTINUE walking WHEN meter.by_group AND NOT meter.paused;
    rule := rules[CASE WHEN keeper <= all_count THEN keeper ELSE all_count + 1 + (keeper - all_count - 1) % group_count END];
    FOR k IN 1 .. type_count LOOP
      IF t_open[k] AND (rule.types IS NULL OR types[k] = ANY (rule.types)) THEN
        t_open[k] := false;
        t_closed[k] := longest;
        t_closed_by[k] := keeper;
        closed := closed || k;
      END IF;
    END LOOP;
  END LOOP walking;

  done.more := coalesce(done.more, vain >= patience);
  IF done.more AND vain < patience THEN
    -- Somebody could start at once: the first of all that keep others back is told as it was.
    FOREACH kind IN ARRAY closed LOOP
      IF best_by IS NULL OR t_closed[kind] < best_wait THEN
        best_wait := t_closed[kind];
        best_by := t_closed_by[kind];
      END IF;
    END LOOP;
  END IF;
  FOREACH kind IN ARRAY blocked LOOP
    own := t_blocked[kind];
    m := t_blocked_by[kind];
    IF NOT (done.more AND vain < patience) THEN
      FOR r IN 1 .. all_count LOOP
        CONTINUE WHEN NOT applies[(kind - 1) * rule_count + r];
        since := {schema}.limit_wait(meters[r], accounts[(meters[r]).account], 1, 1, now);
        IF since > own THEN
          own := since;
          m := r;
        END IF;
      END LOOP;
    END IF;
    IF best_by IS NULL OR own < best_wait THEN
      best_wait := own;
      best_by := m;
    END IF;
  END LOOP;
  done.at := now;
  done.next_in := best_wait;
  IF best_by IS NOT NULL THEN
    meter := meters[best_by];
    done.blocked_by := meter.name || CASE WHEN meter.by_group AND meter.grp IS NOT NULL THEN '[' || meter.grp || ']' ELSE '' END;
  END IF;
  done.meters := meters;
  done.accounts := accounts;
  FOR k IN 1 .. unit_count LOOP
    CONTINUE WHEN NOT u_touched[k];
    FOR own_lane IN u_from[k] .. u_to[k] LOOP
      d_lanes := d_lanes || l_id[own_lane];
      d_turns := d_turns || u_turn[k];
      d_served := d_served || u_served[k];
      d_gave := d_gave || l_gave[own_lane];
    END LOOP;
  END LOOP;
  done.places := d_places;
  done.seqs := d_seqs;
  done.use_starts := d_use_starts;
  done.use_meters := d_use_meters;
  done.use_weights := d_use_weights;
  done.use_slots := d_use_slots;
  done.lanes := d_lanes;
  done.turns := d_turns;
  done.served := d_served;
  done.gave := d_gave;
  done.emptied := d_emptied;
  done.blocked := d_blocked;
  done.blocked_waits := d_blocked_waits;
  done.blocked_names := d_blocked_names;
  done.blocked_heavy := d_blocked_heavy;
  done.refused := d_refused;
  done.refused_seqs := d_refused_seqs;
  done.refused_meters := d_refused_meters;
  done.refused_weights := d_refused_weights;
  done.freed_names := d_freed_names;
  done.freed_grps := d_freed_grps;
  RETURN done;
END
$$;
