-- What the next plan of a claim is made from. No locks.

-- What the next plan of a claim is made from, and what its answer is about (storages/postgres/jobs/snapshot.ts): as it is now, with no
-- lock. STABLE, so that all its statements see one instant: a lane that another claim moves to or from a gate meanwhile is at one of both.
-- Of each type the first ready lanes in the order of their turns, with all that have their turns with them, and a few heads of
-- each; blocked lanes that come due before the snapshot is too old; the types and priorities whose lanes take no turns, for they differ only
-- in their keys and there are no groups; the numbers of all limits that the ready ones fall under; the heavy heads
-- that wait for a limit; which blocked lane of each type is let go on first; what comes due.
--
-- q, plan: what was asked for, and proposed before. types: those that may start; paused: as `pauses` says it, or NULL. epoch: the
-- number of the rules; they are part of the answer where the plan was made with others. busy: another transaction has something that might
-- start; stuck: the lanes in which it has jobs of the plan. changed: something of the plan was done; again: not all of it. outside: some arrivals are not folded yet. now: the time.
CREATE OR REPLACE FUNCTION {schema}.snapshot(
  q {schema}.claim_request, plan {schema}.claim_plan, types text[], paused text[], epoch bigint, busy boolean, stuck bigint[],
  changed boolean, again boolean, outside boolean, now float8
) RETURNS json
LANGUAGE plpgsql STABLE AS $$
DECLARE
  -- How far ahead scheduled jobs are looked through.
  ahead CONSTANT integer := 64;
  -- So long a snapshot is used (FRESH_MS in jobs/take.ts).
  fresh_ms CONSTANT float8 := 1000;
  page integer := least(1000, greatest(plan.page, 1));
  each integer;
  lanes json; lines json; due json; states json; heavy json; blocked json; unturned json;
  -- The first lanes of each type, and how many; those that come due soon, and when; the groups and keys of all, as lanes say it.
  ids bigint[];
  counts integer[];
  soon bigint[] := '{}';
  soon_at float8[] := '{}';
  more_soon record;
  ruled boolean;
  -- Do lanes wait for limits?
  waiting boolean;
  grps text[];
  lane_keys text[];
  keyed boolean;
  due_types text[];
  -- Those for all, then those by group.
  rules {schema}.limit_rule[] := '{}';
  all_count integer;
  weighs boolean := false;
  -- The weights of the heaviest heads, by their names; and what each rule has to fit.
  most jsonb; heaviest float8[] := '{}';
  -- States that matter: others leave all that a plan may start. How much is to fit: the heaviest head, after all before it.
  names text[]; s_grps text[]; windows float8[]; maxima float8[]; holding boolean[]; weights float8[];
  latest float8;
BEGIN
  SELECT EXISTS (SELECT FROM {schema}.rules), EXISTS (SELECT FROM {schema}.lanes l WHERE l.queue = q.queue AND l.keys <> ''),
    EXISTS (SELECT FROM {schema}.gates g WHERE g.queue = q.queue)
      OR EXISTS (SELECT FROM {schema}.lanes l WHERE l.queue = q.queue AND l.blocked_until IS NOT NULL AND l.heavy IS NOT NULL)
  INTO ruled, keyed, waiting;
  WITH first AS MATERIALIZED (
    SELECT t.type, t.place, l.id, l.nth FROM unnest(types) WITH ORDINALITY AS t (type, place) LEFT JOIN LATERAL (
      SELECT f.id, row_number() OVER () AS nth FROM (SELECT a.id FROM {schema}.lanes a
        WHERE a.queue = q.queue AND a.type = t.type AND a.ready AND a.blocked_until IS NULL
        ORDER BY a.priority DESC, a.turn, a.own, a.head_at, a.head_seq LIMIT page) f) l ON true
  )
  SELECT (SELECT coalesce(array_agg(f.id), '{}') FROM first f WHERE f.id IS NOT NULL), array_agg(g.count ORDER BY g.place),
      coalesce(json_agg(json_build_array(g.type, g.ids) ORDER BY g.place) FILTER (WHERE g.count > 0), '[]')
    INTO ids, counts, lines FROM (
      SELECT f.type, f.place, count(f.id)::integer AS count, array_agg(f.id ORDER BY f.nth) AS ids FROM first f GROUP BY 1, 2) g;
  IF waiting THEN
    FOR t IN 1 .. cardinality(types) LOOP
      SELECT array_agg(b.id) AS ids, array_agg(b.until) AS ats INTO more_soon FROM (
        -- Heavy heads whose instant has come have their turns among the others: the claim that takes the plan opens their lanes first.
        (SELECT l.id, l.blocked_until AS until FROM {schema}.lanes l
          WHERE l.queue = q.queue AND l.type = types[t] AND l.blocked_until IS NOT NULL AND l.heavy IS NOT NULL AND l.blocked_until <= now
          ORDER BY l.priority DESC, l.turn, l.own, l.head_at, l.head_seq LIMIT page)
        UNION ALL
        (SELECT s.id, s.until FROM (
            (SELECT l.id, l.blocked_until AS until FROM {schema}.lanes l
              WHERE counts[t] < page AND l.queue = q.queue AND l.type = types[t] AND l.blocked_until IS NOT NULL AND l.heavy IS NOT NULL
                AND l.blocked_until > now AND l.blocked_until <= now + fresh_ms
              ORDER BY l.blocked_until LIMIT page)
            UNION ALL
            (SELECT l.id, g.until FROM (
                SELECT o.* FROM {schema}.gates o
                WHERE counts[t] < page AND o.queue = q.queue AND o.type = types[t] AND o.until <= now + fresh_ms
                ORDER BY o.until LIMIT least(page, 100)) g
              CROSS JOIN LATERAL (SELECT a.id FROM {schema}.lanes a
                WHERE {schema}.stands_at(a, g.name, g.grp, q.queue, types[t])
                ORDER BY a.priority DESC, a.turn, a.own, a.head_at, a.head_seq LIMIT page) l
              ORDER BY g.until)) s
          ORDER BY s.until LIMIT page - counts[t])) b;
      IF more_soon.ids IS NOT NULL THEN
        soon := soon || more_soon.ids;
        soon_at := soon_at || more_soon.ats;
      END IF;
    END LOOP;
  END IF;
  ids := ids || soon;
  each := least(1000, ceil((least(q.max, 10000) + 1) / greatest(1, cardinality(ids))::float8) + 1);
  IF cardinality(types) > 1 THEN
    -- Of lanes with keys those that have the first jobs of each type.
    ids := ARRAY(SELECT unnest(ids) UNION SELECT n.id FROM (SELECT DISTINCT l.priority, l.grp FROM {schema}.lanes l WHERE l.id = ANY (ids)) u
      CROSS JOIN LATERAL (
        SELECT a.id FROM {schema}.lanes a WHERE a.queue = q.queue AND a.priority = u.priority AND a.grp = u.grp AND a.keys = ''
          AND (q.types IS NULL OR a.type = ANY (q.types))
        UNION ALL
        SELECT f.id FROM unnest(CASE WHEN keyed THEN types END) AS t (type) CROSS JOIN LATERAL (
          SELECT a.id FROM {schema}.lanes a WHERE a.queue = q.queue AND a.priority = u.priority AND a.grp = u.grp AND a.type = t.type
            AND a.keys <> '' AND a.ready AND a.blocked_until IS NULL
          ORDER BY a.head_at, a.head_seq LIMIT page) f) n);
  END IF;
  SELECT coalesce(json_agg(json_build_array(l.id, l.type, l.priority, CASE WHEN l.grp <> '' THEN substr(l.grp, 2) END, l.turn, l.served,
      l.heavy, l.blocked_by, l.heavy_since, CASE WHEN l.ready AND (l.blocked_until IS NULL OR l.id = ANY (soon)) AND (':' || l.type = ANY (paused)) IS NOT TRUE THEN coalesce((
        SELECT json_agg(json_build_array(j.due_at, j.seq, j.bytes, j.weights))
        FROM {schema}.first_jobs(q.queue, l.type, l.priority, l.keys || l.grp, each, now, '{}') j), '[]') END,
      CASE WHEN l.blocked_until IS NOT NULL THEN coalesce(soon_at[array_position(soon, l.id)], 1e18) END,
      nullif(l.keys, ''), l.own, l.blocked_grp)), '[]'), array_agg(DISTINCT l.grp) FILTER (WHERE l.blocked_until IS NULL)
    INTO lanes, grps FROM {schema}.lanes l WHERE l.id = ANY (ids);
  SELECT coalesce(json_agg(json_build_array(c.type, c.due_at) ORDER BY c.due_at), '[]'), array_agg(DISTINCT c.type)
    INTO due, due_types FROM (
      SELECT j.type, j.due_at FROM {schema}.jobs j WHERE j.queue = q.queue AND j.state = 'scheduled' ORDER BY j.due_at LIMIT ahead
    ) c;

  IF ruled OR q.limits <> '[]' THEN
    rules := {schema}.rules_for(q.queue, types || CASE WHEN q.types IS NULL THEN due_types END, q.limits);
  END IF;
  lane_keys := '{}';
  IF keyed THEN
    SELECT array_agg(g.grp), array_agg(g.keys) INTO grps, lane_keys FROM (
      SELECT DISTINCT l.grp, l.keys FROM {schema}.lanes l WHERE l.id = ANY (ids)
        AND (l.blocked_until IS NULL OR (l.keys <> '' AND l.id = ANY (soon)))) g;
    SELECT json_agg(DISTINCT jsonb_build_array(l.type, l.priority)) INTO unturned
    FROM unnest(ids) AS i (id) CROSS JOIN LATERAL (SELECT a.* FROM {schema}.lanes a WHERE a.id = i.id OFFSET 0) l
    WHERE l.grp = ''
      AND (EXISTS (SELECT FROM {schema}.lanes a WHERE a.queue = q.queue AND a.priority = l.priority AND a.grp = '' AND a.type = l.type
          AND a.keys <> '' AND a.id <> l.id)
        OR (l.keys <> '' AND EXISTS (SELECT FROM {schema}.lanes a WHERE a.queue = q.queue AND a.priority = l.priority AND a.grp = ''
          AND a.keys = '' AND a.type = l.type)))
      AND NOT EXISTS (SELECT FROM {schema}.lanes a WHERE a.queue = q.queue AND a.priority = l.priority AND a.grp > '');
  END IF;
  names := '{}';
  IF cardinality(rules) > 0 THEN
    SELECT coalesce(array_agg(r ORDER BY r.by_group), '{}'), count(*) FILTER (WHERE NOT r.by_group),
        coalesce(bool_or(r.weight IS NOT NULL), false)
      INTO rules, all_count, weighs FROM unnest(rules) AS r;
    IF weighs THEN
      -- All heads once: of hundreds of rules that weigh, each would look through all of them.
      SELECT jsonb_object_agg(h.name, h.most) INTO most FROM (
        SELECT w.key AS name, max(w.value::float8) AS most
        FROM json_array_elements(lanes) AS l, json_array_elements(nullif((l.value -> 9)::text, 'null')::json) AS j,
          json_each_text(nullif((j.value -> 3)::text, 'null')::json) AS w GROUP BY w.key) AS h;
      FOR r IN 1 .. cardinality(rules) LOOP
        CONTINUE WHEN (rules[r]).weight IS NULL;
        heaviest[r] := greatest((rules[r]).estimate, (most ->> (rules[r]).weight)::float8);
      END LOOP;
    END IF;
    SELECT coalesce(array_agg(k.name), '{}'), array_agg(k.grp), array_agg(k.window_ms), array_agg(k.max), array_agg(k.takes_slots),
        array_agg(coalesce(heaviest[k.rule], 1) + CASE WHEN k.weight IS NULL THEN least(q.max, 10000) ELSE coalesce(k.max, 0) END)
      INTO names, s_grps, windows, maxima, holding, weights
      FROM {schema}.quotas_of(rules, all_count, grps, lane_keys) AS k
        CROSS JOIN LATERAL (SELECT o.* FROM {schema}.limits o WHERE o.name = k.name AND o.grp = k.grp LIMIT 1) l
      WHERE k.weight IS NOT NULL OR k.every_ms IS NOT NULL OR l.longest < k.window_ms OR l.window_ms <> k.window_ms
        OR (k.probes IS NOT NULL AND l.open_until IS NOT NULL)
        OR greatest(l.held_until, l.remaining_until, l.forgotten_at + k.window_ms + 1) > now
        OR l.used + q.max >= k.max OR l.held + q.max >= k.concurrency
        OR (k.concurrency IS NOT NULL AND EXISTS (SELECT FROM {schema}.slots h WHERE h.limit_id = l.id AND h.until > now));
    IF keyed THEN
      -- Lanes with different keys may fall under one state.
      SELECT coalesce(array_agg(d.name), '{}'), array_agg(d.grp), array_agg(d.window_ms), array_agg(d.max), array_agg(d.takes_slots), array_agg(d.weight)
        INTO names, s_grps, windows, maxima, holding, weights FROM (SELECT DISTINCT u.*
          FROM unnest(names, s_grps, windows, maxima, holding, weights) AS u (name, grp, window_ms, max, takes_slots, weight)) d;
    END IF;
  END IF;
  states := '[]';
  heavy := '[]';
  blocked := '[]';
  WHILE cardinality(names) > 0 LOOP
    SELECT coalesce(json_agg(json_build_array(k.name, k.grp, k.window_ms, k.used, k.slots, k.probes, k.expires_in, k.latest_at, k.called_at,
          k.called_by, k.called_in, k.held_until, k.remaining, k.remaining_until, k.open_until, k.forgotten_at,
          CASE WHEN k.used + k.weight > k.max THEN {schema}.leaving_list(k.id, k.window_ms, least(k.used, k.used + k.weight - k.max), now) END,
          CASE WHEN q.grant_ttl IS NOT NULL AND k.used + k.weight > k.max THEN {schema}.latest_delay(k.id, k.window_ms) END, k.awaited,
          k.starved, k.others)), '[]'),
        max(k.latest)
      INTO states, latest FROM (
        SELECT a.name, a.grp, a.window_ms, a.max, a.weight, l.id, l.latest_at, l.called_at, l.called_by, l.called_in, l.held_until,
          l.remaining, l.remaining_until, l.open_until, l.forgotten_at, l.awaited OR NOT a.takes_slots AS awaited,
          coalesce(l.starved_by IN (q.claimant, 'several'), q.claimant IS NULL) OR NOT a.takes_slots AS starved,
          CASE WHEN l.starved_by <> q.claimant THEN greatest(1, now - l.starved_since) END AS others,
          greatest(l.newest, l.latest_at) AS latest,
          CASE WHEN a.window_ms IS NOT NULL THEN {schema}.window_used(l.id, l.window_ms, l.used, l.seen_at, a.window_ms, now) END AS used,
          CASE WHEN a.takes_slots THEN l.held + coalesce(h.slots, 0) END AS slots, CASE WHEN a.takes_slots THEN h.until - now END AS expires_in,
          CASE WHEN a.takes_slots AND l.open_until IS NOT NULL THEN (SELECT count(*) FROM {schema}.slots o
            WHERE o.limit_id = l.id AND o.at >= l.open_until AND (o.until IS NULL OR o.until > now)) END AS probes
        FROM unnest(names, s_grps, windows, maxima, holding, weights) AS a (name, grp, window_ms, max, takes_slots, weight)
          CROSS JOIN LATERAL (SELECT o.* FROM {schema}.limits o WHERE o.name = a.name AND o.grp = a.grp LIMIT 1) l
          LEFT JOIN LATERAL (SELECT sum(o.slots) AS slots, min(o.until) AS until FROM {schema}.slots o
            WHERE a.takes_slots AND o.limit_id = l.id AND o.until > now) h ON true
        OFFSET 0
      ) k;
    EXIT WHEN latest IS NULL OR latest <= now;
    now := latest;
  END LOOP;
  IF weighs THEN
    -- Of the states that the lanes fall under: under a limit by group very many others may have some.
    SELECT coalesce(json_agg(json_build_array(r.name, h.grp, h.lane, h.priority, h.until, h.since)), '[]')
      INTO heavy FROM (
        SELECT r.name, array_agg(DISTINCT {schema}.state_of(r, substr(nullif(l.grp, ''), 2), l.keys)) AS grps
        FROM unnest(rules) AS r CROSS JOIN (SELECT a.grp, a.keys FROM {schema}.lanes a WHERE a.id = ANY (ids) GROUP BY 1, 2) l
        WHERE r.weight IS NOT NULL GROUP BY r.name
      ) r CROSS JOIN LATERAL {schema}.heavy_heads(r.name, r.grps, now) AS h;
  END IF;
  IF waiting THEN
    SELECT coalesce(json_agg(json_build_array(t.type, f.grp, f.name, f.until) ORDER BY t.place), '[]')
      INTO blocked FROM unnest(types) WITH ORDINALITY AS t (type, place) CROSS JOIN LATERAL (
        SELECT b.* FROM (
          (SELECT b.blocked_by AS name, b.blocked_grp AS grp, b.blocked_until AS until FROM (SELECT l FROM {schema}.lanes l
            WHERE l.queue = q.queue AND l.type = t.type AND l.blocked_until IS NOT NULL AND l.heavy IS NOT NULL
              -- The plan asks those whose instant has come.
              AND (l.blocked_until > now OR l.id <> ALL (soon))
            ORDER BY l.blocked_until LIMIT 10) r CROSS JOIN LATERAL (SELECT (r.l).*) b
          WHERE {schema}.head_of(r.l) IS NOT NULL ORDER BY b.blocked_until LIMIT 1)
          UNION ALL
          -- Lanes whose jobs were cancelled or removed stay until their gate opens.
          (SELECT g.name, g.grp, g.until FROM (SELECT o.* FROM {schema}.gates o WHERE o.queue = q.queue AND o.type = t.type
                AND EXISTS (SELECT FROM {schema}.lanes l
                  WHERE {schema}.stands_at(l, o.name, o.grp, q.queue, t.type) OFFSET 0)
              ORDER BY o.until LIMIT 10) g
            -- One that is open is looked at, whatever its lanes are; of very many lanes some have jobs.
            WHERE EXISTS (SELECT FROM (SELECT l, row_number() OVER () AS nth FROM {schema}.lanes l
              WHERE {schema}.stands_at(l, g.name, g.grp, q.queue, t.type)
              LIMIT 11) r WHERE g.until <= now OR r.nth > 10 OR {schema}.head_of(r.l) IS NOT NULL)
            ORDER BY g.until LIMIT 1)
          UNION ALL
          -- Of very many gates where lanes stand, the first.
          (SELECT o.name, o.grp, o.until FROM {schema}.gates o WHERE o.queue = q.queue AND o.type = t.type
              AND EXISTS (SELECT FROM {schema}.lanes l
                WHERE {schema}.stands_at(l, o.name, o.grp, q.queue, t.type) OFFSET 0)
            ORDER BY o.until OFFSET 10 LIMIT 1)
        ) b ORDER BY b.until LIMIT 1) f;
  END IF;
  RETURN json_build_object('now', now, 'epoch', epoch, 'page', page, 'each', each, 'unturned', unturned, 'types', types, 'paused', paused, 'lanes', lanes,
    'lines', lines,
    'states', states, 'heavy', heavy, 'blocked', blocked, 'due', due, 'busy', busy, 'stuck', stuck, 'changed', changed, 'again', again, 'outside', outside,
    'rules', CASE WHEN plan.epoch IS DISTINCT FROM epoch THEN (
      SELECT coalesce(json_agg(r.rule ORDER BY r.name), '[]') FROM {schema}.rules r
      WHERE r.queues IS NULL OR q.queue = ANY (r.queues)) END);
END
$$;
