-- Claims that come with a plan (jobs/take.ts), under limits and among groups.
--
-- Locks: as claim.sql. Rows of lanes are locked with SKIP LOCKED.

-- A claim that comes with a plan (planner/plan-claim.ts), under limits or among groups: what has arrived is folded into lanes, what the
-- plan proposes is granted as far as it fits, and the next snapshot is answered. Claims of one queue meet only at the limits
-- that they share: the locks of all names in `rules` and `plan.awaits` are held; what is to be settled is settled, and what has come due waits.
--
-- After these locks nothing is waited for, except by a claim without a plan for another that enters the same arrivals: jobs and lanes are taken with SKIP LOCKED, and what was missed is in the next snapshot. A plan that
-- was made with other rules, or before lanes came that precede it, takes nothing.
--
-- q: what it was asked for. plan: what it proposes. rules: what the types of the plan run under. now: the time. Answers with the jobs that
-- have started, in order; whether all waiting workers are to be woken; whether events were written; what is to be confirmed, and others, as
-- opened_claim says it; and the snapshot, as snapshot.sql.
CREATE OR REPLACE FUNCTION {schema}.take(
  q {schema}.claim_request, plan {schema}.claim_plan, rules {schema}.limit_rule[], now float8,
  OUT jobs json, OUT wake_all boolean, OUT published boolean, OUT granted json, OUT others_wait float8, OUT snapshot json
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- So many groups that jobs have come into are entered in any case: more of them than jobs are started, so that a backlog of
  -- them becomes smaller, and not so many that the claim takes much longer for it.
  few CONSTANT integer := 100;
  -- So often jobs that other transactions have are passed over, before the next trip of the claim goes on.
  most_rounds CONSTANT integer := 16;
  want integer := least(q.max, 10000);
  paused text[];
  types text[];
  weighing text[] := '{}';
  -- Do lanes wait for limits?
  blocked boolean;
  folded record;
  -- The lanes of heavy heads that may look again, and since when they may.
  heads bigint[];
  untils float8[];
  outside boolean;
  busy boolean;
  changed boolean := false;
  again boolean := true;
  epoch bigint;
  done {schema}.planned_grants;
  written record;
  took float8;
  -- Which of the granted jobs are locked; which others are not looked at, for other transactions have them; the lanes of these.
  held tid[];
  without bigint[] := '{}';
  stuck bigint[] := '{}';
  rounds integer := 0;
BEGIN
  jobs := '[]';
  published := false;
  SELECT m.rules, (SELECT array_agg(p.type) FROM {schema}.pauses p WHERE p.queue = q.queue),
    EXISTS (SELECT FROM {schema}.gates g WHERE g.queue = q.queue)
      OR EXISTS (SELECT FROM {schema}.lanes l WHERE l.queue = q.queue AND l.blocked_until IS NOT NULL AND l.heavy IS NOT NULL)
  INTO epoch, paused, blocked FROM {schema}.meta m;
  IF cardinality(rules) > 0 THEN
    weighing := ARRAY(SELECT r.name FROM unnest(rules) AS r WHERE r.weight IS NOT NULL);
  END IF;
  IF q.types IS NULL THEN
    types := {schema}.waiting_types(q.queue);
  ELSE
    SELECT coalesce(array_agg(a.type ORDER BY a.place), '{}') INTO types
      FROM (SELECT u.type, min(u.place) AS place FROM unnest(q.types) WITH ORDINALITY AS u (type, place) GROUP BY u.type) a;
  END IF;
  folded := {schema}.fold_arrivals(q.queue, types, weighing, greatest(few, want, least(1000, 5 * want)),
    cardinality(plan.places) > 0 IS NOT TRUE, now);
  wake_all := folded.wake_all;
  outside := coalesce(folded.outside, false);
  busy := folded.outside IS NULL;
  IF blocked THEN
    SELECT o.heads, o.untils INTO heads, untils FROM {schema}.open_gates(q.queue, types, want + 1, {schema}.names_of(rules), now) o;
  END IF;
  IF paused IS NOT NULL THEN
    SELECT coalesce(array_agg(t.type ORDER BY t.place), '{}') INTO types
      FROM unnest(types) WITH ORDINALITY AS t (type, place) WHERE ':' || t.type <> ALL (paused);
  END IF;

  IF plan.epoch = epoch AND cardinality(plan.places) + cardinality(plan.emptied) > 0 AND NOT coalesce('' = ANY (paused), false)
    -- Nor has a job come that the plan did not know of, and has to start before others of the plan.
    AND (plan.known IS NULL OR plan.is_late OR plan.front_lanes IS NULL OR NOT EXISTS (
      SELECT FROM unnest(plan.front_lanes, plan.front_skips, plan.front_dues, plan.front_seqs) AS f (lane, skip, due_at, seq)
        JOIN LATERAL (SELECT a.* FROM {schema}.lanes a WHERE a.id = f.lane OFFSET 0) l
          ON l.ready AND l.blocked_until IS NULL AND (q.types IS NULL OR l.type = ANY (q.types)) AND (':' || l.type = ANY (paused)) IS NOT TRUE
        CROSS JOIN LATERAL (SELECT o.* FROM {schema}.first_jobs(l.queue, l.type, l.priority, l.keys || l.grp, f.skip + 1, '-Infinity', '{}') o
          OFFSET f.skip) h
      WHERE (h.due_at, h.seq) < (f.due_at, f.seq))) THEN
    LOOP
      rounds := rounds + 1;
      done := {schema}.grant_planned(q.queue, q.types, types, paused, plan, rules, want, q.bytes, q.grant_ttl, q.claimant, without,
        heads, untils, now);
      held := ARRAY(SELECT j.ctid FROM {schema}.jobs j
        WHERE j.ctid = ANY (done.jobs || done.refused) AND j.state = 'waiting' FOR UPDATE SKIP LOCKED);
      EXIT WHEN cardinality(held) = cardinality(done.jobs) + cardinality(done.refused);
      -- Other transactions have some of them.
      IF done.refused <@ held AND NOT EXISTS (SELECT FROM unnest(done.jobs, done.is_charged) AS c (place, is_charged)
        WHERE c.is_charged AND c.place <> ALL (held)) THEN
        done := {schema}.lock_uncharged(q.queue, done, now);
        stuck := stuck || done.short;
        EXIT WHEN done.short = '{}' OR rounds >= most_rounds OR cardinality(plan.places) = cardinality(done.job_lanes);
        -- Of these lanes no more is to be had than what is locked now: other lanes of the plan may give the rest.
        plan.counts := ARRAY(SELECT CASE WHEN u.id = ANY (done.short)
            THEN (SELECT count(*) FROM unnest(done.locked_lanes) AS o (id) WHERE o.id = u.id)::integer ELSE u.n END
          FROM unnest(plan.lanes, plan.counts) WITH ORDINALITY AS u (id, n, place) ORDER BY u.place);
      ELSIF rounds >= most_rounds THEN
        -- They come and go faster than they are looked for: another trip of the claim has more luck.
        done := NULL;
        EXIT;
      ELSE
        -- Under a limit others are decided about anew; its lock keeps other claims away meanwhile.
        SELECT f.taken, f.counts, stuck || f.short INTO without, plan.counts, stuck
        FROM {schema}.free_jobs(q.queue, plan.lanes, plan.counts, rules, now) f;
      END IF;
    END LOOP;
    busy := busy OR rounds > 1 OR stuck <> '{}';
    IF done.at IS NOT NULL THEN
      busy := busy OR done.missed;
      -- Read before the time of the starts: a request that seems to have come later than it did does no harm.
      took := greatest(0, {schema}.wall() - q.arrived);
      -- One of them may have been given back a moment ago: it starts after that. No less is available by then.
      now := greatest(done.at, {schema}.present());
      SELECT * INTO written FROM {schema}.write_grants(q, plan, types, done, now - took, now);
      granted := written.granted;
      others_wait := done.others;
      jobs := written.jobs;
      wake_all := wake_all OR written.wake_all;
      published := written.published;
      busy := busy OR written.taken;
      again := done.again;
      changed := done.jobs <> '{}' OR done.refused <> '{}' OR done.blocked <> '{}';
    END IF;
  END IF;
  IF plan.awaits IS NOT NULL THEN
    PERFORM {schema}.await_release(array_agg(w.name), array_agg(''::text), CASE WHEN w.starves THEN q.claimant END, now)
      FROM unnest(plan.awaits, plan.starves) AS w (name, starves) GROUP BY w.starves;
  END IF;
  IF outside AND NOT folded.unopened THEN
    outside := EXISTS (SELECT FROM unnest(types) AS t (type) WHERE EXISTS (SELECT FROM {schema}.arrivals a
      WHERE a.queue = q.queue AND a.type = t.type));
  END IF;
  IF heads IS NOT NULL THEN
    PERFORM {schema}.reserve_again(heads, untils, coalesce(done.closed, '{}'), now);
  END IF;
  snapshot := {schema}.snapshot(q, plan, types, paused, epoch, busy, stuck, changed, again, outside, greatest(now, {schema}.present()));
END
$$;

-- The rules whose limits a claim locks that comes with a plan: what the types of the plan run under, as rules_for says it; and those that
-- a heavy head without a group and keys waits for, of the types that were asked for: another may be in front of it now.
CREATE OR REPLACE FUNCTION {schema}.rules_to_take(queue text, asked text[], types text[], own jsonb) RETURNS {schema}.limit_rule[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  rules {schema}.limit_rule[] := '{}';
BEGIN
  IF cardinality(types) > 0 THEN
    rules := {schema}.rules_for(queue, types, own);
  END IF;
  RETURN rules || ARRAY(
    SELECT r.fields FROM {schema}.rules r WHERE NOT r.plain AND (r.fields).weight IS NOT NULL
      AND r.name NOT IN (SELECT o.name FROM unnest(rules) AS o)
      AND EXISTS (SELECT FROM {schema}.lanes l
        WHERE l.blocked_by = r.name AND l.grp = '' AND l.keys = '' AND l.blocked_until IS NOT NULL AND l.heavy IS NOT NULL
          AND l.queue = rules_to_take.queue AND (asked IS NULL OR l.type = ANY (asked))));
END
$$;

-- Grants what a plan proposes, in its order, each start as far as it fits all of its limits. Only what is stored decides: the numbers
-- that the plan was made from are not looked at. The locks of all limits in `all_rules` are held. The lanes that change are locked, where no
-- other transaction has them; jobs are not: of a lane whose first jobs were locked and not started, another claim would start later ones.
-- Nothing is written.
--
-- Where something is otherwise than the plan says, nothing more is granted in that lane, nor under a limit that refused: what is
-- behind does not pass; and where a lane or a job came that precedes the rest, nothing behind it. `again` of the answer is true then.
--
-- queue_name: of which queue. asked: the types that have turns together; NULL: all. types: which may start. paused: as `pauses` says it,
-- or NULL. plan: what is proposed. all_rules: what its types run under. want, bytes: how many may start, with how much data, but one in
-- any case. ttl: how soon they are called; NULL: at once. claimant: whose claim it is. without: jobs that other transactions have locked.
-- heads, untils: lanes of heavy heads that may look again in this claim, and since when; NULL: none. now_at: now.
CREATE OR REPLACE FUNCTION {schema}.grant_planned(
  queue_name text, asked text[], types text[], paused text[], plan {schema}.claim_plan, all_rules {schema}.limit_rule[], want integer,
  bytes float8, ttl float8, claimant text, without bigint[], heads bigint[], untils float8[], now_at float8
) RETURNS {schema}.planned_grants
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now float8 := now_at;
  done {schema}.planned_grants;
  started integer := 0;
  started_bytes float8 := 0;
  again boolean := false;
  -- Rules: those for all, then those by group. Those that apply to a type are a list: where the list of each type begins (0: no rule
  -- applies), the rule at each place, and the next place.
  rules {schema}.limit_rule[] := '{}'; by_group {schema}.limit_rule[] := '{}';
  all_count integer; rule_count integer; group_count integer;
  t_rules integer[] := array_fill(0, ARRAY[cardinality(plan.types)]); a_rule integer[] := '{}'; a_next integer[] := '{}';
  r_weight text[]; r_estimate float8[]; r_window boolean[];
  weighs boolean := false;
  -- Lanes of the plan: as they are stored; NULL where one is not ready any more. Is nothing more granted in it?
  l_id bigint[]; l_type integer[]; l_priority float8[]; l_grp text[]; l_keys text[]; l_turn bigint[]; l_own bigint[]; l_heavy bigint[];
  l_by text[]; l_state text[]; l_since float8[]; l_group integer[]; l_stuck boolean[]; l_gave boolean[];
  -- Their jobs, those of a lane side by side: from where to where.
  l_at integer[]; l_end integer[];
  j_lane integer[]; j_due float8[]; j_seq bigint[]; j_place tid[]; j_weights jsonb[]; j_bytes integer[];
  -- Lanes of one priority and group have their turns together: how many were started since the last turn was over, and with which
  -- start that was (0: with none of these).
  u_served integer[] := '{}'; u_turn integer[] := '{}';
  -- Keys: of each rule for all, then, for each group and keys of lanes, of each rule by group. What was taken of their states: in all,
  -- and by the latest start. Has a head been refused: for how long, the lowest priority, and since when the first of that priority waits?
  groups text[] := '{}'; group_keys text[] := '{}'; lanes_of text[];
  keys {schema}.claim_keys;
  s_weight float8[]; s_slots float8[]; s_starts integer[]; s_latest integer[]; s_charged float8[]; s_use integer[];
  k_closed float8[]; k_priority float8[]; k_since float8[]; k_shut boolean[];
  -- Types that a limit for all of their jobs has refused.
  t_closed boolean[] := array_fill(false, ARRAY[cardinality(plan.types)]);
  -- What starts: jobs, and their lanes; whether they run under limits. What these take: which of them, of which state, how much.
  d_jobs tid[] := '{}'; d_seqs bigint[] := '{}'; d_lanes bigint[] := '{}'; d_charged boolean[] := '{}'; d_starts integer[] := '{}'; d_states integer[] := '{}'; d_weights float8[] := '{}';
  h_starts integer[] := '{}'; h_states integer[] := '{}'; h_slots float8[] := '{}';
  -- Do heavy heads wait for one of the rules? Those that may look again in this claim: their lanes, what they wait for, and what they weigh.
  heavy boolean := false;
  o_lane bigint[]; o_name text[]; o_grp text[]; o_priority float8[]; o_since float8[]; o_until float8[]; o_weights jsonb[];
  -- What is at hand.
  lane integer; kind integer; head integer; t integer; r integer; place integer; k integer; s integer; own float8; weight float8; slots float8;
  rule {schema}.limit_rule;
  named text[]; type_name text;
  c_key integer[]; c_weight float8[]; c_slots float8[];
  locked bigint[]; unknown record;
  n_priority float8[]; n_grp text[]; n_due float8[]; n_seq bigint[];
  -- Have lanes of the queue keys?
  keyed boolean;
  is_late CONSTANT boolean := coalesce(plan.is_late, false);
  room float8; own_weight float8; keeper integer; longest float8; kept_weight float8; kept_slots float8; kept_since float8; never boolean;
  -- Since when the head waits for a key that weighs jobs; infinity: it does not.
  since float8 := 'Infinity';
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
    weighs := weighs OR r_weight[r] IS NOT NULL;
    r_estimate[r] := (rules[r]).estimate;
    r_window[r] := (rules[r]).max IS NOT NULL;
  END LOOP;
  -- Not every type for every rule: with hundreds of types that have a limit each that took half a second.
  FOR r IN REVERSE rule_count .. 1 LOOP
    named := (rules[r]).types;
    FOREACH type_name IN ARRAY CASE WHEN cardinality(named) < cardinality(plan.types) THEN named ELSE plan.types END LOOP
      CONTINUE WHEN type_name <> ALL (named);
      t := array_position(plan.types, type_name);
      CONTINUE WHEN t IS NULL OR a_rule[t_rules[t]] = r;
      a_rule := a_rule || r;
      a_next := a_next || t_rules[t];
      t_rules[t] := cardinality(a_rule);
    END LOOP;
  END LOOP;

  -- Each by its id, whatever the planner thinks of indexes whose lanes it has not counted yet.
  SELECT array_agg(l.id), array_agg(array_position(plan.types, l.type)), array_agg(l.priority), array_agg(l.grp), array_agg(l.keys),
      array_agg(l.turn), array_agg(l.own), array_agg(l.heavy), array_agg(l.blocked_by), array_agg(l.blocked_grp), array_agg(l.heavy_since),
      coalesce(array_agg(l.id IS NULL), '{}'), coalesce(bool_or(l.id IS NULL), false),
      EXISTS (SELECT FROM {schema}.lanes k WHERE k.queue = queue_name AND k.keys <> '')
    INTO l_id, l_type, l_priority, l_grp, l_keys, l_turn, l_own, l_heavy, l_by, l_state, l_since, l_stuck, again, keyed
    FROM unnest(plan.lanes) AS p (id) LEFT JOIN LATERAL (SELECT a.* FROM {schema}.lanes a WHERE a.id = p.id OFFSET 0) l
      ON l.ready AND l.blocked_until IS NULL AND l.queue = queue_name
        AND l.type = ANY (plan.types) AND (paused IS NULL OR ':' || l.type <> ALL (paused));
  -- As many jobs of each as the plan is about, in their order.
  SELECT coalesce(array_agg(l.no), '{}'), array_agg(j.due_at), array_agg(j.seq), array_agg(j.place), array_agg(j.weights), array_agg(j.bytes)
    INTO j_lane, j_due, j_seq, j_place, j_weights, j_bytes
    FROM unnest(l_type, l_priority, l_grp, l_keys, plan.counts) WITH ORDINALITY AS l (type, priority, grp, keys, n, no)
      CROSS JOIN LATERAL {schema}.first_jobs(queue_name, plan.types[l.type], l.priority, l.keys || l.grp, l.n, now, without) j;
  l_at := array_fill(1, ARRAY[cardinality(plan.lanes)]);
  l_end := array_fill(0, ARRAY[cardinality(plan.lanes)]);
  l_gave := array_fill(false, ARRAY[cardinality(plan.lanes)]);
  u_served := l_end;
  u_turn := l_end;
  FOR k IN 1 .. cardinality(j_lane) LOOP
    IF l_end[j_lane[k]] = 0 THEN
      l_at[j_lane[k]] := k;
    END IF;
    l_end[j_lane[k]] := k;
  END LOOP;
  IF group_count > 0 THEN
    SELECT coalesce(array_agg(g.grp), '{}'), coalesce(array_agg(g.keys), '{}'), array_agg(g.keys || g.grp) INTO groups, group_keys, lanes_of
      FROM (SELECT DISTINCT u.grp, u.keys FROM unnest(l_grp, l_keys) AS u (grp, keys) WHERE u.grp IS NOT NULL) g;
    FOR i IN 1 .. cardinality(plan.lanes) LOOP
      l_group[i] := array_position(lanes_of, l_keys[i] || l_grp[i]);
    END LOOP;
  END IF;
  -- The first ready lane that the plan did not know of. Of each type so many of the first lanes are looked at as the plan has; of a type
  -- that it did not know, one.
  IF plan.seen_types <> types THEN
    -- Side by side with `types`: a join would compare each with each.
    plan.seen_counts := ARRAY(SELECT max(u.count) FROM (
        SELECT t.type, t.place, NULL AS count FROM unnest(types) WITH ORDINALITY AS t (type, place)
        UNION ALL SELECT s.type, NULL, s.count FROM unnest(plan.seen_types, plan.seen_counts) AS s (type, count)) u
      GROUP BY u.type HAVING max(u.place) IS NOT NULL ORDER BY max(u.place));
  END IF;
  SELECT f.* INTO unknown
    FROM unnest(types, plan.seen_counts) AS t (type, count) CROSS JOIN LATERAL (
        SELECT l.id, l.priority, l.grp, l.turn, l.own, l.head_at, l.head_seq FROM {schema}.lanes l
        WHERE plan.known IS NOT NULL AND l.queue = queue_name AND l.type = t.type AND l.ready AND l.blocked_until IS NULL
        ORDER BY l.priority DESC, l.turn, l.own, l.head_at, l.head_seq LIMIT coalesce(t.count, 1)) f
    WHERE f.id <> ALL (plan.known)
    ORDER BY f.priority DESC, f.turn, f.own, f.head_at, f.head_seq LIMIT 1;
  IF keyed AND plan.known IS NOT NULL AND NOT is_late THEN
    -- Lanes with keys that have their turns with lanes of the plan: of each type the one with the first job that the plan did not know of.
    SELECT array_agg(f.priority), array_agg(f.grp), array_agg(f.head_at), array_agg(f.head_seq) INTO n_priority, n_grp, n_due, n_seq
      FROM (SELECT DISTINCT p.priority, p.grp FROM unnest(l_priority, l_grp) AS p (priority, grp) WHERE p.grp IS NOT NULL) u
        CROSS JOIN unnest(types) AS t (type) CROSS JOIN LATERAL (
          SELECT l.priority, l.grp, l.head_at, l.head_seq FROM {schema}.lanes l
          WHERE l.queue = queue_name AND l.priority = u.priority AND l.grp = u.grp AND l.type = t.type AND l.keys <> ''
            AND l.ready AND l.blocked_until IS NULL AND l.id <> ALL (plan.known)
          ORDER BY l.head_at, l.head_seq LIMIT 1) f;
  END IF;
  keys := {schema}.open_keys(rules, all_count, groups, group_keys, want, ttl, claimant, now);
  now := keys.at;
  IF cardinality(keys.ids) > 0 THEN
    s_weight := array_fill(0::float8, ARRAY[cardinality(keys.ids)]);
    s_slots := s_weight;
    s_charged := s_weight;
    k_closed := s_weight;
    k_priority := s_weight;
    k_since := s_weight;
    s_starts := array_fill(0, ARRAY[cardinality(keys.ids)]);
    s_latest := s_starts;
    s_use := s_starts;
    k_shut := array_fill(false, ARRAY[cardinality(keys.ids)]);
  END IF;
  IF weighs THEN
    heavy := EXISTS (SELECT FROM {schema}.lanes l
      WHERE l.blocked_by = ANY ({schema}.names_of(rules)) AND l.blocked_until IS NOT NULL AND l.heavy IS NOT NULL);
    IF heads IS NOT NULL THEN
      SELECT array_agg(l.id), array_agg(l.blocked_by), array_agg(l.blocked_grp), array_agg(l.priority), array_agg(l.heavy_since),
          array_agg(h.until), array_agg(j.weights)
        INTO o_lane, o_name, o_grp, o_priority, o_since, o_until, o_weights
        FROM unnest(heads, untils) AS h (id, until) CROSS JOIN LATERAL (SELECT a.* FROM {schema}.lanes a WHERE a.id = h.id OFFSET 0) l
          CROSS JOIN LATERAL {schema}.first_jobs(l.queue, l.type, l.priority, l.keys || l.grp, 1, now, without) j
        WHERE l.heavy = j.seq AND h.until > now - 100;
    END IF;
  END IF;

  done.refused_seqs := '{}';
  done.emptied := '{}';
  done.blocked := '{}'; done.blocked_waits := '{}'; done.blocked_names := '{}'; done.blocked_grps := '{}'; done.blocked_heavy := '{}';
  done.starved_names := '{}'; done.starved_grps := '{}';
  done.refused := '{}'; done.refused_names := '{}'; done.refused_most := '{}'; done.refused_weights := '{}';
  done.freed_names := '{}'; done.freed_grps := '{}';
  done.closed := '{}';
  done.short := '{}';
  FOR i IN 1 .. cardinality(plan.places) LOOP
    lane := plan.places[i];
    kind := plan.kinds[i];
    CONTINUE WHEN l_stuck[lane];
    IF t_closed[l_type[lane]] AND kind <> 3 THEN
      l_stuck[lane] := true;
      again := again OR kind = 1;
      CONTINUE;
    END IF;
    head := l_at[lane];
    IF head > l_end[lane] THEN
      -- The jobs are gone, or other transactions have them.
      done.emptied := done.emptied || l_id[lane];
      l_stuck[lane] := true;
      again := true;
      CONTINUE;
    END IF;
    IF unknown.id IS NOT NULL AND (l_priority[lane] < unknown.priority OR (l_priority[lane] = unknown.priority AND NOT is_late
      AND (u_turn[plan.units[lane]] > 0 OR l_turn[lane] > unknown.turn OR (l_turn[lane] = unknown.turn AND CASE
        WHEN l_grp[lane] = unknown.grp THEN (j_due[head], j_seq[head]) > (unknown.head_at, unknown.head_seq)
        ELSE l_own[lane] > unknown.own END)))) THEN
      -- A lane that the plan did not know of has its turn before this one.
      l_stuck[lane] := true;
      again := true;
      CONTINUE;
    END IF;
    -- An expression with a subquery takes ten times as long as one without.
    IF n_grp IS NOT NULL THEN
      IF EXISTS (SELECT FROM unnest(n_priority, n_grp, n_due, n_seq) AS n (priority, grp, due_at, seq)
        WHERE n.priority = l_priority[lane] AND n.grp = l_grp[lane] AND (n.due_at, n.seq) < (j_due[head], j_seq[head])) THEN
        -- Of its group another job is first: nothing behind it is granted.
        l_stuck := array_fill(true, ARRAY[cardinality(plan.lanes)]);
        again := true;
        EXIT;
      END IF;
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
    place := t_rules[l_type[lane]];
    WHILE place > 0 LOOP
      r := a_rule[place];
      place := a_next[place];
      k := CASE WHEN r <= all_count THEN r ELSE keys.states[r + (l_group[lane] - 1) * group_count] END;
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
      ELSIF r <= all_count AND r_weight[r] IS NULL AND kind <> 3 THEN
        -- How long matters to the next plan, which knows.
        t_closed[l_type[lane]] := true;
        EXIT;
      ELSIF r > all_count AND r_weight[r] IS NULL AND k_closed[k] > 0 THEN
        -- It has refused another one, which waits for as long.
        own := k_closed[k];
      ELSE
        own := {schema}.refusal_wait(rules[r], keys.grps[k], weight, slots, s_weight[s], s_slots[s], s_starts[s], ttl, now);
        never := own = -1;
      END IF;
      IF weighs THEN
        since := CASE WHEN r_weight[r] IS NOT NULL AND j_seq[head] = l_heavy[lane] AND l_by[lane] = keys.names[k]
          AND l_state[lane] = keys.grps[k] THEN coalesce(l_since[lane], 0) ELSE 'Infinity' END;
      END IF;
      IF heavy AND r_weight[r] IS NOT NULL AND NOT never THEN
        -- A light one would fit now and then for ever, while a heavy one waits.
        own := greatest(own, {schema}.heavy_wait(keys.names[k], keys.grps[k], l_priority[lane], l_id[lane], since, now, false));
      END IF;
      IF o_lane IS NOT NULL AND r_weight[r] IS NOT NULL AND NOT never THEN
        FOR h IN 1 .. cardinality(o_lane) LOOP
          -- The head starts in this claim, if it still fits beside this one.
          CONTINUE WHEN o_name[h] <> keys.names[k] OR o_grp[h] <> keys.grps[k] OR o_lane[h] = l_id[lane] OR o_lane[h] = ANY (d_lanes)
            OR o_priority[h] < l_priority[lane] OR (o_priority[h] = l_priority[lane]
              AND (o_since[h] > since OR (o_since[h] = since AND o_lane[h] > l_id[lane])));
          own_weight := coalesce((o_weights[h] ->> r_weight[r])::float8, r_estimate[r]);
          room := CASE WHEN r_window[r] THEN keys.weights[k] - s_weight[s] ELSE keys.slots[k] - s_slots[s] END - own_weight;
          IF room >= 0 AND s_starts[s] < keys.starts[k] AND NOT keys.closed[k]
            AND (room < (CASE WHEN r_window[r] THEN weight ELSE slots END) OR s_starts[s] + 1 >= keys.starts[k]) THEN
            own := greatest(own, o_until[h] + 100 - now);
          END IF;
        END LOOP;
      END IF;
      -- Nothing behind one that it has refused passes, also what the plan does not expect to fit; a heavy head that it refused before may.
      IF k_closed[k] > own AND NOT (l_priority[lane] = k_priority[k] AND since < k_since[k]) THEN
        own := k_closed[k];
      END IF;
      -- What is to be blocked stands at a gate, however long a limit for all refuses it besides, if neither weighs.
      IF own > longest OR never OR (k_shut[k] AND keeper = 0 AND kind = 1)
        OR (kind = 3 AND own > 0 AND r > all_count AND keeper BETWEEN 1 AND all_count AND num_nonnulls(r_weight[r], r_weight[keeper]) = 0) THEN
        longest := own;
        keeper := k;
        kept_weight := weight;
        kept_slots := slots;
        kept_since := since;
      END IF;
      EXIT WHEN never;
    END LOOP;

    IF t_closed[l_type[lane]] AND kind <> 3 THEN
      l_stuck[lane] := true;
      done.closed := done.closed || l_id[lane];
      IF l_id[lane] = ANY (o_lane) THEN
        done.freed_names := done.freed_names || l_by[lane];
        done.freed_grps := done.freed_grps || coalesce(l_state[lane], '');
      END IF;
      again := again OR kind = 1;
      CONTINUE;
    END IF;
    IF kind <> 2 AND keeper = 0 THEN
      EXIT WHEN started >= want OR (started > 0 AND started_bytes + j_bytes[head] > bytes);
      started := started + 1;
      started_bytes := started_bytes + j_bytes[head];
      d_jobs := d_jobs || j_place[head];
      d_seqs := d_seqs || j_seq[head];
      d_lanes := d_lanes || l_id[lane];
      d_charged := d_charged || (t_rules[l_type[lane]] > 0);
      -- Gates of a limit that it does not run under any more were opened when that changed, and their lock is not held.
      IF weighs AND j_seq[head] IS NOT DISTINCT FROM l_heavy[lane] AND l_by[lane] = ANY ({schema}.names_of(rules)) THEN
        done.freed_names := done.freed_names || l_by[lane];
        done.freed_grps := done.freed_grps || coalesce(l_state[lane], '');
      END IF;
      place := t_rules[l_type[lane]];
      WHILE place > 0 LOOP
        r := a_rule[place];
        place := a_next[place];
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
        IF keys.takes_slots[k] OR keys.pins[k] THEN
          IF keys.takes_slots[k] THEN
            done.others := greatest(done.others, keys.others[k]);
            s_slots[s] := s_slots[s] + c_slots[r];
          END IF;
          h_starts := h_starts || started;
          h_states := h_states || s;
          h_slots := h_slots || CASE WHEN keys.takes_slots[k] THEN c_slots[r] ELSE 0 END;
        END IF;
      END LOOP;
      l_gave[lane] := true;
      l_at[lane] := head + 1;
      IF plan.units[lane] > 0 THEN
        u_served[plan.units[lane]] := u_served[plan.units[lane]] + 1;
        IF coalesce(plan.passes[i], true) THEN
          u_served[plan.units[lane]] := 0;
          u_turn[plan.units[lane]] := started;
        END IF;
      END IF;
      IF kind <> 1 THEN
        -- It was not expected to fit, and so the rest of the plan does not hold.
        again := true;
        EXIT;
      END IF;
    ELSIF kind = 2 AND never THEN
      l_at[lane] := head + 1;
      done.refused := done.refused || j_place[head];
      done.refused_seqs := done.refused_seqs || j_seq[head];
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
      -- Where the plan closes the type, the head is not too heavy: it waits for no more than others do.
      IF rule.paused OR NOT (rule.by_group OR (rule.weight IS NOT NULL AND kind <> 4)) THEN
        done.closed := done.closed || l_id[lane];
        IF l_id[lane] = ANY (o_lane) AND (l_by[lane], l_state[lane]) IS DISTINCT FROM (rule.name, keys.grps[keeper]) THEN
          done.freed_names := done.freed_names || l_by[lane];
          done.freed_grps := done.freed_grps || coalesce(l_state[lane], '');
        END IF;
        CONTINUE;
      END IF;
      done.blocked := done.blocked || l_id[lane];
      done.blocked_waits := done.blocked_waits || longest;
      done.blocked_names := done.blocked_names || rule.name;
      done.blocked_grps := done.blocked_grps || keys.grps[keeper];
      -- A job that only waits behind a heavy one is not too heavy itself, and heads that come before that one do not wait with it.
      own := CASE WHEN rule.weight IS NULL THEN 0 ELSE {schema}.refusal_wait(rule, keys.grps[keeper], kept_weight, kept_slots, s_weight[s],
        s_slots[s], s_starts[s], ttl, now) END;
      IF own > 0 AND rule.by_group AND kept_since = 'Infinity' THEN
        -- Nor is one behind a head of its queue and type (waitForOwnHeads in planner/claim-limits.ts): a head for each of very many lanes at one
        -- key would have to be judged with every release. It stands at the gate.
        IF EXISTS (SELECT FROM {schema}.lanes a
            WHERE a.blocked_by = rule.name AND a.blocked_grp = keys.grps[keeper] AND a.blocked_until IS NOT NULL AND a.heavy IS NOT NULL
              AND a.queue = queue_name AND a.type = plan.types[l_type[lane]] AND a.priority >= l_priority[lane])
          OR EXISTS (SELECT FROM unnest(done.blocked, done.blocked_names, done.blocked_grps, done.blocked_heavy) AS b (id, name, grp, heavy)
            WHERE b.heavy IS NOT NULL AND b.name = rule.name AND b.grp = keys.grps[keeper]
              AND l_type[array_position(l_id, b.id)] = l_type[lane] AND l_priority[array_position(l_id, b.id)] >= l_priority[lane]) THEN
          own := 0;
        END IF;
      END IF;
      done.blocked_heavy := done.blocked_heavy || CASE WHEN own > 0 THEN j_seq[head] END;
      own := CASE WHEN rule.weight IS NULL THEN longest ELSE own END;
      IF own > 0 THEN
        k_since[keeper] := CASE WHEN k_closed[keeper] = 0 THEN kept_since
          WHEN k_priority[keeper] > l_priority[lane] THEN '-Infinity' ELSE least(k_since[keeper], kept_since) END;
        k_priority[keeper] := l_priority[lane];
        k_closed[keeper] := greatest(k_closed[keeper], own);
      END IF;
      IF rule.by_group AND keys.takes_slots[keeper] AND s_starts[s] = 0 AND NOT keys.starved[keeper] THEN
        done.starved_names := done.starved_names || rule.name;
        done.starved_grps := done.starved_grps || keys.grps[keeper];
      END IF;
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
  done.job_seqs := d_seqs;
  done.job_lanes := d_lanes;
  done.is_charged := d_charged;
  done.keys := keys;
  done.starts := s_starts;
  done.weights := s_weight;
  done.slots := s_slots;
  done.use_starts := d_starts;
  done.use_states := d_states;
  done.use_weights := d_weights;
  done.slot_starts := h_starts;
  done.slot_states := h_states;
  done.slot_counts := h_slots;
  done.keyed := '{}';
  IF keyed THEN
    done.keyed := ARRAY(SELECT l.id FROM unnest(l_id, l_keys, l_gave) AS l (id, keys, gave) WHERE l.gave AND l.keys <> '');
  END IF;
  IF plan.emptied <> '{}' THEN
    done.emptied := done.emptied || ARRAY(SELECT e FROM unnest(plan.emptied) AS e
      WHERE coalesce(NOT l_stuck[array_position(plan.lanes, e)], true));
  END IF;
  -- Only under the lock of its row a lane gets a turn, is set not ready or blocked, each in a later statement: one that another claim
  -- has locked is left to that. All lanes of a priority and group have had their turn, of the types that were asked for: but of those
  -- with keys a thousand at most. Without a unit there are no turns.
  IF NOT keyed THEN
    -- Without lanes with keys all that is below comes to this, which saves 70 µs or more of a claim of ten from fifty groups.
    SELECT coalesce(array_agg(f.id), '{}'), coalesce(array_agg(f.turn), '{}'), coalesce(array_agg(f.served), '{}'),
        coalesce(array_agg(f.gave), '{}')
      INTO done.lanes, done.turns, done.served, done.gave FROM (
        SELECT k.id, CASE WHEN u.alone THEN 0 ELSE u_turn[u.unit] END AS turn, k.id = ANY (u.gave) AS gave,
          CASE WHEN u.alone THEN 0 WHEN u_turn[u.unit] > 0 THEN 0 ELSE max(k.served) OVER (PARTITION BY u.unit) END + u_served[u.unit] AS served
        FROM (
          SELECT l.unit, l.priority, l.grp, array_agg(l.id) AS gave,
            -- Of a priority without groups no turn is written, but for the first: lanes of other types would all have to be.
            l.grp = '' AND min(l.turn) > 0 AND NOT EXISTS (SELECT FROM {schema}.lanes a
              WHERE a.queue = queue_name AND a.priority = l.priority AND a.grp > '') AS alone
          FROM unnest(l_id, plan.units, l_priority, l_grp, l_gave, l_turn) AS l (id, unit, priority, grp, gave, turn)
          WHERE l.gave GROUP BY 1, 2, 3
        ) u CROSS JOIN LATERAL (
          SELECT g.* FROM (SELECT a.id, a.served FROM {schema}.lanes a WHERE NOT u.alone
            AND a.queue = queue_name AND a.priority = u.priority AND a.grp = u.grp AND (asked IS NULL OR a.type = ANY (asked))
            FOR UPDATE SKIP LOCKED) g
          UNION ALL
          SELECT g.* FROM (SELECT a.id, a.served FROM {schema}.lanes a WHERE u.alone AND a.id = ANY (u.gave) FOR UPDATE SKIP LOCKED) g) k
      ) f;
  ELSE
    SELECT coalesce(array_agg(f.id), '{}'), coalesce(array_agg(f.turn), '{}'), coalesce(array_agg(f.served), '{}'),
        coalesce(array_agg(f.gave), '{}')
      INTO done.lanes, done.turns, done.served, done.gave FROM (
        SELECT k.id, u_turn[u.unit] AS turn, k.id = ANY (u.gave) AS gave,
          CASE WHEN u.unit = 0 THEN NULL WHEN u_turn[u.unit] > 0 THEN 0 ELSE max(k.served) OVER (PARTITION BY u.unit) END + u_served[u.unit] AS served
        FROM (
          SELECT l.unit, l.priority, l.grp, array_agg(l.id) AS gave, bool_or(l.keys <> '') AS keyed
          FROM unnest(l_id, plan.units, l_priority, l_grp, l_keys, l_gave) AS l (id, unit, priority, grp, keys, gave) WHERE l.gave GROUP BY 1, 2, 3
        ) u CROSS JOIN LATERAL (
          SELECT p.* FROM (SELECT a.id, a.served FROM {schema}.lanes a
            WHERE a.queue = queue_name AND a.priority = u.priority AND a.grp = u.grp AND a.keys = '' AND (asked IS NULL OR a.type = ANY (asked))
              AND u.unit > 0
            FOR UPDATE SKIP LOCKED) p
          UNION ALL
          SELECT p.* FROM (SELECT a.id, a.served FROM {schema}.lanes a
            WHERE a.id = ANY (u.gave) AND (u.keyed OR u.unit = 0) AND (a.keys <> '' OR u.unit = 0) FOR UPDATE SKIP LOCKED) p
          UNION ALL
          -- Those that were served the longest ago: the same thousand every time would leave the others before all other groups.
          SELECT p.* FROM (SELECT o.id, o.served FROM unnest({schema}.keyed_types(queue_name, u.priority, u.grp)) AS t (type)
            CROSS JOIN LATERAL (SELECT a.id, a.served FROM {schema}.lanes a
              WHERE a.queue = queue_name AND a.priority = u.priority AND a.grp = u.grp AND a.type = t.type AND a.keys <> ''
                AND u.unit > 0 AND a.id <> ALL (u.gave)
              ORDER BY a.turn LIMIT 1000 FOR UPDATE SKIP LOCKED) o
            WHERE asked IS NULL OR t.type = ANY (asked) LIMIT 1000) p) k
      ) f;
  END IF;
  IF NOT (done.emptied || done.blocked) <@ done.lanes THEN
    locked := ARRAY(SELECT l.id FROM {schema}.lanes l WHERE l.id = ANY (done.emptied || done.blocked) FOR UPDATE SKIP LOCKED);
    IF NOT (done.emptied || done.blocked) <@ locked THEN
      done.missed := true;
      done.emptied := ARRAY(SELECT e FROM unnest(done.emptied) AS e WHERE e = ANY (locked));
      SELECT coalesce(array_agg(b.id), '{}'), coalesce(array_agg(b.wait), '{}'), coalesce(array_agg(b.name), '{}'),
          coalesce(array_agg(b.grp), '{}'), coalesce(array_agg(b.heavy), '{}')
        INTO done.blocked, done.blocked_waits, done.blocked_names, done.blocked_grps, done.blocked_heavy
        FROM unnest(done.blocked, done.blocked_waits, done.blocked_names, done.blocked_grps, done.blocked_heavy)
          AS b (id, wait, name, grp, heavy)
        WHERE b.id = ANY (locked);
    END IF;
  END IF;
  RETURN done;
END
$$;

-- Locks other jobs in place of granted ones that run under no limit and that other transactions have. Claims that take from the same lanes
-- do not wait for each other: of each lane as many jobs are locked as were granted, the first that no other transaction has, and all of
-- them start. So none is left behind while another claim goes on to later ones.
--
-- Answers what is granted then: no more than `done`, and of the same lanes.
CREATE OR REPLACE FUNCTION {schema}.lock_uncharged(
  queue_name text, done {schema}.planned_grants, now float8
) RETURNS {schema}.planned_grants
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- The locked jobs, and their lanes, those of a lane in order.
  places tid[];
  lanes bigint[];
  jobs tid[];
  -- Of each start, which one it is now; NULL: it is none.
  numbers integer[];
BEGIN
  SELECT array_agg(f.place), array_agg(f.lane) INTO places, lanes FROM (
    SELECT l.id AS lane, j.place
    FROM (SELECT u.lane, count(*) AS n FROM unnest(done.job_lanes, done.is_charged) AS u (lane, is_charged) WHERE NOT u.is_charged GROUP BY 1) u
      CROSS JOIN LATERAL (SELECT a.* FROM {schema}.lanes a WHERE a.id = u.lane OFFSET 0) l
      CROSS JOIN LATERAL (
        SELECT o.* FROM (SELECT k.ctid AS place FROM {schema}.jobs k
          WHERE k.queue = queue_name AND k.type = l.type AND k.priority = l.priority AND k.state = 'waiting' AND k.grp IS NULL
            AND k.keys IS NULL AND (k.deadline IS NULL OR k.deadline > now)
          ORDER BY k.due_at, k.seq LIMIT u.n FOR UPDATE SKIP LOCKED) o WHERE l.keys || l.grp = ''
        UNION ALL
        SELECT o.* FROM (SELECT k.ctid AS place FROM {schema}.jobs k
          WHERE k.queue = queue_name AND k.type = l.type AND k.priority = l.priority AND k.state = 'waiting'
            AND {schema}.in_lane(k.grp, k.keys, l.keys || l.grp) AND (k.deadline IS NULL OR k.deadline > now)
          ORDER BY k.due_at, k.seq LIMIT u.n FOR UPDATE SKIP LOCKED) o WHERE l.keys || l.grp <> ''
      ) j
  ) f;
  SELECT coalesce(array_agg(s.place ORDER BY s.start) FILTER (WHERE s.place IS NOT NULL), '{}'),
      array_agg(CASE WHEN s.place IS NOT NULL THEN s.number END ORDER BY s.start)
    INTO jobs, numbers FROM (
      SELECT d.start, coalesce(d.charged, f.place) AS place,
        count(coalesce(d.charged, f.place)) OVER (ORDER BY d.start) AS number
      FROM (
        SELECT g.start, g.lane, CASE WHEN g.is_charged THEN g.place END AS charged,
          row_number() OVER (PARTITION BY g.lane, g.is_charged ORDER BY g.start) AS nth
        FROM unnest(done.jobs, done.job_lanes, done.is_charged) WITH ORDINALITY AS g (place, lane, is_charged, start)
      ) d LEFT JOIN (
        SELECT u.place, u.lane, row_number() OVER (PARTITION BY u.lane ORDER BY u.ordinality) AS nth
        FROM unnest(places, lanes) WITH ORDINALITY AS u (place, lane)
      ) f ON d.charged IS NULL AND f.lane = d.lane AND f.nth = d.nth
    ) s;
  IF jobs = '{}' THEN
    done.lanes := '{}';
    done.turns := '{}';
    done.served := '{}';
    done.gave := '{}';
  END IF;
  IF cardinality(jobs) < cardinality(done.jobs) THEN
    done.again := true;
    done.missed := true;
    done.locked_lanes := lanes;
    done.short := ARRAY(SELECT u.lane FROM unnest(done.job_lanes, done.is_charged) AS u (lane, is_charged)
      WHERE NOT u.is_charged GROUP BY u.lane HAVING count(*) > (SELECT count(*) FROM unnest(lanes) AS l WHERE l = u.lane));
    done.use_starts := ARRAY(SELECT numbers[u.start] FROM unnest(done.use_starts) WITH ORDINALITY AS u (start, place) ORDER BY u.place);
    done.slot_starts := ARRAY(SELECT numbers[u.start] FROM unnest(done.slot_starts) WITH ORDINALITY AS u (start, place) ORDER BY u.place);
  END IF;
  done.jobs := jobs;
  RETURN done;
END
$$;

-- Which of the first jobs of these lanes other transactions have, of those that run under a limit. They are locked only to find that out, and not
-- any more when this returns. The locks of these limits are held: without them another claim would start later jobs of such a lane meanwhile.
--
-- lane_ids, wanted: the lanes, and how many jobs of each are wanted. rules: all that are locked. taken: the jobs that others have. counts: how
-- many of each lane are to be had, as many as are wanted at most. short: the lanes with fewer. Behind two hundred jobs that others have it does
-- not look.
CREATE OR REPLACE FUNCTION {schema}.free_jobs(
  queue_name text, lane_ids bigint[], wanted integer[], rules {schema}.limit_rule[], now float8,
  OUT taken bigint[], OUT counts integer[], OUT short bigint[]
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  limited boolean[];
  lanes integer[];
  places tid[];
  seqs bigint[];
  free tid[];
BEGIN
  limited := ARRAY(SELECT EXISTS (SELECT FROM unnest(rules) AS r WHERE r.types IS NULL OR l.type = ANY (r.types))
    FROM unnest(lane_ids) WITH ORDINALITY AS u (id, no) LEFT JOIN LATERAL (SELECT a.type FROM {schema}.lanes a WHERE a.id = u.id OFFSET 0) l ON true
    ORDER BY u.no);
  SELECT array_agg(u.no), array_agg(j.place), array_agg(j.seq) INTO lanes, places, seqs
  FROM unnest(lane_ids, wanted, limited) WITH ORDINALITY AS u (id, n, is_limited, no)
    CROSS JOIN LATERAL (SELECT a.* FROM {schema}.lanes a WHERE a.id = u.id AND u.is_limited OFFSET 0) l
    CROSS JOIN LATERAL {schema}.first_jobs(queue_name, l.type, l.priority, l.keys || l.grp, u.n + 200, now, '{}') j;
  BEGIN
    free := ARRAY(SELECT j.ctid FROM {schema}.jobs j WHERE j.ctid = ANY (places) AND j.state = 'waiting' FOR UPDATE SKIP LOCKED);
    RAISE EXCEPTION USING ERRCODE = 'SL009';
  EXCEPTION WHEN SQLSTATE 'SL009' THEN
    -- Only the locks are undone.
  END;
  taken := ARRAY(SELECT u.seq FROM unnest(seqs, places) AS u (seq, place) WHERE u.place <> ALL (free));
  SELECT array_agg(least(c.n, c.free) ORDER BY c.no), coalesce(array_agg(c.id) FILTER (WHERE c.free < c.n), '{}') INTO counts, short FROM (
    SELECT w.no, w.id, w.n, CASE WHEN w.is_limited THEN (SELECT count(*) FROM unnest(lanes, places) AS u (no, place)
      WHERE u.no = w.no AND u.place = ANY (free))::integer ELSE w.n END AS free
    FROM unnest(lane_ids, wanted, limited) WITH ORDINALITY AS w (id, n, is_limited, no)) c;
END
$$;

-- Writes down what was granted of a plan. Its jobs are locked, and so are the rows of its lanes. Answers with the jobs that have started,
-- in order; whether all waiting workers are to be woken; whether a lane that seemed empty has jobs which another transaction has locked
-- (`taken`); whether events were written; and what is to be confirmed, as opened_claim says it.
--
-- q, plan: what was asked for, and proposed. types: which may start. done: what was granted. began: when the request came; now: when
-- the jobs start. Both by the clock of the storage.
CREATE OR REPLACE FUNCTION {schema}.write_grants(
  q {schema}.claim_request, plan {schema}.claim_plan, types text[], done {schema}.planned_grants, began float8, now float8,
  OUT jobs json, OUT wake_all boolean, OUT taken boolean, OUT published boolean, OUT granted json
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  wanted boolean := {schema}.events_wanted(done.at);
  count integer := cardinality(done.jobs);
  first bigint;
  skew float8;
  number bigint;
  charged record;
  keys {schema}.claim_keys := done.keys;
  -- What each start took of limits, as its job keeps it.
  charges text[];
  -- Is what they hold of a state the same for all of them? Then it is one row.
  alike boolean[];
  state integer;
  refused record;
BEGIN
  jobs := '[]';
  wake_all := false;
  taken := false;
  published := wanted AND count > 0;
  IF count > 0 THEN
    SELECT nextval('{schema}.numbers'), greatest(m.skew, m.last - {schema}.wall()) INTO first, skew FROM {schema}.meta m;
    number := coalesce(plan.number, first);
    charges := array_fill(NULL::text, ARRAY[count]);
    IF done.use_starts <> '{}' THEN
      SELECT * INTO charged FROM {schema}.charge_keys(keys, done.weights, done.starts, done.slots, number, q.grant_ttl, began, now);
      IF charged.confirm_in IS NOT NULL THEN
        granted := json_build_array(number, charged.confirm_in);
      END IF;
      FOR i IN 1 .. cardinality(done.use_starts) LOOP
        state := done.use_states[i];
        charges[done.use_starts[i]] := concat(coalesce(charges[done.use_starts[i]] || ',', '['), '[', charged.ids[state],
          CASE WHEN done.use_weights[i] <> 1 THEN concat(',', charged.entries[state], ',', done.use_weights[i])
            WHEN charged.entries[state] <> 0 THEN ',' || charged.entries[state] END, ']');
      END LOOP;
      FOR i IN 1 .. count LOOP
        charges[i] := charges[i] || ']';
      END LOOP;
      IF done.slot_starts <> '{}' THEN
        alike := array_fill(false, ARRAY[cardinality(keys.states)]);
        FOR k IN 1 .. cardinality(keys.states) LOOP
          IF keys.alike[k] AND done.slots[keys.states[k]] = count THEN
            alike[keys.states[k]] := true;
          END IF;
        END LOOP;
        INSERT INTO {schema}.slots (limit_id, token, slots, at, n)
          SELECT charged.ids[k.state], -first, count, now, count FROM unnest(alike) WITH ORDINALITY AS k (alike, state) WHERE k.alike
          UNION ALL
          SELECT charged.ids[h.state], first + h.start - 1, h.slots, now, 1
            FROM unnest(done.slot_starts, done.slot_states, done.slot_counts) AS h (start, state, slots) WHERE NOT alike[h.state];
      END IF;
    END IF;
    jobs := ({schema}.start_jobs(done.jobs, first, q.queue, q.worker, q.claim, q.lease_ms, NULL, count, wanted, now, skew, charges)).jobs;
  END IF;
  IF done.lanes <> '{}' OR done.emptied <> '{}' THEN
    WITH written AS (
      UPDATE {schema}.lanes l SET
        turn = CASE WHEN w.turn > 0 THEN first + w.turn - 1 ELSE l.turn END,
        served = coalesce(w.served, l.served),
        used_at = CASE WHEN w.gave THEN done.at ELSE l.used_at END,
        ready = CASE WHEN w.emptied THEN {schema}.head_of(l) IS NOT NULL ELSE l.ready END
      FROM (
        SELECT coalesce(g.id, e.id) AS id, g.turn, g.served, g.gave, e.id IS NOT NULL AS emptied
        FROM unnest(done.lanes, done.turns, done.served, done.gave) AS g (id, turn, served, gave)
          FULL JOIN (SELECT DISTINCT u.id FROM unnest(done.emptied) AS u (id)) e ON e.id = g.id
      ) w WHERE l.id = w.id
      RETURNING w.emptied AND l.ready AS taken
    ) SELECT coalesce(bool_or(w.taken), false) INTO taken FROM written w;
  END IF;
  IF done.keyed <> '{}' THEN
    PERFORM {schema}.write_heads(ARRAY(SELECT k FROM unnest(done.keyed) AS k WHERE k = ANY (done.lanes)));
  END IF;
  IF done.refused <> '{}' THEN
    -- They can never fit under a limit, which was made smaller after they had been added.
    SELECT * INTO refused FROM {schema}.end_unstarted(done.refused, ARRAY(
      SELECT json_build_object('name', 'OptionsError', 'code', 'SLUICE_OPTIONS', 'message',
        format('the limit "%s" lets %s start at the most, and the job weighs %s', r.name, r.most, r.weight))
      FROM unnest(done.refused_names, done.refused_most, done.refused_weights) AS r (name, most, weight)), done.at);
    wake_all := {schema}.left_lane(refused.gone);
    published := published OR refused.published;
  END IF;
  IF done.starved_names <> '{}' THEN
    PERFORM {schema}.await_release(done.starved_names, done.starved_grps, q.claimant, done.at);
  END IF;
  IF done.blocked <> '{}' THEN
    INSERT INTO {schema}.gates AS g (name, grp, queue, type, until)
    SELECT b.name, b.grp, q.queue, l.type, min(CASE WHEN b.wait = 'Infinity' THEN 1e18 ELSE done.at + b.wait END)
    FROM unnest(done.blocked, done.blocked_waits, done.blocked_names, done.blocked_grps, done.blocked_heavy) AS b (id, wait, name, grp, heavy)
      JOIN {schema}.lanes l ON l.id = b.id
    WHERE b.heavy IS NULL GROUP BY b.name, b.grp, l.type
    -- Of several lanes at one gate the earliest instant counts.
    ON CONFLICT (name, grp, hashtextextended(queue || chr(31) || type, 0)) DO UPDATE
      SET until = CASE WHEN g.until > done.at THEN least(g.until, excluded.until) ELSE excluded.until END;
    -- A head that waited already keeps its place.
    UPDATE {schema}.lanes l SET blocked_until = CASE WHEN b.heavy IS NULL OR b.wait = 'Infinity' THEN 1e18 ELSE done.at + b.wait END,
      blocked_by = b.name, blocked_grp = b.grp, heavy = b.heavy,
      heavy_since = CASE WHEN l.heavy IS NOT DISTINCT FROM b.heavy AND (l.blocked_by, l.blocked_grp) IS NOT DISTINCT FROM (b.name, b.grp)
          THEN l.heavy_since
        WHEN b.heavy IS NULL THEN done.at
        -- Later than those that the key refused before, at one instant too.
        ELSE greatest(done.at, (SELECT max(o.heavy_since) FROM {schema}.lanes o
            WHERE o.blocked_by = b.name AND o.blocked_grp = b.grp AND o.blocked_until IS NOT NULL AND o.heavy IS NOT NULL))
          + 0.001 * b.place END
    FROM unnest(done.blocked, done.blocked_waits, done.blocked_names, done.blocked_grps, done.blocked_heavy)
      WITH ORDINALITY AS b (id, wait, name, grp, heavy, place)
    WHERE l.id = b.id;
  END IF;
  -- Lanes that waited only behind what has started now may start, and those behind what leaves to others what it cannot use.
  IF done.freed_names <> '{}' THEN
    UPDATE {schema}.gates g SET until = done.at FROM unnest(done.freed_names, done.freed_grps) AS f (name, grp)
    WHERE g.name = f.name AND g.grp = f.grp;
    wake_all := wake_all OR FOUND;
  END IF;
END
$$;
