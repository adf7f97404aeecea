-- Grants what a plan proposes, in its order, each start as far as it fits all of its limits. Only what is stored decides: the numbers
-- that the plan was made from are not looked at. The locks of all limits in `all_rules` are held. Jobs are taken hold of, where
-- no other transaction has them; nothing is written.
--
-- Where something is otherwise than the plan says, nothing more is granted in that lane, nor under a limit that refused: what is
-- behind does not pass; and where a job came that precedes the rest, nothing more at all. `more` of the answer tells.
--
-- queue_name: of which queue. asked: the types that have turns together; NULL: all. paused: as `pauses` says it, or NULL. plan: what is proposed. all_rules: what its types run under. want,
-- bytes: how many may start, with how much data, but one in any case. ttl: how soon they are called; NULL: at once. now_at: now.
CREATE OR REPLACE FUNCTION {schema}.grant_planned(
  queue_name text, asked text[], paused text[], plan {schema}.claim_plan, all_rules {schema}.limit_rule[], want integer, bytes float8, ttl float8,
  now_at float8
) RETURNS {schema}.walked
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  forever CONSTANT float8 := 'Infinity';
  now float8 := now_at;
  done {schema}.walked;
  started integer := 0;
  started_bytes float8 := 0;
  again boolean := false;
  -- Rules: those for all, then those by group. Does one apply to a type (rules of the first type, of the second, ...)?
  rules {schema}.limit_rule[] := '{}'; by_group {schema}.limit_rule[] := '{}';
  all_count integer; rule_count integer; group_count integer;
  applies boolean[];
  -- Lanes of the plan: as they are stored; NULL where one is not ready any more. Is nothing more granted in it?
  l_id bigint[]; l_type integer[]; l_priority float8[]; l_grp text[]; l_heavy bigint[]; l_by text[]; l_since float8[];
  l_group integer[]; l_stuck boolean[]; l_gave boolean[];
  -- Their jobs, those of a lane side by side: from where to where.
  l_at integer[]; l_end integer[];
  j_lane integer[]; j_due float8[]; j_seq bigint[]; j_place tid[]; j_weights jsonb[]; j_bytes integer[];
  -- Lanes of one priority and group have their turns together: how many were started since the last turn was over, and with which
  -- start that was (0: with none of these).
  l_unit integer[]; u_served integer[] := '{}'; u_turn integer[] := '{}';
  -- Limits: of each rule for all, then, group by group, of each rule by group. Where only numbers matter (m_plain): how much fits.
  groups text[]; opened record;
  meters {schema}.limit_meter[] := '{}'; accounts {schema}.limit_account[] := '{}';
  m_closed float8[]; m_shut boolean[];
  m_plain boolean[]; m_max float8[]; m_slots float8[];
  -- Heavy heads that wait, those for one limit a chain.
  heavy record; heavy_count integer := 0; m_heavy integer[];
  h_next integer[]; h_lane bigint[]; h_priority float8[]; h_until float8[]; h_since float8[];
  -- What is at hand.
  lane integer; kind integer; head integer; at integer; m integer; own float8; since float8; weight float8; slots float8;
  meter {schema}.limit_meter; account {schema}.limit_account; rule {schema}.limit_rule;
  c_meter integer[]; c_weight float8[]; c_slots float8[];
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
  FOR t IN 1 .. cardinality(plan.types) LOOP
    FOR r IN 1 .. rule_count LOOP
      applies[(t - 1) * rule_count + r] := (rules[r]).types IS NULL OR plan.types[t] = ANY ((rules[r]).types);
    END LOOP;
  END LOOP;

  -- The lanes, and as many jobs of each as the plan is about.
  SELECT array_agg(l.id ORDER BY l.place), array_agg(array_position(plan.types, l.type) ORDER BY l.place),
      array_agg(l.priority ORDER BY l.place), array_agg(l.grp ORDER BY l.place), array_agg(l.heavy ORDER BY l.place),
      array_agg(l.blocked_by ORDER BY l.place), array_agg(l.heavy_since ORDER BY l.place), array_agg(l.unit ORDER BY l.place)
    INTO l_id, l_type, l_priority, l_grp, l_heavy, l_by, l_since, l_unit
    FROM (
      SELECT p.place, k.*, dense_rank() OVER (ORDER BY k.priority, k.grp)::integer AS unit
      FROM unnest(plan.lanes) WITH ORDINALITY AS p (id, place) LEFT JOIN LATERAL (
        SELECT k.* FROM {schema}.lanes k WHERE k.id = p.id AND k.ready AND k.blocked_until IS NULL AND k.queue = queue_name
          AND k.type = ANY (plan.types) AND (paused IS NULL OR ':' || k.type <> ALL (paused)) LIMIT 1) k ON true
    ) l;
  groups := ARRAY(SELECT DISTINCT g FROM unnest(l_grp) AS g WHERE g IS NOT NULL);
  l_at := array_fill(1, ARRAY[cardinality(plan.lanes)]);
  l_end := array_fill(0, ARRAY[cardinality(plan.lanes)]);
  u_served := array_fill(0, ARRAY[cardinality(plan.lanes)]);
  u_turn := u_served;
  FOR i IN 1 .. cardinality(plan.lanes) LOOP
    l_group[i] := array_position(groups, l_grp[i]);
    l_stuck[i] := l_id[i] IS NULL;
    l_gave[i] := false;
    again := again OR l_stuck[i];
  END LOOP;
  WITH wanted AS MATERIALIZED (
    SELECT u.lane, count(*) AS n FROM unnest(plan.places) AS u (lane) WHERE l_id[u.lane] IS NOT NULL GROUP BY u.lane
  ), open AS (
    SELECT w.lane, j.* FROM wanted w CROSS JOIN LATERAL (
      SELECT k.seq, k.due_at, k.ctid AS place, k.weights, octet_length(k.data) AS bytes FROM {schema}.jobs k
      WHERE k.queue = queue_name AND k.type = plan.types[l_type[w.lane]] AND k.priority = l_priority[w.lane]
        AND k.state = 'waiting' AND k.grp IS NULL AND (k.deadline IS NULL OR k.deadline > now)
      ORDER BY k.due_at, k.seq LIMIT w.n FOR UPDATE SKIP LOCKED) j
    WHERE l_grp[w.lane] = ''
  ), grouped AS (
    SELECT w.lane, j.* FROM wanted w CROSS JOIN LATERAL (
      SELECT k.seq, k.due_at, k.ctid AS place, k.weights, octet_length(k.data) AS bytes FROM {schema}.jobs k
      WHERE k.queue = queue_name AND k.type = plan.types[l_type[w.lane]] AND k.priority = l_priority[w.lane]
        AND k.state = 'waiting' AND k.grp IS NOT NULL AND k.grp = substr(l_grp[w.lane], 2)
        AND (k.deadline IS NULL OR k.deadline > now)
      ORDER BY k.due_at, k.seq LIMIT w.n FOR UPDATE SKIP LOCKED) j
    WHERE l_grp[w.lane] <> ''
  )
  SELECT coalesce(array_agg(f.lane), '{}'), array_agg(f.due_at), array_agg(f.seq), array_agg(f.place), array_agg(f.weights),
      array_agg(f.bytes)
    INTO j_lane, j_due, j_seq, j_place, j_weights, j_bytes
    FROM (SELECT * FROM open UNION ALL SELECT * FROM grouped ORDER BY lane, due_at, seq) f;
  FOR k IN 1 .. cardinality(j_lane) LOOP
    lane := j_lane[k];
    IF l_end[lane] = 0 THEN
      l_at[lane] := k;
    END IF;
    l_end[lane] := k;
  END LOOP;

  -- The limits, each read once, after their locks were taken; and who waits for one that weighs.
  FOR part IN 1 .. 2 LOOP
    IF part = 1 THEN
      CONTINUE WHEN all_count = 0;
      SELECT * INTO opened FROM {schema}.meters_for_all(rules[1 : all_count], now);
    ELSE
      CONTINUE WHEN group_count = 0 OR groups = '{}';
      SELECT * INTO opened FROM {schema}.walk_meters(by_group, groups, now);
    END IF;
    now := opened.at;
    at := cardinality(accounts);
    accounts := accounts || opened.accounts;
    FOREACH meter IN ARRAY opened.meters LOOP
      meter.account := meter.account + at;
      meters := meters || meter;
      m := cardinality(meters);
      accounts[meter.account].grant_ttl := coalesce(ttl, (accounts[meter.account]).grant_ttl);
      account := accounts[meter.account];
      m_closed[m] := 0;
      m_shut[m] := false;
      m_max[m] := CASE WHEN meter.max IS NULL OR meter.window_ms IS NULL THEN forever WHEN meter.max = 0 THEN -1 ELSE meter.max END;
      m_slots[m] := coalesce(meter.concurrency, forever);
      m_plain[m] := NOT meter.paused AND meter.every_ms IS NULL AND coalesce(meter.held_until <= now, true)
        AND coalesce(account.pause_until <= now, true) AND coalesce(account.told_until <= now, true)
        AND (meter.probes IS NULL OR account.open_until IS NULL) AND (meter.window_ms IS NULL OR (
          coalesce(meter.blind_until <= now, true) AND coalesce(now - account.forgotten_at >= meter.window_ms, true)));
    END LOOP;
  END LOOP;
  FOR r IN 1 .. rule_count LOOP
    CONTINUE WHEN (rules[r]).weight IS NULL;
    FOR heavy IN SELECT * FROM {schema}.heavy_heads((rules[r]).name, CASE WHEN r > all_count THEN groups END, now) LOOP
      heavy_count := heavy_count + 1;
      m := CASE WHEN r <= all_count THEN r ELSE r + (array_position(groups, heavy.grp) - 1) * group_count END;
      h_next[heavy_count] := coalesce(m_heavy[m], 0);
      m_heavy[m] := heavy_count;
      h_lane[heavy_count] := heavy.lane;
      h_priority[heavy_count] := heavy.priority;
      h_until[heavy_count] := heavy.until;
      h_since[heavy_count] := heavy.since;
    END LOOP;
  END LOOP;

  done.places := '{}'; done.seqs := '{}'; done.emptied := '{}';
  done.use_starts := '{}'; done.use_meters := '{}'; done.use_weights := '{}'; done.use_slots := '{}';
  done.blocked := '{}'; done.blocked_waits := '{}'; done.blocked_names := '{}'; done.blocked_heavy := '{}';
  done.refused := '{}'; done.refused_seqs := '{}'; done.refused_meters := '{}'; done.refused_weights := '{}';
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
      m := CASE WHEN r <= all_count THEN r ELSE r + (l_group[lane] - 1) * group_count END;
      meter := meters[m];
      account := accounts[meter.account];
      weight := 1;
      slots := 1;
      IF meter.weight IS NOT NULL THEN
        own := coalesce((j_weights[head] ->> meter.weight)::float8, meter.estimate);
        IF meter.weighs_window THEN
          weight := own;
        ELSE
          slots := own;
        END IF;
      END IF;
      c_meter[r] := m;
      c_weight[r] := weight;
      c_slots[r] := slots;
      IF m_plain[m] AND meter.used + account.taken + weight <= m_max[m] AND coalesce(account.held, 0) + slots <= m_slots[m] THEN
        own := 0;
      ELSE
        own := {schema}.limit_wait(meter, account, weight, slots, now);
        never := own = -1;
      END IF;
      IF heavy_count > 0 AND meter.weight IS NOT NULL AND NOT never THEN
        -- A light one would fit now and then for ever, while a heavy one waits.
        since := CASE WHEN j_seq[head] = l_heavy[lane] AND l_by[lane] = meter.name THEN coalesce(l_since[lane], 0) ELSE forever END;
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
      IF r > all_count THEN
        own := greatest(own, m_closed[m]);
      END IF;
      IF own > longest OR never OR (m_shut[m] AND keeper = 0 AND kind = 1) THEN
        longest := own;
        keeper := m;
        kept_weight := weight;
        kept_slots := slots;
      END IF;
      EXIT WHEN never;
    END LOOP;

    IF kind = 1 AND keeper = 0 THEN
      EXIT WHEN started >= want OR (started > 0 AND started_bytes + j_bytes[head] > bytes);
      started := started + 1;
      started_bytes := started_bytes + j_bytes[head];
      done.places := done.places || j_place[head];
      done.seqs := done.seqs || j_seq[head];
      IF j_seq[head] = l_heavy[lane] AND l_by[lane] IS NOT NULL THEN
        done.freed_names := done.freed_names || l_by[lane];
        done.freed_grps := done.freed_grps || l_grp[lane];
      END IF;
      FOR r IN 1 .. rule_count LOOP
        CONTINUE WHEN NOT applies[(l_type[lane] - 1) * rule_count + r];
        meter := meters[c_meter[r]];
        accounts[meter.account] := {schema}.account_take(accounts[meter.account], meter, c_weight[r], c_slots[r], started, now);
        done.use_starts := done.use_starts || started;
        done.use_meters := done.use_meters || c_meter[r];
        done.use_weights := done.use_weights || c_weight[r];
        done.use_slots := done.use_slots || c_slots[r];
      END LOOP;
      l_gave[lane] := true;
      l_at[lane] := head + 1;
      u_served[l_unit[lane]] := u_served[l_unit[lane]] + 1;
      IF coalesce(plan.passes[i], true) THEN
        u_served[l_unit[lane]] := 0;
        u_turn[l_unit[lane]] := started;
      END IF;
    ELSIF kind = 2 AND never THEN
      l_at[lane] := head + 1;
      done.refused := done.refused || j_place[head];
      done.refused_seqs := done.refused_seqs || j_seq[head];
      done.refused_meters := done.refused_meters || keeper;
      done.refused_weights := done.refused_weights || CASE WHEN (meters[keeper]).weighs_window THEN kept_weight ELSE kept_slots END;
    ELSIF kind = 3 AND keeper > 0 AND NOT never THEN
      meter := meters[keeper];
      l_stuck[lane] := true;
      CONTINUE WHEN meter.paused OR NOT (meter.by_group OR meter.weight IS NOT NULL);
      done.blocked := done.blocked || l_id[lane];
      done.blocked_waits := done.blocked_waits || longest;
      done.blocked_names := done.blocked_names || meter.name;
      -- Those who only wait behind a heavy one are not too heavy themselves.
      done.blocked_heavy := done.blocked_heavy || CASE WHEN meter.weight IS NOT NULL
        AND {schema}.limit_wait(meter, accounts[meter.account], kept_weight, kept_slots, now) > 0 THEN j_seq[head] END;
      m_closed[keeper] := longest;
    ELSE
      l_stuck[lane] := true;
      again := true;
      IF keeper > 0 THEN
        m_shut[keeper] := true;
      END IF;
    END IF;
  END LOOP;

  done.at := now;
  done.more := again;
  done.meters := meters;
  done.accounts := accounts;
  done.emptied := done.emptied || ARRAY(SELECT e FROM unnest(plan.emptied) AS e
    WHERE coalesce(NOT l_stuck[array_position(plan.lanes, e)], true));
  -- All lanes of a priority and group have had their turn, of the types that were asked for, empty or blocked as they may be.
  SELECT coalesce(array_agg(f.id), '{}'), coalesce(array_agg(f.turn), '{}'), coalesce(array_agg(f.served), '{}'),
      coalesce(array_agg(f.gave), '{}')
    INTO done.lanes, done.turns, done.served, done.gave FROM (
      SELECT k.id, u_turn[u.unit] AS turn, k.id = ANY (u.gave) AS gave,
        CASE WHEN u_turn[u.unit] > 0 THEN 0 ELSE max(k.served) OVER (PARTITION BY u.unit) END + u_served[u.unit] AS served
      FROM (
        SELECT l.unit, l.priority, l.grp, array_agg(l.id) AS gave
        FROM unnest(l_id, l_unit, l_priority, l_grp, l_gave) AS l (id, unit, priority, grp, gave) WHERE l.gave GROUP BY 1, 2, 3
      ) u CROSS JOIN LATERAL (SELECT a.id, a.served FROM {schema}.lanes a
        WHERE a.queue = queue_name AND a.priority = u.priority AND a.grp = u.grp AND (asked IS NULL OR a.type = ANY (asked)) OFFSET 0) k
    ) f;
  RETURN done;
END
$$;
