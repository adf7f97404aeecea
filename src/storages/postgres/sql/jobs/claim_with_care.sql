-- A claim where something is special: there are limits, groups, pauses, somebody who listens, jobs that come due or are too late;
-- or not all that it settles ended well.
--
-- q, sign: what it was asked for, and what it saw. done: the tokens of those that ended well and are settled already; NULL: nobody
-- has tried. again, and what it answers: as claim.
CREATE OR REPLACE FUNCTION {schema}.claim_with_care(q {schema}.claim_request, sign {schema}.claim_signs, done bigint[],
  again boolean) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now float8;
  promoted integer := 0;
  -- One that is due is in somebody else's hands.
  stuck boolean := false;
  outcomes json;
  -- Of those that ended well and are settled already: their tokens, and whether they may hold something of limits.
  tokens bigint[];
  limited boolean := false;
  held record;
  ends boolean := false;
  took boolean := false;
  grouped boolean := false;
  leases {schema}.ended_lease[];
  given {schema}.limit_given[];
  woken json;
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
  names text[] := '{}';
  started record;
  opened {schema}.opened_claim;
  -- What next_in is counted from.
  since float8;
  before bigint := {schema}.passed();
  head record;
  -- Somebody may wait before a mark, and is looked for then.
  look_at float8;
  jobs json;
  stale integer[] := '{}';
  more boolean := false;
  next_in float8;
  blocked_by text;
  everybody boolean := false;
  told boolean := false;
  ends_told boolean := false;
  granted json;
  -- What it proposes to take, if it came with that; then claims of its queue go on beside it.
  plan {schema}.claim_plan;
  snapshot json;
  answer text;
BEGIN
  now := sign.now;
  lanes := sign.lanes;
  outcomes := q.settle;
  IF q.ids IS NOT NULL THEN
    tokens := coalesce(done, '{}');
    IF done IS NULL AND NOT sign.heard THEN
      tokens := {schema}.complete_plainly(q.ids, q.tokens, q.results, sign.keeps, now);
    END IF;
    ends_told := cardinality(tokens) > 0 AND {schema}.tell_ends(q.ids, now);
    limited := sign.ruled AND cardinality(tokens) > 0;
    IF cardinality(tokens) < cardinality(q.ids) THEN
      outcomes := {schema}.outcomes_of(q.ids, q.tokens, q.results, tokens);
    END IF;
  END IF;
  IF outcomes IS NOT NULL THEN
    SELECT * INTO held FROM {schema}.lock_leases(outcomes, again);
    stale := held.stale;
    woken := held.woken;
    ends := cardinality(held.ats) > 0;
    took := held.took;
    grouped := coalesce(held.grouped, false);
  END IF;
  IF sign.due_at <= now THEN
    promoted := {schema}.promote_due(q.queue, now);
    stuck := promoted < 1000
      AND (SELECT j.due_at FROM {schema}.jobs j WHERE j.queue = q.queue AND j.state = 'scheduled' ORDER BY j.due_at LIMIT 1) <= now;
    lanes := true;
  END IF;
  IF sign.deadline <= now THEN
    SELECT * INTO late FROM {schema}.end_late(now);
    lates := late.ended;
    told := late.told;
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
      q.ahead := 0;
    END IF;
  END IF;

  IF promoted > 0 OR outcomes IS NOT NULL OR sign.paused THEN
    -- What it saw first need not be so any more.
    sign.head_type := NULL;
  ELSIF q.types IS NULL AND sign.head_type = sign.last_type THEN
    known := ARRAY[sign.head_type];
  END IF;
  IF sign.marked THEN
    look_at := {schema}.look_before_marks(q.queue, now);
    known := CASE WHEN q.types IS NULL AND NOT sign.paused THEN {schema}.open_types(q.queue, NULL, true) END;
  END IF;
  -- Which way, and then all locks that are needed, in their order.
  IF NOT paused THEN
    types := q.types;
    planned := grouped OR (lanes AND {schema}.any_lanes(q.queue, q.types));
    IF sign.ruled OR q.limits <> '[]' THEN
      -- Jobs that it returns wait after that: the claim may take them, too.
      way := {schema}.way_of(q.queue, q.types, q.limits, planned, CASE WHEN ends AND q.types IS NULL THEN
        {schema}.open_types(q.queue, {schema}.open_types(q.queue, NULL, sign.marked) || ARRAY(
          SELECT j.type FROM json_to_recordset(outcomes) AS o (id text, "to" text) JOIN {schema}.jobs j ON j.id = o.id
          WHERE o."to" IN ('retry', 'back') AND j.queue = q.queue AND j.grp IS NULL), false) ELSE known END);
      rules := way.rules;
      types := way.types;
      decided := way.decided;
      planned := way.planned;
    END IF;
    IF planned THEN
      plan := json_populate_record(NULL::{schema}.claim_plan, q.plan);
      rules := {schema}.rules_to_take(q.queue, q.types, plan.types, q.limits);
    END IF;
  END IF;
  IF limited THEN
    -- In their order, as they come if all of them are done (complete_plainly).
    tokens := CASE WHEN cardinality(tokens) = cardinality(q.tokens) THEN q.tokens
      ELSE ARRAY(SELECT t FROM unnest(tokens) AS t ORDER BY t) END;
    names := {schema}.limits_of_tokens(tokens);
  END IF;
  IF ends AND (took OR sign.ruled) THEN
    leases := {schema}.ended_leases(outcomes, held.ats, held.ns);
    names := names || {schema}.limits_of(leases);
  END IF;
  IF gone THEN
    names := names || {schema}.weighing();
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
  IF limited THEN
    given := {schema}.give_tokens(tokens, NULL, now);
  END IF;
  IF leases IS NOT NULL THEN
    given := given || {schema}.give_back(leases, now);
  END IF;
  IF ends THEN
    SELECT * INTO ended FROM {schema}.end_leases(outcomes, held.ats, held.ns, held.tos, held.results, now);
    woken := coalesce(ended.woken, woken);
    told := told OR ended.told;
    IF ended.late THEN
      -- Only what has come back: others may be waited for under limits whose locks are not held.
      told := (SELECT e.told FROM {schema}.end_late(now, ARRAY(SELECT o.id FROM json_to_recordset(outcomes) AS o (id text))) e) OR told;
    END IF;
  END IF;
  IF gone AND cardinality({schema}.weighing()) > 0 THEN
    everybody := {schema}.left_lane(late.gone);
  END IF;
  IF sign.remembered OR q.limits <> '[]' THEN
    PERFORM {schema}.remember_claim(q.queue, q.limits, now);
  END IF;

  IF planned THEN
    SELECT * INTO started FROM {schema}.take(q, plan, rules, now);
    jobs := coalesce(jobs, started.jobs);
    granted := coalesce(granted, started.granted);
    everybody := everybody OR started.everybody;
    told := told OR started.told;
    snapshot := started.snapshot;
  ELSIF NOT paused THEN
    IF NOT decided AND (sign.paused OR cardinality(types) = 1 IS NOT TRUE) THEN
      types := coalesce(known, {schema}.open_types(q.queue, q.types, sign.marked));
    END IF;
    IF sign.marked AND cardinality(types) = 1 THEN
      SELECT * INTO head FROM {schema}.first_open(q.queue, types[1], now);
      IF {schema}.passed_many(before, true) THEN
        PERFORM {schema}.set_mark(q.queue, types[1], head.priority, head.due_at, head.seq, now);
      END IF;
    END IF;
    opened := {schema}.claim_open(q.queue, q.worker, q.claim, least(q.max, 10000),
      greatest(0, least(coalesce(q.ahead, 0), 10000 - q.max)), q.bytes, q.types, types, decided, q.lease_ms, rules, sign,
      q.grant_ttl, q.arrived, now);
    jobs := coalesce(jobs, opened.jobs);
    granted := coalesce(granted, opened.granted);
    -- So many were too late to start that there may be more of them.
    more := opened.more OR lates >= 1000;
    next_in := CASE WHEN lates >= 1000 THEN 0 ELSE opened.next_in END;
    blocked_by := opened.blocked_by;
    told := told OR opened.told;
    since := opened.at;
  END IF;
  IF given IS NOT NULL THEN
    everybody := everybody OR {schema}.is_news(given, now);
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
  answer := json_build_object('jobs', coalesce(jobs, '[]'), 'stale', stale, 'more', more,
    'nextInMs', nullif(next_in, 'Infinity'), 'blockedBy', blocked_by, 'woken', woken, 'everybody', everybody,
    'events', told, 'ends', ends_told, 'grant', granted);
  IF snapshot IS NOT NULL THEN
    answer := left(answer, -1) || concat(',"snapshot":', snapshot, ',"lookIn":', coalesce((look_at - now)::text, 'null'),
      ',"stuck":', to_json(coalesce(stuck, false)), '}');
  END IF;
  RETURN answer;
END
$$;
