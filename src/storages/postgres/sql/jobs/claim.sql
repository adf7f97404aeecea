-- Settles, then takes jobs and room under limits together.
--
-- request: {claim, queue, worker, max, ahead, types, lease_ms, limits, settle} (jobs/claim.ts); claim: a number of its own for this
-- request. What is to be settled is a list, as lock_leases takes it, or, where all of it ended well, {ids, tokens, results}, as
-- complete_plainly does. again: an earlier call of this request may have been done: the jobs that it has started are answered,
-- and no others are taken.
--
-- Almost always nothing is special: nobody listens, there are no limits, no groups, nothing comes due. One statement tells, and
-- what is not there is not asked for again.
--
-- Answer: {jobs: as job_json, stale: numbers of outcomes, more, nextInMs, blockedBy, woken, everybody, events}.
CREATE OR REPLACE FUNCTION {schema}.claim(request json, again boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
  SET enable_indexscan = on SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
  SET enable_memoize = off AS $$
DECLARE
  q record;
  alone boolean := {schema}.many_rules();
  sign record;
  now float8;
  begun boolean;
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
  decided boolean := false;
  lanes boolean;
  walks boolean := false;
  paused boolean := false;
  waited boolean := false;
  names text[] := '{}';
  started record;
  jobs json;
  stale integer[] := '{}';
  more boolean := false;
  next_in float8;
  blocked_by text;
  everybody boolean := false;
  told boolean := false;
BEGIN
  SELECT * INTO q FROM json_to_record(request) AS r (claim text, queue text, worker text, max integer, ahead integer,
    types text[], lease_ms float8, limits jsonb, settle json, ids text[], tokens bigint[], results jsonb);
  begun := {schema}.begin_step(alone) IS NULL;
  SELECT m.last, greatest(m.last, {schema}.wall() + m.skew) AS now,
    EXISTS (SELECT FROM {schema}.rules) AS ruled,
    EXISTS (SELECT FROM {schema}.listeners l WHERE l.events AND l.until > m.last) AS heard,
    EXISTS (SELECT FROM {schema}.pauses p WHERE p.queue = q.queue) AS paused,
    EXISTS (SELECT FROM {schema}.claims c WHERE c.queue = q.queue) AS remembered,
    (SELECT j.due_at FROM {schema}.jobs j WHERE j.queue = q.queue AND j.state = 'scheduled' ORDER BY j.due_at LIMIT 1) AS due_at,
    (SELECT j.deadline FROM {schema}.jobs j WHERE j.deadline IS NOT NULL AND j.state IN ('waiting', 'scheduled')
      ORDER BY j.deadline LIMIT 1) AS deadline,
    coalesce((SELECT true FROM {schema}.lanes l WHERE l.queue = q.queue AND l.ready AND l.blocked_until IS NULL AND l.grp <> ''
      ORDER BY l.type, l.priority DESC, l.turn, l.id LIMIT 1),
    (SELECT true FROM {schema}.arrivals a WHERE a.queue = q.queue ORDER BY a.type, a.priority DESC, a.seq LIMIT 1), false) AS lanes
  INTO sign FROM {schema}.meta m;
  now := sign.now;
  lanes := sign.lanes;
  outcomes := q.settle;
  IF q.ids IS NOT NULL THEN
    tokens := '{}';
    IF NOT sign.heard THEN
      tokens := {schema}.complete_plainly(q.ids, q.tokens, q.results, now);
      limited := sign.ruled AND cardinality(tokens) > 0;
    END IF;
    IF cardinality(tokens) < cardinality(q.ids) THEN
      outcomes := {schema}.outcomes_of(q.ids, q.tokens, q.results, tokens);
    END IF;
  END IF;
  IF outcomes IS NOT NULL THEN
    SELECT * INTO held FROM {schema}.lock_leases(outcomes, again);
    stale := held.stale;
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
    SELECT json_agg({schema}.job_json(j) ORDER BY j.token) INTO jobs FROM {schema}.jobs j
    WHERE j.state = 'active' AND j.claim = q.claim AND j.worker = q.worker;
    IF jobs IS NOT NULL THEN
      q.max := 0;
      q.ahead := 0;
    END IF;
  END IF;

  -- Which way, and then all locks that are needed, in their order.
  IF NOT paused THEN
    types := q.types;
    walks := grouped OR (lanes AND {schema}.any_lanes(q.queue, q.types));
    IF sign.ruled OR q.limits <> '[]' THEN
      SELECT * INTO rules, types, decided, walks FROM {schema}.way_of(q.queue, q.types, q.limits, walks);
    END IF;
  END IF;
  IF limited THEN
    tokens := ARRAY(SELECT t FROM unnest(tokens) AS t ORDER BY t);
    names := {schema}.limits_of_tokens(tokens);
  END IF;
  IF ends AND (took OR sign.ruled) THEN
    leases := {schema}.ended_leases(outcomes, held.ats, held.ns);
    names := names || {schema}.limits_of(leases);
  END IF;
  IF gone THEN
    names := names || {schema}.weighing();
  END IF;
  IF cardinality(rules) > 0 THEN
    names := names || {schema}.names_of(rules);
  END IF;
  IF NOT alone AND NOT paused THEN
    waited := {schema}.lock_queue(q.queue, NOT walks);
  END IF;
  IF NOT alone AND cardinality(names) > 0 THEN
    PERFORM {schema}.lock_limits(names);
    waited := true;
  END IF;
  IF waited OR now >= sign.last + 100 THEN
    now := {schema}.moment();
  END IF;

  IF limited THEN
    given := {schema}.give_tokens(tokens, NULL, now);
  END IF;
  IF leases IS NOT NULL THEN
    given := given || {schema}.give_back(leases, now);
  END IF;
  IF ends THEN
    SELECT * INTO ended FROM {schema}.end_leases(outcomes, held.ats, held.ns, held.tos, held.results, now);
    woken := ended.woken;
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

  IF walks THEN
    SELECT * INTO started
    FROM {schema}.claim_under(q.queue, q.worker, q.claim, least(q.max, 10000), q.types, q.lease_ms, rules, now);
    jobs := coalesce(jobs, started.jobs);
    more := started.more;
    next_in := started.next_in;
    blocked_by := started.blocked_by;
    everybody := everybody OR started.everybody;
    told := told OR started.told;
  ELSIF NOT paused THEN
    IF NOT decided AND (sign.paused OR cardinality(types) = 1 IS NOT TRUE) THEN
      types := {schema}.open_types(q.queue, q.types);
    END IF;
    SELECT * INTO started FROM {schema}.claim_open(q.queue, q.worker, q.claim, least(q.max, 10000),
      greatest(0, least(coalesce(q.ahead, 0), 10000 - q.max)), q.types, types, decided, q.lease_ms, rules, sign.heard, now);
    jobs := coalesce(jobs, started.jobs);
    -- So many were too late to start that there may be more of them.
    more := started.more OR lates >= 1000;
    next_in := CASE WHEN lates >= 1000 THEN 0 ELSE started.next_in END;
    blocked_by := started.blocked_by;
    told := told OR started.told;
  END IF;
  IF given IS NOT NULL THEN
    everybody := everybody OR {schema}.is_news(given, now);
  END IF;
  IF stuck AND NOT more AND next_in <= 0 THEN
    next_in := 100;
  END IF;
  IF next_in > 0 THEN
    -- Counted from now, and not from when the locks were taken: the rest of the step took its time.
    next_in := greatest(0, next_in - greatest(0, {schema}.present() - now));
  END IF;
  RETURN json_build_object('jobs', coalesce(jobs, '[]'), 'stale', stale, 'more', more,
    'nextInMs', nullif(next_in, 'Infinity'), 'blockedBy', blocked_by, 'woken', woken, 'everybody', everybody,
    'events', told);
END
$$;
