-- What the next plan of a claim is made from, and what its answer is about (storages/postgres/jobs/snapshot.ts): as it is now, with no
-- lock. Of each type the first ready lanes in the order of their turns, with all that have their turns with them, and a few heads of
-- each; the numbers of all limits that these fall under; who waits for a limit that weighs; which blocked lane of each type is
-- let go on first; what comes due.
--
-- q, plan: what was asked for, and proposed before. types: those that may start; paused: as `pauses` says it, or NULL. epoch: the
-- number of the rules; they are told where the plan was made with others. busy: another transaction has something that might
-- start. changed: something of the plan was done; again: not all of it. outside: some arrivals are not folded yet. now: the time.
CREATE OR REPLACE FUNCTION {schema}.snapshot(
  q {schema}.claim_request, plan {schema}.claim_plan, types text[], paused text[], epoch bigint, busy boolean, changed boolean,
  again boolean, outside boolean, now float8
) RETURNS json
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- How far ahead scheduled jobs are looked through.
  ahead CONSTANT integer := 64;
  page integer := least(1000, greatest(plan.page, 1));
  each integer;
  lanes json; lines json; heads json; due json; states json; heavy json; blocked json;
  -- Lanes that may be taken from; the groups of all, as lanes say it.
  ids bigint[]; r_types text[]; r_priorities float8[]; r_grps text[];
  grps text[];
  due_types text[];
  rules {schema}.limit_rule[];
  rule {schema}.limit_rule;
  meter {schema}.limit_meter;
  -- One for each rule, and for each group where it is by group: whose state, its window and how much fits there, and whether what is
  -- held is asked for. How much is to fit: the heaviest head, after all that a plan may take before it.
  names text[] := '{}'; s_grps text[] := '{}'; windows float8[] := '{}'; maxima float8[] := '{}'; holding boolean[] := '{}';
  weights float8[] := '{}';
  heaviest float8;
  latest float8;
  -- Do some of the rules weigh? May they block lanes?
  weighs boolean := false;
  blocks boolean := false;
BEGIN
  WITH read AS MATERIALIZED (
    SELECT p.* FROM {schema}.walk_page(q.queue, q.types, types, array_fill(page, ARRAY[cardinality(types)]),
      array_fill(0, ARRAY[cardinality(types)]), '{}') AS p
  )
  SELECT coalesce(json_agg(json_build_array(p.id, p.type, p.priority, CASE WHEN p.grp <> '' THEN substr(p.grp, 2) END, p.turn, p.served,
        CASE WHEN p.ready AND NOT p.blocked AND p.type = ANY (types) THEN 1 ELSE 0 END, p.unit, p.heavy, p.heavy_by, p.heavy_since)), '[]'),
      array_agg(p.id) FILTER (WHERE p.ready AND NOT p.blocked AND p.type = ANY (types)),
      array_agg(p.type) FILTER (WHERE p.ready AND NOT p.blocked AND p.type = ANY (types)),
      array_agg(p.priority) FILTER (WHERE p.ready AND NOT p.blocked AND p.type = ANY (types)),
      array_agg(p.grp) FILTER (WHERE p.ready AND NOT p.blocked AND p.type = ANY (types)), array_agg(DISTINCT p.grp),
      (SELECT coalesce(json_agg(json_build_array(types[o.line], o.ids)), '[]') FROM (
        SELECT f.line, array_agg(f.id ORDER BY f.rank) AS ids FROM read f WHERE f.line IS NOT NULL GROUP BY f.line) o)
    INTO lanes, ids, r_types, r_priorities, r_grps, grps, lines FROM read p;
  each := least(1000, ceil((least(q.max, 10000) + 1) / greatest(1, cardinality(ids))::float8) + 1);
  SELECT coalesce(json_agg(json_build_array(h.id, h.heads)), '[]'), max(h.count) INTO heads, heaviest FROM (
    SELECT r.id, json_agg(json_build_array(j.due_at, j.seq, j.bytes, j.weights) ORDER BY j.due_at, j.seq) AS heads, count(*) AS count
    FROM unnest(ids, r_types, r_priorities, r_grps) AS r (id, type, priority, grp) CROSS JOIN LATERAL (
      (SELECT k.due_at, k.seq, octet_length(k.data) AS bytes, k.weights FROM {schema}.jobs k
        WHERE r.grp = '' AND k.queue = q.queue AND k.type = r.type AND k.priority = r.priority AND k.state = 'waiting'
          AND k.grp IS NULL AND (k.deadline IS NULL OR k.deadline > now)
        ORDER BY k.due_at, k.seq LIMIT each)
      UNION ALL
      (SELECT k.due_at, k.seq, octet_length(k.data) AS bytes, k.weights FROM {schema}.jobs k
        WHERE r.grp <> '' AND k.queue = q.queue AND k.type = r.type AND k.priority = r.priority AND k.state = 'waiting'
          AND k.grp IS NOT NULL AND k.grp = substr(r.grp, 2) AND (k.deadline IS NULL OR k.deadline > now)
        ORDER BY k.due_at, k.seq LIMIT each)
    ) j GROUP BY r.id
  ) h;
  SELECT coalesce(json_agg(json_build_array(c.type, c.due_at) ORDER BY c.due_at), '[]'), array_agg(DISTINCT c.type)
    INTO due, due_types FROM (
      SELECT j.type, j.due_at FROM {schema}.jobs j WHERE j.queue = q.queue AND j.state = 'scheduled' ORDER BY j.due_at LIMIT ahead
    ) c;

  rules := {schema}.rules_for(q.queue, types || CASE WHEN q.types IS NULL THEN due_types END, q.limits);
  FOREACH rule IN ARRAY rules LOOP
    weighs := weighs OR rule.weight IS NOT NULL;
    blocks := blocks OR rule.by_group OR rule.weight IS NOT NULL;
    heaviest := 1;
    IF rule.weight IS NOT NULL THEN
      SELECT greatest(rule.estimate, max((w.value ->> rule.weight)::float8)) INTO heaviest
        FROM json_array_elements(heads) AS h, json_array_elements(h.value -> 1) AS j, LATERAL (SELECT j.value -> 3 AS value) w;
    END IF;
    FOREACH meter IN ARRAY CASE WHEN rule.by_group THEN
      ARRAY(SELECT {schema}.meter_of(rule, CASE WHEN g <> '' THEN substr(g, 2) END) FROM unnest(grps) AS g)
      ELSE ARRAY[{schema}.meter_of(rule, NULL)] END
    LOOP
      names := names || rule.name;
      s_grps := s_grps || {schema}.state_grp(rule.by_group, meter.grp);
      windows := windows || CASE WHEN meter.max IS NOT NULL THEN meter.window_ms END;
      maxima := maxima || meter.max;
      holding := holding || meter.holds;
      weights := weights || heaviest + CASE WHEN rule.weight IS NULL THEN least(q.max, 10000) ELSE coalesce(meter.max, 0) END;
    END LOOP;
  END LOOP;
  states := '[]';
  heavy := '[]';
  blocked := '[]';
  WHILE names <> '{}' LOOP
    SELECT coalesce(json_agg(json_build_array(names[k.place], s_grps[k.place], windows[k.place], k.used, (k.account).held,
          (k.account).probes, nullif((k.account).expires_in, 'Infinity'), (k.account).latest_at, (k.account).called_at,
          (k.account).called_by, (k.account).called_in, (k.account).pause_until, (k.account).told_left, (k.account).told_until,
          (k.account).open_until, (k.account).forgotten_at,
          CASE WHEN (k.account).id IS NOT NULL AND k.used + weights[k.place] > maxima[k.place] THEN {schema}.leaving((k.account).id,
            windows[k.place], least(k.used, k.used + weights[k.place] - maxima[k.place]), now) END,
          CASE WHEN q.grant_ttl IS NOT NULL AND (k.account).id IS NOT NULL AND k.used + weights[k.place] > maxima[k.place] THEN (
            SELECT {schema}.expected_delay(s.at - s.began, windows[k.place]) FROM {schema}.starts s
            WHERE s.limit_id = (k.account).id AND s.claim IS NULL AND s.n > 0 ORDER BY s.at DESC, s.seq DESC LIMIT 1) END)), '[]'),
        max(k.latest)
      INTO states, latest FROM {schema}.kept_accounts(names, s_grps, windows, holding, now) AS k;
    EXIT WHEN latest IS NULL OR latest <= now;
    now := latest;
  END LOOP;
  IF weighs THEN
    SELECT coalesce(json_agg(json_build_array(r.name, CASE WHEN r.by_group THEN h.grp END, h.lane, h.priority, h.until, h.since)), '[]')
      INTO heavy FROM unnest(rules) AS r CROSS JOIN LATERAL {schema}.heavy_heads(r.name, NULL, now) AS h WHERE r.weight IS NOT NULL;
  END IF;
  IF blocks THEN
    SELECT coalesce(json_agg(json_build_array(t.type, CASE WHEN f.grp <> '' THEN substr(f.grp, 2) END, f.blocked_by, f.blocked_until)
        ORDER BY t.place), '[]')
      INTO blocked FROM unnest(types) WITH ORDINALITY AS t (type, place) CROSS JOIN LATERAL {schema}.first_blocked(q.queue, t.type) AS f
      WHERE f.id IS NOT NULL;
  END IF;
  RETURN json_build_object('now', now, 'epoch', epoch, 'page', page, 'each', each, 'types', types, 'paused', paused, 'lanes', lanes, 'lines', lines,
    'heads', heads, 'states', states, 'heavy', heavy, 'blocked', blocked, 'due', due, 'busy', busy, 'changed', changed, 'again', again, 'outside', outside,
    'rules', CASE WHEN plan.epoch IS DISTINCT FROM epoch THEN (
      SELECT coalesce(json_agg(r.rule ORDER BY r.name), '[]') FROM {schema}.rules r
      WHERE r.queues IS NULL OR q.queue = ANY (r.queues)) END);
END
$$;
