-- Grants what a plan proposes, in its order, each start as far as it fits all of its limits. Only what is stored decides: the numbers
-- that the plan was made from are not looked at. The locks of all limits in `all_rules` are held. Jobs are locked, where no
-- other transaction has them, and so are the lanes that change; nothing is written.
--
-- Where something is otherwise than the plan says, nothing more is granted in that lane, nor under a limit that refused: what is
-- behind does not pass; and where a lane or a job came that precedes the rest, nothing behind it. `again` of the answer tells.
--
-- queue_name: of which queue. asked: the types that have turns together; NULL: all. types: which may start. paused: as `pauses` says it,
-- or NULL. plan: what is proposed. all_rules: what its types run under. want, bytes: how many may start, with how much data, but one in
-- any case. ttl: how soon they are called; NULL: at once. now_at: now.
CREATE OR REPLACE FUNCTION {schema}.grant_planned(
  queue_name text, asked text[], types text[], paused text[], plan {schema}.claim_plan, all_rules {schema}.limit_rule[], want integer,
  bytes float8, ttl float8, now_at float8
) RETURNS {schema}.planned_grants
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  forever CONSTANT float8 := 'Infinity';
  now float8 := now_at;
  done {schema}.planned_grants;
  started integer := 0;
  started_bytes float8 := 0;
  again boolean := false;
  -- Rules: those for all, then those by group. Does one apply to a type (rules of the first type, of the second, ...)?
  rules {schema}.limit_rule[] := '{}'; by_group {schema}.limit_rule[] := '{}';
  all_count integer; rule_count integer; group_count integer;
  applies boolean[];
  r_weight text[]; r_estimate float8[]; r_window boolean[];
  -- Lanes of the plan: as they are stored; NULL where one is not ready any more. Is nothing more granted in it?
  l_id bigint[]; l_type integer[]; l_priority float8[]; l_grp text[]; l_turn bigint[]; l_heavy bigint[]; l_by text[]; l_since float8[];
  l_group integer[]; l_stuck boolean[]; l_gave boolean[];
  r_id bigint[]; r_type integer[]; r_priority float8[]; r_grp text[]; r_turn bigint[]; r_heavy bigint[]; r_by text[]; r_since float8[];
  -- Their jobs, with what is stored of the lane of each (r_), those of a lane side by side: from where to where.
  l_at integer[]; l_end integer[];
  j_lane integer[]; j_due float8[]; j_seq bigint[]; j_place tid[]; j_weights jsonb[]; j_bytes integer[];
  -- Lanes of one priority and group have their turns together: how many were started since the last turn was over, and with which
  -- start that was (0: with none of these).
  u_served integer[] := '{}'; u_turn integer[] := '{}';
  -- Keys: of each rule for all, then, group by group, of each rule by group. What was taken of their states: in all, and by the latest
  -- start. Has a head been refused?
  groups text[] := '{}';
  keys {schema}.claim_keys;
  s_weight float8[]; s_slots float8[]; s_starts integer[]; s_latest integer[]; s_charged float8[]; s_use integer[];
  k_closed float8[]; k_shut boolean[];
  -- What starts take: which of them, of which state, how much.
  d_jobs tid[] := '{}'; d_starts integer[] := '{}'; d_states integer[] := '{}'; d_weights float8[] := '{}';
  h_starts integer[] := '{}'; h_states integer[] := '{}'; h_slots float8[] := '{}';
  -- Heavy heads that wait, those for one key a chain.
  heavy record; heavy_count integer := 0; k_heavy integer[];
  h_next integer[]; h_lane bigint[]; h_priority float8[]; h_until float8[]; h_since float8[];
  -- What is at hand.
  lane integer; kind integer; head integer; at integer; k integer; s integer; own float8; since float8; weight float8; slots float8;
  rule {schema}.limit_rule;
  c_key integer[]; c_weight float8[]; c_slots float8[];
  locked bigint[]; unknown record;
  keeper integer; longest float8; kept_weight float8; kept_slots float8; never boolean;
BEGIN
  FOREACH rule IN ARRAY all_rules LOOP
    IF rule.by_group THEN
      by_group := by_group || rule;
    ELSE
      rules := rules || rule;
    END IF;
  END LOOP;
  all_count := cardinality(rules);
  group_count := cardinality(by_group);
  rules := rules || by_group;
  rule_count := all_count + group_count;
  FOR r IN 1 .. rule_count LOOP
    r_weight[r] := (rules[r]).weight;
    r_estimate[r] := (rules[r]).estimate;
    r_window[r] := (rules[r]).max IS NOT NULL;
  END LOOP;
  FOR t IN 1 .. cardinality(plan.types) LOOP
    FOR r IN 1 .. rule_count LOOP
      applies[(t - 1) * rule_count + r] := (rules[r]).types IS NULL OR plan.types[t] = ANY ((rules[r]).types);
    END LOOP;
  END LOOP;

  -- The lanes, and as many jobs of each as the plan is about. Those of one lane stand side by side, in their order.
  SELECT coalesce(array_agg(f.place), '{}'), array_agg(f.id), array_agg(array_position(plan.types, f.type)), array_agg(f.priority),
      array_agg(f.grp), array_agg(f.turn), array_agg(f.heavy), array_agg(f.blocked_by), array_agg(f.heavy_since), array_agg(f.due_at), array_agg(f.seq), array_agg(f.job),
      array_agg(f.weights), array_agg(f.bytes)
    INTO j_lane, r_id, r_type, r_priority, r_grp, r_turn, r_heavy, r_by, r_since, j_due, j_seq, j_place, j_weights, j_bytes
    FROM (
      SELECT p.place, l.id, l.type, l.priority, l.grp, l.turn, l.heavy, l.blocked_by, l.heavy_since, j.*
      FROM unnest(plan.lanes, plan.counts) WITH ORDINALITY AS p (id, n, place)
        -- By its id, whatever the planner thinks of indexes whose lanes it has not counted yet.
        LEFT JOIN LATERAL (SELECT a.* FROM {schema}.lanes a WHERE a.id = p.id OFFSET 0) l
          ON l.ready AND l.blocked_until IS NULL AND l.queue = queue_name
          AND l.type = ANY (plan.types) AND (paused IS NULL OR ':' || l.type <> ALL (paused))
        LEFT JOIN LATERAL (
          SELECT o.* FROM (SELECT k.seq, k.due_at, k.ctid AS job, k.weights, octet_length(k.data) AS bytes FROM {schema}.jobs k
            WHERE k.queue = queue_name AND k.type = l.type AND k.priority = l.priority AND k.state = 'waiting' AND k.grp IS NULL
              AND (k.deadline IS NULL OR k.deadline > now)
            ORDER BY k.due_at, k.seq LIMIT p.n FOR UPDATE SKIP LOCKED) o WHERE l.grp = ''
          UNION ALL
          SELECT o.* FROM (SELECT k.seq, k.due_at, k.ctid, k.weights, octet_length(k.data) FROM {schema}.jobs k
            WHERE k.queue = queue_name AND k.type = l.type AND k.priority = l.priority AND k.state = 'waiting' AND k.grp IS NOT NULL
              AND k.grp = substr(l.grp, 2) AND (k.deadline IS NULL OR k.deadline > now)
            ORDER BY k.due_at, k.seq LIMIT p.n FOR UPDATE SKIP LOCKED) o WHERE l.grp <> ''
        ) j ON true
    ) f;
  l_at := array_fill(1, ARRAY[cardinality(plan.lanes)]);
  l_end := array_fill(0, ARRAY[cardinality(plan.lanes)]);
  u_served := array_fill(0, ARRAY[cardinality(plan.lanes)]);
  u_turn := u_served;
  FOR k IN 1 .. cardinality(j_lane) LOOP
    lane := j_lane[k];
    IF l_end[lane] = 0 THEN
      l_id[lane] := r_id[k];
      l_type[lane] := r_type[k];
      l_priority[lane] := r_priority[k];
      l_grp[lane] := r_grp[k];
      l_turn[lane] := r_turn[k];
      l_heavy[lane] := r_heavy[k];
      l_by[lane] := r_by[k];
      l_since[lane] := r_since[k];
      l_stuck[lane] := r_id[k] IS NULL;
      l_gave[lane] := false;
      again := again OR l_stuck[lane];
      l_at[lane] := k;
    END IF;
    l_end[lane] := CASE WHEN j_seq[k] IS NULL THEN k - 1 ELSE k END;
  END LOOP;
  IF group_count > 0 THEN
    groups := ARRAY(SELECT DISTINCT g FROM unnest(l_grp) AS g WHERE g IS NOT NULL);
    FOR i IN 1 .. cardinality(plan.lanes) LOOP
      l_group[i] := array_position(groups, l_grp[i]);
    END LOOP;
  END IF;
  -- The first ready lane that the plan did not know of. Of each type so many of the first lanes are looked at as the plan has; of a type
  -- that it did not know, one.
  SELECT f.id, f.priority, f.turn INTO unknown
    FROM unnest(types) AS t (type) LEFT JOIN unnest(plan.seen_types, plan.seen_counts) AS s (type, count) ON s.type = t.type
      CROSS JOIN LATERAL (
        SELECT l.id, l.priority, l.turn FROM {schema}.lanes l
        WHERE plan.known IS NOT NULL AND l.queue = queue_name AND l.type = t.type AND l.ready AND l.blocked_until IS NULL
        ORDER BY l.priority DESC, l.turn, l.id LIMIT coalesce(s.count, 1)) f
    WHERE f.id <> ALL (plan.known)
    ORDER BY f.priority DESC, f.turn, f.id LIMIT 1;
  keys := {schema}.open_keys(rules, all_count, groups, want, ttl, now);
  now := keys.at;
  IF cardinality(keys.ids) > 0 THEN
    s_weight := array_fill(0::float8, ARRAY[cardinality(keys.ids)]);
    s_slots := s_weight;
    s_charged := s_weight;
    k_closed := s_weight;
    s_starts := array_fill(0, ARRAY[cardinality(keys.ids)]);
    s_latest := s_starts;
    s_use := s_starts;
    k_shut := array_fill(false, ARRAY[cardinality(keys.ids)]);
  END IF;
  FOR r IN 1 .. rule_count LOOP
    CONTINUE WHEN r_weight[r] IS NULL;
    FOR heavy IN SELECT * FROM {schema}.heavy_heads((rules[r]).name, CASE WHEN r > all_count THEN groups END, now) LOOP
      heavy_count := heavy_count + 1;
      k := CASE WHEN r <= all_count THEN r ELSE r + (array_position(groups, heavy.grp) - 1) * group_count END;
      h_next[heavy_count] := coalesce(k_heavy[k], 0);
      k_heavy[k] := heavy_count;
      h_lane[heavy_count] := heavy.lane;
      h_priority[heavy_count] := heavy.priority;
      h_until[heavy_count] := heavy.until;
      h_since[heavy_count] := heavy.since;
    END LOOP;
  END LOOP;

  done.emptied := '{}';
  done.blocked := '{}'; done.blocked_waits := '{}'; done.blocked_names := '{}'; done.blocked_heavy := '{}';
  done.refused := '{}'; done.refused_names := '{}'; done.refused_most := '{}'; done.refused_weights := '{}';
  done.freed_names := '{}'; done.freed_grps := '{}';
  FOR i IN 1 .. cardinality(plan.places) LOOP
    lane := plan.places[i];
    kind := plan.kinds[i];
    CONTINUE WHEN l_stuck[lane];
    head := l_at[lane];
    IF head > l_end[lane] THEN
      -- The jobs are gone, or other transactions have them.
      done.emptied := done.emptied || l_id[lane];
      l_stuck[lane] := true;
      again := true;
      CONTINUE;
    END IF;
    IF unknown.id IS NOT NULL AND (l_priority[lane] < unknown.priority OR (l_priority[lane] = unknown.priority
      AND (u_turn[plan.units[lane]] > 0 OR (l_turn[lane], l_id[lane]) > (unknown.turn, unknown.id)))) THEN
      -- A lane that the plan did not know of has its turn before this one.
      l_stuck[lane] := true;
      again := true;
      CONTINUE;
    END IF;
    IF (j_due[head], j_seq[head]) < (plan.dues[i], plan.seqs[i]) THEN
      -- A job has come that precedes the rest of the plan: nothing behind it is granted.
      l_stuck := array_fill(true, ARRAY[cardinality(plan.lanes)]);
      again := true;
      EXIT;
    END IF;

    -- What is in its way the longest? All its limits are asked, as in planner/claim-limits.ts.
    longest := 0;
    keeper := 0;
    never := false;
    FOR r IN 1 .. rule_count LOOP
      CONTINUE WHEN NOT applies[(l_type[lane] - 1) * rule_count + r];
      k := CASE WHEN r <= all_count THEN r ELSE r + (l_group[lane] - 1) * group_count END;
      s := keys.states[k];
      weight := 1;
      slots := 1;
      IF r_weight[r] IS NOT NULL THEN
        own := coalesce((j_weights[head] ->> r_weight[r])::float8, r_estimate[r]);
        IF r_window[r] THEN
          weight := own;
        ELSE
          slots := own;
        END IF;
      END IF;
      c_key[r] := k;
      c_weight[r] := weight;
      c_slots[r] := slots;
      IF NOT keys.closed[k] AND s_weight[s] + weight <= keys.weights[k] AND s_slots[s] + slots <= keys.slots[k]
        AND s_starts[s] < keys.starts[k] AND (weight <= keys.maxima[k]) IS NOT FALSE AND (slots <= keys.concurrency[k]) IS NOT FALSE THEN
        own := 0;
      ELSE
        own := {schema}.refusal_wait(rules[r], CASE WHEN r > all_count THEN l_grp[lane] END, weight, slots, s_weight[s], s_slots[s],
          s_starts[s], ttl, now);
        never := own = -1;
      END IF;
      IF heavy_count > 0 AND r_weight[r] IS NOT NULL AND NOT never THEN
        -- A light one would fit now and then for ever, while a heavy one waits.
        since := CASE WHEN j_seq[head] = l_heavy[lane] AND l_by[lane] = keys.names[k] THEN coalesce(l_since[lane], 0) ELSE forever END;
        at := coalesce(k_heavy[k], 0);
        WHILE at <> 0 LOOP
          IF h_lane[at] <> l_id[lane] AND (h_priority[at] > l_priority[lane] OR (h_priority[at] = l_priority[lane]
            AND (h_since[at] < since OR (h_since[at] = since AND h_lane[at] < l_id[lane])))) THEN
            own := greatest(own, CASE WHEN h_until[at] >= 1e18 THEN forever WHEN h_until[at] > now THEN h_until[at] - now
              ELSE h_until[at] + 100 - now END);
          END IF;
          at := h_next[at];
        END LOOP;
      END IF;
      IF r > all_count THEN
        own := greatest(own, k_closed[k]);
      END IF;
      IF own > longest OR never OR (k_shut[k] AND keeper = 0 AND kind = 1) THEN
        longest := own;
        keeper := k;
        kept_weight := weight;
        kept_slots := slots;
      END IF;
      EXIT WHEN never;
    END LOOP;

    IF kind = 1 AND keeper = 0 THEN
      EXIT WHEN started >= want OR (started > 0 AND started_bytes + j_bytes[head] > bytes);
      started := started + 1;
      started_bytes := started_bytes + j_bytes[head];
      d_jobs := d_jobs || j_place[head];
      IF j_seq[head] = l_heavy[lane] AND l_by[lane] IS NOT NULL THEN
        done.freed_names := done.freed_names || l_by[lane];
        done.freed_grps := done.freed_grps || l_grp[lane];
      END IF;
      FOR r IN 1 .. rule_count LOOP
        CONTINUE WHEN NOT applies[(l_type[lane] - 1) * rule_count + r];
        k := c_key[r];
        s := keys.states[k];
        weight := c_weight[r];
        IF s_latest[s] <> started THEN
          s_latest[s] := started;
          s_starts[s] := s_starts[s] + 1;
          s_charged[s] := weight;
          s_weight[s] := s_weight[s] + weight;
          d_starts := d_starts || started;
          d_states := d_states || s;
          d_weights := d_weights || weight;
          s_use[s] := cardinality(d_starts);
        ELSIF weight > s_charged[s] THEN
          -- Of rules that share a state the start counts once, for the most that any of them says.
          s_weight[s] := s_weight[s] + weight - s_charged[s];
          s_charged[s] := weight;
          d_weights[s_use[s]] := weight;
        END IF;
        IF keys.holds[k] OR keys.pins[k] THEN
          IF keys.holds[k] THEN
            s_slots[s] := s_slots[s] + c_slots[r];
          END IF;
          h_starts := h_starts || started;
          h_states := h_states || s;
          h_slots := h_slots || CASE WHEN keys.holds[k] THEN c_slots[r] ELSE 0 END;
        END IF;
      END LOOP;
      l_gave[lane] := true;
      l_at[lane] := head + 1;
      u_served[plan.units[lane]] := u_served[plan.units[lane]] + 1;
      IF coalesce(plan.passes[i], true) THEN
        u_served[plan.units[lane]] := 0;
        u_turn[plan.units[lane]] := started;
      END IF;
    ELSIF kind = 2 AND never THEN
      l_at[lane] := head + 1;
      done.refused := done.refused || j_place[head];
      done.refused_names := done.refused_names || keys.names[keeper];
      done.refused_most := done.refused_most || coalesce(keys.maxima[keeper], keys.concurrency[keeper]);
      done.refused_weights := done.refused_weights || CASE WHEN r_window[keys.rules[keeper]] THEN kept_weight ELSE kept_slots END;
    ELSIF kind <> 2 AND keeper > 0 AND longest > 0 AND NOT never THEN
      rule := rules[keys.rules[keeper]];
      s := keys.states[keeper];
      l_stuck[lane] := true;
      IF kind = 1 THEN
        -- Refused though it was proposed: others have started meanwhile. What is behind it does not pass.
        again := true;
        k_shut[keeper] := true;
      END IF;
      CONTINUE WHEN rule.paused OR NOT (rule.by_group OR rule.weight IS NOT NULL);
      done.blocked := done.blocked || l_id[lane];
      done.blocked_waits := done.blocked_waits || longest;
      done.blocked_names := done.blocked_names || rule.name;
      -- Those who only wait behind a heavy one are not too heavy themselves.
      done.blocked_heavy := done.blocked_heavy || CASE WHEN rule.weight IS NOT NULL AND {schema}.refusal_wait(rule,
        CASE WHEN rule.by_group THEN l_grp[lane] END, kept_weight, kept_slots, s_weight[s], s_slots[s], s_starts[s], ttl, now) > 0
        THEN j_seq[head] END;
      k_closed[keeper] := longest;
    ELSE
      l_stuck[lane] := true;
      again := true;
      IF keeper > 0 THEN
        k_shut[keeper] := true;
      END IF;
    END IF;
  END LOOP;

  done.at := now;
  done.again := again;
  done.missed := false;
  done.jobs := d_jobs;
  done.keys := keys;
  done.starts := s_starts;
  done.weights := s_weight;
  done.slots := s_slots;
  done.use_starts := d_starts;
  done.use_states := d_states;
  done.use_weights := d_weights;
  done.hold_starts := h_starts;
  done.hold_states := h_states;
  done.hold_slots := h_slots;
  done.emptied := done.emptied || ARRAY(SELECT e FROM unnest(plan.emptied) AS e
    WHERE coalesce(NOT l_stuck[array_position(plan.lanes, e)], true));
  -- Only under the lock of its row a lane gets a turn, is set not ready or blocked, each in a later statement: one that another claim
  -- has locked is left to that. All lanes of a priority and group have had their turn, of the types that were asked for.
  SELECT coalesce(array_agg(f.id), '{}'), coalesce(array_agg(f.turn), '{}'), coalesce(array_agg(f.served), '{}'),
      coalesce(array_agg(f.gave), '{}')
    INTO done.lanes, done.turns, done.served, done.gave FROM (
      SELECT k.id, u_turn[u.unit] AS turn, k.id = ANY (u.gave) AS gave,
        CASE WHEN u_turn[u.unit] > 0 THEN 0 ELSE max(k.served) OVER (PARTITION BY u.unit) END + u_served[u.unit] AS served
      FROM (
        SELECT l.unit, l.priority, l.grp, array_agg(l.id) AS gave
        FROM unnest(l_id, plan.units, l_priority, l_grp, l_gave) AS l (id, unit, priority, grp, gave) WHERE l.gave GROUP BY 1, 2, 3
      ) u CROSS JOIN LATERAL (SELECT a.id, a.served FROM {schema}.lanes a
        WHERE a.queue = queue_name AND a.priority = u.priority AND a.grp = u.grp AND (asked IS NULL OR a.type = ANY (asked))
        FOR UPDATE SKIP LOCKED) k
    ) f;
  IF NOT (done.emptied || done.blocked) <@ done.lanes THEN
    locked := ARRAY(SELECT l.id FROM {schema}.lanes l WHERE l.id = ANY (done.emptied || done.blocked) FOR UPDATE SKIP LOCKED);
    IF NOT (done.emptied || done.blocked) <@ locked THEN
      done.missed := true;
      done.emptied := ARRAY(SELECT e FROM unnest(done.emptied) AS e WHERE e = ANY (locked));
      SELECT coalesce(array_agg(b.id), '{}'), coalesce(array_agg(b.wait), '{}'), coalesce(array_agg(b.name), '{}'),
          coalesce(array_agg(b.heavy), '{}')
        INTO done.blocked, done.blocked_waits, done.blocked_names, done.blocked_heavy
        FROM unnest(done.blocked, done.blocked_waits, done.blocked_names, done.blocked_heavy) AS b (id, wait, name, heavy)
        WHERE b.id = ANY (locked);
    END IF;
  END IF;
  RETURN done;
END
$$;
