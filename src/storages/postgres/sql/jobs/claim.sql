-- Settles, then takes jobs and room under limits together.
--
-- request: {claim, queue, worker, max, ahead, bytes, types, lease_ms, limits, settle, grant_ttl, grants, called, plan} (jobs/claim.ts); claim: a
-- number of its own for this request, by which the first attempt at it excludes later ones and is fenced off, as by begin_attempt; later
-- ones call that before. grant_ttl: what it starts is called within so long, and that is confirmed. grants, called: what
-- is confirmed first (limits/confirm.sql). What is to be settled is a list, as lock_leases takes it, or, where all of it ended well, {ids, tokens, results}, as
-- complete_plainly does. again: an earlier call of this request may have been done: the jobs that it has started are answered,
-- and no others are taken.
--
-- Almost always nothing is special: nobody listens, there are no limits, no groups, nothing comes due. One statement tells, and
-- then all of it is done here: whatever is called, and every statement, has its price. Where there are limits, and nothing else, it
-- is done in claim_alike, as a rule. The rest is for claim_with_care.
--
-- Answer: {jobs: as start_jobs, or a list as job_json, stale: numbers of outcomes, more, nextInMs, blockedBy, woken, everybody,
-- events, ends, grant: what is to be confirmed, as opened_claim says it, snapshot: of one that came with a plan, where groups or
-- limits make lanes necessary: what the next plan is made from, and more, nextInMs and blockedBy (jobs/snapshot.sql)}.
CREATE OR REPLACE FUNCTION {schema}.claim_{version}(request json, again boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
  SET enable_indexscan = on SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
  SET enable_memoize = off AS $$
DECLARE
  -- So soon it is worth looking for a job that somebody else has his hands on.
  soon_ms CONSTANT float8 := 100;
  -- Before anything is waited for.
  arrived float8 := {schema}.wall();
  q {schema}.claim_request;
  sign {schema}.claim_signs;
  now float8;
  done bigint[];
  answer text;
  before bigint := {schema}.passed();
  types text[];
  sure integer;
  want integer;
  first bigint;
  picked tid[] := '{}';
  total float8;
  started {schema}.started_jobs;
  busy boolean := false;
  waits boolean := false;
  next_in float8;
BEGIN
  -- The lock of the rules, as begin_step takes it.
  IF current_setting('transaction_isolation') <> 'read committed' OR current_setting('lock_timeout') = '0' THEN
    PERFORM {schema}.begin_step();
  END IF;
  SELECT r.*, arrived, NOT again AND NOT pg_try_advisory_xact_lock(r.claim),
    pg_advisory_xact_lock_shared({schema}.lock_key('rules', '')) IS NULL
  INTO q FROM json_to_record(request) AS r (claim bigint, queue text,
      worker text, max integer, ahead integer, bytes float8, types text[], lease_ms float8, limits jsonb, settle json, ids text[],
      tokens bigint[], results jsonb, grant_ttl float8, grants bigint[], called float8[], plan json);
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
    coalesce((SELECT true FROM {schema}.lanes l WHERE l.queue = q.queue AND l.ready AND l.blocked_until IS NULL AND l.grp <> ''
      ORDER BY l.type, l.priority DESC, l.turn, l.id LIMIT 1),
    (SELECT true FROM {schema}.arrivals a WHERE a.queue = q.queue ORDER BY a.type, a.priority DESC, a.seq LIMIT 1), false),
    (SELECT j.keep_for IS DISTINCT FROM 0 FROM {schema}.jobs j WHERE j.id = q.ids[1]),
    k.marked,
    CASE WHEN q.types IS NULL AND NOT k.marked THEN (SELECT j.type FROM {schema}.jobs j
      WHERE j.queue = q.queue AND j.state = 'waiting' AND j.grp IS NULL ORDER BY j.type DESC LIMIT 1) END,
    h.*,
    NOT again AND EXISTS (SELECT FROM {schema}.steps s WHERE s.number = q.claim)
  INTO sign FROM {schema}.meta m
  CROSS JOIN (SELECT EXISTS (SELECT FROM {schema}.marks k WHERE k.queue = q.queue) AS marked OFFSET 0) k
  LEFT JOIN LATERAL (SELECT j.type, j.priority, j.due_at, j.seq FROM {schema}.jobs j
    WHERE NOT k.marked AND j.queue = q.queue AND j.type >= coalesce(q.types[1], '') AND j.state = 'waiting' AND j.grp IS NULL
    ORDER BY j.type, j.priority DESC, j.due_at, j.seq LIMIT 1) h ON true;
  IF q.overtaken OR sign.overtaken THEN
    RAISE EXCEPTION 'a later attempt at this claim came before this one' USING ERRCODE = 'SL002';
  END IF;
  IF NOT sign.marked AND {schema}.passed_many(before, false) THEN
    PERFORM {schema}.set_mark(q.queue, sign.head_type, sign.head_priority, sign.head_due_at, sign.head_seq, sign.now);
  END IF;
  IF again OR sign.marked OR sign.heard OR sign.paused OR sign.remembered OR sign.lanes OR sign.due_at <= sign.now
    OR sign.deadline <= sign.now OR q.settle IS NOT NULL OR q.limits <> '[]'
    OR (q.grants IS NOT NULL AND NOT sign.ruled)
  THEN
    RETURN {schema}.claim_with_care(q, sign, NULL, again);
  END IF;
  now := sign.now;
  IF q.ids IS NOT NULL THEN
    done := {schema}.complete_plainly(q.ids, q.tokens, q.results, sign.keeps, now);
    IF cardinality(done) < cardinality(q.ids) THEN
      RETURN {schema}.claim_with_care(q, sign, done, again);
    END IF;
  END IF;
  IF sign.ruled THEN
    answer := {schema}.claim_alike(q, sign);
    IF answer IS NOT NULL THEN
      RETURN answer;
    END IF;
  END IF;
  -- The last time seen is the time where the clock was set back: that is to be written down, or the time stands still.
  IF now >= sign.last + 100 OR now = sign.last THEN
    now := {schema}.moment();
  END IF;

  sure := least(q.max, 10000);
  want := sure + least(coalesce(q.ahead, 0), 10000 - sure);
  IF cardinality(q.types) = 1 OR (q.types IS NULL AND sign.head_type IS NOT DISTINCT FROM sign.last_type) THEN
    -- Of one type, or of none.
    types := CASE WHEN sign.head_type = coalesce(q.types[1], sign.head_type) THEN ARRAY[sign.head_type] ELSE '{}' END;
  ELSE
    types := {schema}.open_types(q.queue, q.types, false);
  END IF;
  IF want > 0 AND cardinality(types) = 1 AND types[1] = sign.head_type THEN
    picked := {schema}.pick_first(q.queue, sign.head_type, sign.head_priority, sign.head_due_at, sign.head_seq,
      want, now);
  ELSIF want > 0 AND cardinality(types) > 0 THEN
    picked := {schema}.pick_open(q.queue, types, want, false, now);
  END IF;
  busy := cardinality(picked) < want;
  IF cardinality(picked) > 0 THEN
    -- One of them may have been given back a moment ago: it starts after that.
    SELECT nextval('{schema}.numbers'), greatest(now, m.last, {schema}.wall() + m.skew),
      (SELECT sum(octet_length(j.data)) FROM {schema}.jobs j WHERE j.ctid = ANY (picked))
    INTO first, now, total FROM {schema}.meta m;
    IF total > q.bytes THEN
      picked := {schema}.first_bytes(picked, q.bytes);
      busy := false;
    END IF;
    started := {schema}.start_jobs(picked, first, q.queue, q.worker, q.claim, q.lease_ms, NULL, sure, false, now);
    -- What was left alone is to be had.
    busy := busy AND started.count = cardinality(picked);
  END IF;
  IF cardinality(types) = 1 AND types[1] = sign.head_type THEN
    waits := {schema}.any_after(q.queue, sign.head_type, sign.head_priority, coalesce(started.due_at, sign.head_due_at),
      coalesce(started.seq, sign.head_seq), now);
  ELSIF cardinality(types) > 0 THEN
    waits := {schema}.any_open(q.queue, types, false, now);
  END IF;
  IF waits THEN
    next_in := CASE WHEN busy THEN soon_ms ELSE 0 END;
  ELSIF sign.due_at IS NOT NULL THEN
    next_in := {schema}.next_due(q.queue, q.types, NULL) - {schema}.present();
    next_in := CASE WHEN next_in < 0 THEN 0 ELSE next_in END;
  END IF;
  RETURN concat('{"jobs":', coalesce(started.jobs, '[]'), ',"stale":[],"more":',
    CASE WHEN waits AND NOT busy THEN 'true' ELSE 'false' END, ',"nextInMs":', coalesce(next_in::text, 'null'),
    ',"blockedBy":null', CASE WHEN q.ids IS NOT NULL AND {schema}.tell_ends(q.ids, now) THEN ',"ends":true' END, '}');
END
$$;
