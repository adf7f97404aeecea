-- Claims: what a worker settles, confirms and takes in one step.
--
-- Locks: the rules (shared), the rows of the jobs that are settled, then all limits that the claim may write to, sorted. After these nothing
-- is waited for; jobs are taken with SKIP LOCKED.

-- Settles, then takes jobs and charges their limits, together.
--
-- request: {claim, queue, worker, max, prefetch, bytes, types, lease_ms, limits, settle, grant_ttl, grants, called, plan, claimant} (jobs/claim.ts); claim: a
-- number of its own for this request, by which the first attempt at it excludes later ones and is fenced off, as by begin_attempt; later
-- ones call that before. grant_ttl: what it starts is called within so long, and that is confirmed. grants, called: what
-- is confirmed first (limits/starts.sql). What is to be settled is a list, as lock_leases takes it, or, where all of it ended well, {ids, tokens, results}, as
-- complete_fast does. again: an earlier call of this request may have been done: the jobs that it has started are answered,
-- and no others are taken.
--
-- Almost always nothing is special: no listeners, no limits, no groups, nothing that comes due. One statement finds that out. Where
-- there are limits, and nothing else, claim_uniform goes on. The rest is for claim_general.
--
-- Answer: {jobs: as start_jobs, or a list as job_json, stale: numbers of outcomes, more, nextInMs, blockedBy, woken, wakeAll,
-- events, ends, grant: what is to be confirmed, and others, as opened_claim says it, snapshot: of one that came with a plan, where groups or
-- limits make lanes necessary: what the next plan is made from, and more, nextInMs and blockedBy (snapshot.sql)}.
CREATE OR REPLACE FUNCTION {schema}.claim_{version}(request json, again boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
  SET enable_indexscan = on SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
  SET enable_memoize = off AS $$
DECLARE
  -- Before anything is waited for.
  arrived float8 := {schema}.wall();
  q {schema}.claim_request;
  sign {schema}.claim_signs;
  now float8;
  done bigint[];
  answer text;
  before bigint := {schema}.passed();
  types text[];
BEGIN
  -- The lock of the rules, as begin_step takes it.
  IF current_setting('transaction_isolation') <> 'read committed' OR current_setting('lock_timeout') = '0' THEN
    PERFORM {schema}.begin_step();
  END IF;
  SELECT r.*, arrived, NOT again AND NOT pg_try_advisory_xact_lock(r.claim),
    pg_advisory_xact_lock_shared({schema}.lock_key('rules', '')) IS NULL
  INTO q FROM json_to_record(request) AS r (claim bigint, queue text,
      worker text, max integer, prefetch integer, bytes float8, types text[], lease_ms float8, limits jsonb, settle json, ids text[],
      tokens bigint[], results jsonb, grant_ttl float8, grants bigint[], called float8[], plan json, claimant text);
  IF again THEN
    -- A sweep that has begun with these jobs is waited for, and a later one passes over them: each is active below, or gets its attempt
    -- back here.
    PERFORM FROM {schema}.jobs j WHERE j.state = 'active' AND j.claim = q.claim AND j.worker = q.worker ORDER BY j.id FOR UPDATE;
    PERFORM {schema}.unspend_claim_{version}(q.claim);
  END IF;
  SELECT m.last, greatest(m.last, {schema}.wall() + m.skew),
    EXISTS (SELECT FROM {schema}.rules),
    EXISTS (SELECT FROM {schema}.listeners l WHERE l.events AND l.until > m.last),
    EXISTS (SELECT FROM {schema}.pauses p WHERE p.queue = q.queue),
    EXISTS (SELECT FROM {schema}.claims c WHERE c.queue = q.queue),
    (SELECT j.due_at FROM {schema}.jobs j WHERE j.queue = q.queue AND j.state = 'scheduled' ORDER BY j.due_at LIMIT 1),
    (SELECT j.deadline FROM {schema}.jobs j WHERE j.deadline IS NOT NULL AND j.state IN ('waiting', 'scheduled')
      ORDER BY j.deadline LIMIT 1),
    coalesce((SELECT true FROM {schema}.lanes l WHERE l.queue = q.queue AND l.ready AND l.blocked_until IS NULL AND l.keys || l.grp <> ''
      ORDER BY l.type, l.priority DESC, l.turn, l.own LIMIT 1),
    (SELECT true FROM {schema}.arrivals a WHERE a.queue = q.queue ORDER BY a.type, a.priority DESC, a.seq LIMIT 1),
    CASE WHEN EXISTS (SELECT FROM {schema}.gates g WHERE g.queue = q.queue) THEN
      {schema}.any_open_gate(q.queue, greatest(m.last, {schema}.wall() + m.skew)) END, false),
    (SELECT j.keep_for IS DISTINCT FROM 0 FROM {schema}.jobs j WHERE j.id = q.ids[1]),
    k.has_cursors,
    CASE WHEN q.types IS NULL AND NOT k.has_cursors THEN (SELECT j.type FROM {schema}.jobs j
      WHERE j.queue = q.queue AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL ORDER BY j.type DESC LIMIT 1) END,
    h.*,
    NOT again AND EXISTS (SELECT FROM {schema}.steps s WHERE s.number = q.claim)
  INTO sign FROM {schema}.meta m
  CROSS JOIN (SELECT EXISTS (SELECT FROM {schema}.scan_cursors k WHERE k.queue = q.queue) AS has_cursors OFFSET 0) k
  LEFT JOIN LATERAL (SELECT j.type, j.priority, j.due_at, j.seq FROM {schema}.jobs j
    WHERE NOT k.has_cursors AND j.queue = q.queue AND j.type >= coalesce(q.types[1], '') AND j.state = 'waiting' AND j.grp IS NULL AND j.keys IS NULL
    ORDER BY j.type, j.priority DESC, j.due_at, j.seq LIMIT 1) h ON true;
  IF q.overtaken OR sign.overtaken THEN
    RAISE EXCEPTION 'a later attempt at this claim came before this one' USING ERRCODE = 'SL002';
  END IF;
  IF NOT sign.has_cursors AND {schema}.passed_many(before, false) THEN
    PERFORM {schema}.set_cursor(q.queue, sign.head_type, sign.head_priority, sign.head_due_at, sign.head_seq, sign.now);
  END IF;
  IF again OR sign.has_cursors OR sign.heard OR sign.paused OR sign.remembered OR sign.lanes OR sign.due_at <= sign.now
    OR sign.deadline <= sign.now OR q.settle IS NOT NULL OR q.limits <> '[]'
    OR (q.grants IS NOT NULL AND NOT sign.ruled)
  THEN
    RETURN {schema}.claim_general(q, sign, NULL, again);
  END IF;
  now := sign.now;
  IF q.ids IS NOT NULL THEN
    done := {schema}.complete_fast(q.ids, q.tokens, q.results, sign.keeps, now);
    IF cardinality(done) < cardinality(q.ids) THEN
      RETURN {schema}.claim_general(q, sign, done, again);
    END IF;
  END IF;
  IF sign.ruled THEN
    answer := {schema}.claim_uniform(q, sign);
    IF answer IS NOT NULL THEN
      RETURN answer;
    END IF;
  END IF;
  -- The last time seen is the time where the clock was set back: that is to be written down, or the time stands still.
  IF now >= sign.last + 100 OR now = sign.last THEN
    now := {schema}.moment();
  END IF;

  IF cardinality(q.types) = 1 OR (q.types IS NULL AND sign.head_type IS NOT DISTINCT FROM sign.last_type) THEN
    -- Of one type, or of none.
    types := CASE WHEN sign.head_type = coalesce(q.types[1], sign.head_type) THEN ARRAY[sign.head_type] ELSE '{}' END;
  ELSE
    types := {schema}.open_types(q.queue, q.types);
  END IF;
  RETURN {schema}.claim_unplanned(q, sign, types, '{}', false, NULL, now);
END
$$;

-- A claim where something is special: there are limits, groups, pauses, listeners, jobs that come due or are too late;
-- or not all that it settles ended well.
--
-- q, sign: what it was asked for, and what it saw. done: the tokens of those that ended well and are settled already; NULL: none were
-- tried. again, and what it answers: as claim.
CREATE OR REPLACE FUNCTION {schema}.claim_general(q {schema}.claim_request, sign {schema}.claim_signs, done bigint[],
  again boolean) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now float8;
  promoted integer := 0;
  -- Another transaction has locked one that is due.
  stuck boolean := false;
  ending {schema}.ending_leases;
  ended record;
  late record;
  lates integer := 0;
  gone boolean := false;
  rules {schema}.limit_rule[] := '{}';
  types text[];
  -- The only type of which jobs wait, if any was asked for.
  known text[];
  way {schema}.claim_way;
  decided boolean := false;
  lanes boolean;
  planned boolean := false;
  paused boolean := false;
  names text[];
  started record;
  opened {schema}.opened_claim;
  -- What next_in is counted from.
  since float8;
  before bigint := {schema}.passed();
  head record;
  -- When it is looked for jobs that wait before cursors.
  look_at float8;
  jobs json;
  more boolean := false;
  next_in float8;
  blocked_by text;
  wake_all boolean := false;
  published boolean := false;
  granted json;
  others float8;
  -- What it proposes to take, if it came with that; then claims of its queue go on beside it.
  plan {schema}.claim_plan;
  snapshot json;
  answer text;
BEGIN
  now := sign.now;
  lanes := sign.lanes;
  IF q.ids IS NOT NULL AND done IS NULL AND NOT sign.heard THEN
    done := {schema}.complete_fast(q.ids, q.tokens, q.results, sign.keeps, now);
  END IF;
  ending := {schema}.begin_settle(q.settle, q.ids, q.tokens, q.results, done, sign.ruled, again, now);
  -- One whose lease was lost may wait again: it had not started (unspend).
  lanes := lanes OR cardinality(ending.stale) > 0;
  IF sign.due_at <= now THEN
    promoted := {schema}.promote_due(q.queue, now);
    stuck := promoted < 1000
      AND (SELECT j.due_at FROM {schema}.jobs j WHERE j.queue = q.queue AND j.state = 'scheduled' ORDER BY j.due_at LIMIT 1) <= now;
    lanes := true;
  END IF;
  -- One that waits again, because it had not started, may be too late.
  IF sign.deadline <= now OR cardinality(ending.stale) > 0 THEN
    SELECT * INTO late FROM {schema}.end_late(now);
    lates := late.ended;
    published := late.published;
    gone := cardinality(late.gone) > 0;
  END IF;
  IF sign.paused THEN
    paused := EXISTS (SELECT FROM {schema}.pauses p WHERE p.queue = q.queue AND p.type = '');
  END IF;
  IF again THEN
    SELECT json_agg({schema}.job_json(j, {schema}.skew()) ORDER BY j.token), {schema}.grant_of(-{schema}.block_of(min(j.token))) INTO jobs, granted
    FROM {schema}.jobs j WHERE j.state = 'active' AND j.claim = q.claim AND j.worker = q.worker;
    IF jobs IS NOT NULL THEN
      q.max := 0;
      q.prefetch := 0;
    END IF;
  END IF;

  IF promoted > 0 OR ending.outcomes IS NOT NULL OR sign.paused THEN
    -- What it saw first need not be so any more.
    sign.head_type := NULL;
  ELSIF q.types IS NULL AND sign.head_type = sign.last_type THEN
    known := ARRAY[sign.head_type];
  END IF;
  IF sign.has_cursors THEN
    look_at := {schema}.look_before_cursors(q.queue, now);
    known := CASE WHEN q.types IS NULL AND NOT sign.paused THEN {schema}.open_types(q.queue, NULL) END;
  END IF;
  -- Which way, and then all locks that are needed, in their order.
  IF NOT paused THEN
    types := q.types;
    planned := coalesce(ending.grouped, false) OR (sign.lanes AND q.types IS NULL) OR (lanes AND {schema}.any_lanes(q.queue, q.types));
    plan := json_populate_record(NULL::{schema}.claim_plan, q.plan);
    IF NOT planned AND q.types IS NULL AND plan.seen_types IS NOT NULL AND (sign.ruled OR q.limits <> '[]') THEN
      -- The plan knows of types that run under different limits: that is a tenth of what way_of takes, which looks for all of them.
      planned := NOT {schema}.is_uniform({schema}.rules_for(q.queue, plan.seen_types, q.limits), plan.seen_types);
    END IF;
    IF NOT planned AND (sign.ruled OR q.limits <> '[]') THEN
      -- Jobs that it returns wait after that: the claim may take them, too.
      way := {schema}.way_of(q.queue, q.types, q.limits, CASE WHEN cardinality(ending.ats) > 0 AND q.types IS NULL THEN
        {schema}.open_types(q.queue, {schema}.open_types(q.queue, NULL) || ARRAY(
          SELECT j.type FROM json_to_recordset(ending.outcomes) AS o (id text, "to" text) JOIN {schema}.jobs j ON j.id = o.id
          WHERE o."to" IN ('retry', 'back') AND j.queue = q.queue AND j.grp IS NULL AND j.keys IS NULL)) ELSE known END);
      rules := way.rules;
      types := way.types;
      decided := way.decided;
      planned := way.planned;
    END IF;
    IF NOT planned THEN
      plan := NULL;
    ELSIF sign.ruled OR q.limits <> '[]' THEN
      rules := {schema}.rules_to_take(q.queue, q.types, plan.types, q.limits);
    END IF;
  END IF;
  names := ending.limits;
  IF gone THEN
    names := names || {schema}.weighing();
  END IF;
  IF plan.awaits IS NOT NULL THEN
    names := names || plan.awaits;
  END IF;
  IF q.grants IS NOT NULL THEN
    names := names || {schema}.limits_of_grants(q.grants);
  END IF;
  IF cardinality(rules) > 0 THEN
    names := names || {schema}.names_of(rules);
  END IF;
  IF cardinality(names) > 0 THEN
    IF {schema}.lock_limits(names) THEN
      -- It had to wait: what it saw first need not be so any more.
      sign.head_type := NULL;
    END IF;
    now := {schema}.moment();
  ELSIF now >= sign.last + 100 THEN
    now := {schema}.moment();
  END IF;

  IF q.grants IS NOT NULL THEN
    PERFORM {schema}.confirm_starts(q.grants, q.called);
  END IF;
  ended := {schema}.finish_settle(ending, now);
  published := published OR ended.published;
  IF ended.late THEN
    -- Only what has come back: others may be waited for under limits whose locks are not held.
    published := (SELECT e.published FROM {schema}.end_late(now, ARRAY(SELECT o.id FROM json_to_recordset(ending.outcomes) AS o (id text))) e) OR published;
  END IF;
  IF gone THEN
    wake_all := {schema}.left_lane(late.gone);
  END IF;
  IF sign.remembered OR q.limits <> '[]' THEN
    PERFORM {schema}.remember_claim(q.queue, q.limits, now);
  END IF;

  IF planned THEN
    SELECT * INTO started FROM {schema}.take(q, plan, rules, now);
    jobs := coalesce(jobs, started.jobs);
    granted := coalesce(granted, started.granted);
    others := started.others_wait;
    wake_all := wake_all OR started.wake_all;
    published := published OR started.published;
    snapshot := started.snapshot;
  ELSIF NOT paused THEN
    IF NOT decided AND (sign.paused OR cardinality(types) = 1 IS NOT TRUE) THEN
      types := coalesce(known, {schema}.open_types(q.queue, q.types));
    END IF;
    IF sign.has_cursors AND cardinality(types) = 1 THEN
      SELECT * INTO head FROM {schema}.first_open(q.queue, types[1], now);
      IF {schema}.passed_many(before, true) THEN
        PERFORM {schema}.set_cursor(q.queue, types[1], head.priority, head.due_at, head.seq, now);
      END IF;
    END IF;
    opened := {schema}.claim_open(q, sign, types, decided, rules, now);
    jobs := coalesce(jobs, opened.jobs);
    granted := coalesce(granted, opened.granted);
    others := opened.others;
    -- So many were too late to start that there may be more of them.
    more := opened.more OR lates >= 1000;
    next_in := CASE WHEN lates >= 1000 THEN 0 ELSE opened.next_in END;
    blocked_by := opened.blocked_by;
    published := published OR opened.published;
    since := opened.at;
  END IF;
  IF ended.given IS NOT NULL THEN
    wake_all := wake_all OR {schema}.wakes_waiters(ended.given, now,
      planned AND q.max > 0 AND coalesce(cardinality(plan.places), 0) = 0);
  END IF;
  IF look_at IS NOT NULL AND NOT more AND NOT paused THEN
    -- While a limit keeps jobs back there is hardly another reason to look.
    next_in := least(next_in, greatest(CASE WHEN blocked_by IS NULL THEN 250 ELSE 5000 END, look_at - coalesce(since, now)));
  END IF;
  IF stuck AND NOT more AND next_in <= 0 THEN
    next_in := 100;
  END IF;
  IF next_in > 0 THEN
    -- Counted from now, and not from when the locks were taken: the rest of the step took its time.
    next_in := greatest(0, next_in - greatest(0, {schema}.present() - coalesce(since, now)));
  END IF;
  answer := json_build_object('jobs', coalesce(jobs, '[]'), 'stale', ending.stale, 'more', more,
    'nextInMs', nullif(next_in, 'Infinity'), 'blockedBy', blocked_by, 'woken', ended.woken, 'wakeAll', wake_all,
    'events', published, 'ends', ending.ends_published, 'grant', granted, 'others', others);
  IF snapshot IS NOT NULL THEN
    answer := left(answer, -1) || concat(',"snapshot":', snapshot, ',"lookIn":', coalesce((look_at - now)::text, 'null'),
      ',"stuck":', to_json(coalesce(stuck, false)), '}');
  END IF;
  RETURN answer;
END
$$;

-- Which way a claim goes under limits: what the jobs that it may take run under, and whether it has to go by lanes, or all of
-- them run under the same limits and count for one under each.
--
-- A claim of any type takes those of which jobs wait now, under what these run under, and no others (`decided`). A job of
-- another type that comes meanwhile is as one that comes afterwards. Not so while a lane waits for a limit: when more of that is available is
-- for the plan to tell.
--
-- asked: the types; NULL: any. own: limits that the claim brings along. known: the only type of
-- which jobs wait; NULL: it has to be looked up.
CREATE OR REPLACE FUNCTION {schema}.way_of(queue text, asked text[], own jsonb, known text[])
RETURNS {schema}.claim_way
LANGUAGE plpgsql STABLE AS $$
DECLARE
  way {schema}.claim_way;
  fewer {schema}.limit_rule[];
BEGIN
  way.types := asked;
  way.decided := false;
  way.rules := {schema}.rules_for(queue, asked, own);
  way.planned := NOT {schema}.is_uniform(way.rules, asked);
  IF way.planned AND asked IS NULL
    AND NOT EXISTS (SELECT FROM {schema}.gates g WHERE g.queue = way_of.queue)
    AND NOT EXISTS (SELECT FROM {schema}.lanes l WHERE l.queue = way_of.queue AND l.blocked_until IS NOT NULL AND l.heavy IS NOT NULL)
  THEN
    way.types := coalesce(known, {schema}.open_types(queue, NULL));
    fewer := {schema}.rules_for(queue, way.types, own);
    IF {schema}.is_uniform(fewer, way.types) THEN
      way.rules := fewer;
      way.decided := true;
      way.planned := false;
    END IF;
  END IF;
  RETURN way;
END
$$;

-- Do all jobs that a claim may take run under the same limits, and count for one under each of them?
CREATE OR REPLACE FUNCTION {schema}.is_uniform(rules {schema}.limit_rule[], types text[]) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  rule {schema}.limit_rule;
BEGIN
  FOREACH rule IN ARRAY rules LOOP
    IF rule.by_group OR rule.weight IS NOT NULL THEN
      RETURN false;
    END IF;
    IF rule.types IS NOT NULL AND (types IS NULL OR NOT rule.types @> types) THEN
      RETURN false;
    END IF;
  END LOOP;
  RETURN true;
END
$$;

-- May a job of these types start that waits in a group, or with keys? Then turns have to be taken, whatever the limits are. It only decides which
-- way a claim goes, so no lock is needed.
--
-- queue_name, asked: of which queue and types; NULL: of any type.
CREATE OR REPLACE FUNCTION {schema}.any_lanes(queue_name text, asked text[]) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
  at CONSTANT float8 := {schema}.present();
BEGIN
  IF asked IS NULL THEN
    RETURN EXISTS (SELECT FROM {schema}.lanes
        WHERE queue = queue_name AND ready AND blocked_until IS NULL AND keys || grp <> '')
      OR EXISTS (SELECT FROM {schema}.arrivals WHERE queue = queue_name)
      OR {schema}.any_open_gate(queue_name, at);
  END IF;
  RETURN EXISTS (SELECT FROM unnest(asked) AS a (type) WHERE EXISTS (SELECT FROM {schema}.lanes l
      WHERE l.queue = queue_name AND l.type = a.type AND l.ready AND l.blocked_until IS NULL AND l.keys || l.grp <> ''))
    OR EXISTS (SELECT FROM unnest(asked) AS a (type) WHERE EXISTS (SELECT FROM {schema}.arrivals r
      WHERE r.queue = queue_name AND r.type = a.type))
    OR EXISTS (SELECT FROM unnest(asked) AS a (type) WHERE EXISTS (SELECT FROM {schema}.gates g
      WHERE g.queue = queue_name AND g.type = a.type AND g.until <= at));
END
$$;

-- Is a gate of this queue open? The first of each type is looked at, however many are closed.
CREATE OR REPLACE FUNCTION {schema}.any_open_gate(queue_name text, at float8) RETURNS boolean
LANGUAGE sql STABLE AS $$
  WITH RECURSIVE first AS (
    (SELECT g.type, g.until FROM {schema}.gates g WHERE g.queue = queue_name ORDER BY g.type, g.until LIMIT 1)
    UNION ALL
    SELECT n.type, n.until FROM first f CROSS JOIN LATERAL (SELECT g.type, g.until FROM {schema}.gates g
      WHERE g.queue = queue_name AND g.type > f.type ORDER BY g.type, g.until LIMIT 1) n
  )
  SELECT EXISTS (SELECT FROM first f WHERE f.until <= at)
$$;

-- Keeps the limits that a claim brings along, for explanations of jobs of its queue. They are written again once a day, as long as there
-- are claims. Where workers bring different ones along, those of a second ago will do: no claim waits for another because of it.
CREATE OR REPLACE FUNCTION {schema}.remember_claim(queue text, limits jsonb, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  seen record;
BEGIN
  SELECT c.limits, c.at INTO seen FROM {schema}.claims c WHERE c.queue = remember_claim.queue;
  IF NOT FOUND THEN
    IF limits <> '[]' THEN
      INSERT INTO {schema}.claims (queue, limits, at) VALUES (remember_claim.queue, remember_claim.limits, now)
      ON CONFLICT DO NOTHING;
    END IF;
    RETURN;
  END IF;
  IF (seen.limits = remember_claim.limits AND limits = '[]')
    OR now - seen.at < (CASE WHEN seen.limits = remember_claim.limits THEN 86400000 ELSE 1000 END) THEN
    RETURN;
  END IF;
  PERFORM FROM {schema}.claims c WHERE c.queue = remember_claim.queue FOR UPDATE SKIP LOCKED;
  IF FOUND THEN
    UPDATE {schema}.claims c SET limits = remember_claim.limits, at = now WHERE c.queue = remember_claim.queue;
  END IF;
END
$$;
