-- Claims that need no plan: no job waits in a group, and all jobs run under the same limits, or under none.

-- A claim where nothing but limits is special (claim.sql), and these are the same for all that it takes: jobs of one type, which
-- count for one under each. Almost always only numbers could be in the way, and enough is available: then what it gives back and what it
-- takes is written together. Every statement has its price, so there are few, and what they look at is said in few words. The rest
-- is for claim_general, and, where the locks are taken already, for claim_unplanned.
--
-- q, sign: what it was asked for, and what it saw. What it settles ended well, all of it, and is settled but for its limits.
-- Answers as claim; NULL: there is no limit for what it takes, and nothing is locked or written.
CREATE OR REPLACE FUNCTION {schema}.claim_uniform(q {schema}.claim_request, sign {schema}.claim_signs) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- So soon it is worth looking for a job that another transaction has locked.
  soon_ms CONSTANT float8 := 100;
  now float8 := sign.now;
  want integer := least(q.max, 10000);
  -- How many it settles, and by what these may hold something of limits together (limits/release.sql: block_of).
  ended integer := coalesce(cardinality(q.tokens), 0);
  blocks bigint[] := ARRAY[{schema}.block_of(q.tokens[1])];
  way record;
  -- Is something confirmed of limits that are locked here? False: of others. NULL: nothing is.
  confirms boolean;
  states record;
  key bigint;
  waited boolean := false;
  first_type text[];
  -- So many held what is held by those that start instead. 0: what was held is given back by itself.
  moved integer := 0;
  given {schema}.limit_given[];
  picked tid[];
  total float8;
  first bigint;
  skew float8;
  started {schema}.started_jobs;
  busy boolean;
  waits boolean;
  blocked_by text;
  -- Limits that are full now, and do not say yet that something waits for them; and those that are not full any more, and say so.
  unmarked text[];
  freed bigint[];
  wake_all boolean := false;
  next_in float8;
  took float8;
  -- What is to be confirmed, as the answer says it.
  granted text := '';
BEGIN
  IF want = 0 OR cardinality(q.types) > 1
    OR (sign.head_type = coalesce(q.types[1], sign.last_type)) IS NOT TRUE
  THEN
    RETURN {schema}.claim_general(q, sign, coalesce(q.tokens, '{}'), false);
  END IF;
  IF ended > 1 AND {schema}.block_of(q.tokens[ended]) <> blocks[1] THEN
    blocks := ({schema}.blocks_of(q.tokens)).blocks;
  END IF;
  -- Which limits there are, as they are locked, and what is held of which. Not for here: what is held singly, or of others; what is
  -- confirmed of others; and while a lane waits for a limit of other types, for a claim of any type (claim.sql: way_of).
  SELECT r.*, h.*, EXISTS (SELECT FROM {schema}.slots h WHERE h.token >= q.tokens[1] AND h.token <= q.tokens[ended])
    OR CASE WHEN q.types IS NULL AND NOT r.whole THEN EXISTS (SELECT FROM {schema}.gates g WHERE g.queue = q.queue) OR EXISTS (
      SELECT FROM {schema}.lanes l WHERE l.queue = q.queue AND l.blocked_until IS NOT NULL AND l.heavy IS NOT NULL) ELSE false END AS special
  INTO way FROM (
    SELECT array_agg(r.fields) FILTER (WHERE r.applies) AS rules, array_agg(r.key) FILTER (WHERE r.applies) AS keys,
      bool_and(r.plain) FILTER (WHERE r.applies) AS plain, bool_and(r.whole) AS whole
    FROM (
      SELECT r.fields, {schema}.lock_key('limit', r.name) AS key, r.plain, r.whole,
        coalesce(r.types @> ARRAY[sign.head_type], true) AS applies
      FROM {schema}.rules r WHERE r.queues IS NULL OR q.queue = ANY (r.queues) ORDER BY key OFFSET 0
    ) r
  ) r CROSS JOIN LATERAL (
    SELECT array_agg(h.limit_id) AS held, bool_and(h.n <= ended) AS done,
      bool_and({schema}.lock_key('limit', l.name) = ANY (r.keys)) AS known
    FROM {schema}.slots h JOIN {schema}.limits l ON l.id = h.limit_id WHERE h.token = ANY (blocks)
  ) h;
  IF q.grants IS NOT NULL THEN
    SELECT bool_and(coalesce({schema}.lock_key('limit', l.name) = ANY (way.keys), false)) INTO confirms
    FROM {schema}.starts s JOIN {schema}.limits l ON l.id = s.limit_id WHERE s.claim = ANY (q.grants);
  END IF;
  IF way.rules IS NULL AND way.held IS NULL AND confirms IS NULL AND NOT way.special THEN
    RETURN NULL;
  END IF;
  IF way.plain IS NOT TRUE OR way.special OR (way.held IS NOT NULL AND way.known IS NOT TRUE) OR NOT confirms THEN
    RETURN {schema}.claim_general(q, sign, coalesce(q.tokens, '{}'), false);
  END IF;

  FOREACH key IN ARRAY way.keys LOOP
    IF NOT pg_try_advisory_xact_lock(key) THEN
      waited := pg_advisory_xact_lock(key) IS NOT NULL;
    END IF;
  END LOOP;
  IF waited OR now >= sign.last + 100 THEN
    now := {schema}.moment();
  END IF;
  IF confirms THEN
    PERFORM {schema}.confirm_starts(q.grants, q.called);
  END IF;
  IF way.held IS NOT NULL AND way.done AND cardinality(blocks) = 1 THEN
    moved := ended;
  ELSIF way.held IS NOT NULL THEN
    given := {schema}.release_limits(q.tokens, NULL, now);
  END IF;

  -- What is kept under the limits, and where the starts will be written down. What has left a window since it was looked at last is
  -- not looked up: it can only be less that is in use.
  SELECT array_agg(l.id) AS ids, array_agg(l.place) AS places, array_agg(l.id) FILTER (WHERE l.concurrency IS NOT NULL) AS holding,
    concat('[', string_agg(concat('[', l.id, ',' || l.place, ']'), ','), ']') AS taken, max(l.latest) AS latest,
    min(l.max - l.used) AS unused, min(l.concurrency - l.held) AS slots, bool_and(l.plain) AS plain,
    bool_or(l.place = l.entry) AS shares, min(l.window_ms) AS shortest, bool_or(now - l.seen_at > l.window_ms) AS stale,
    max(CASE WHEN l.starved_by <> q.claimant AND l.fitted IS NOT TRUE THEN greatest(1, now - l.starved_since) END) AS others,
    array_agg(l.id) FILTER (WHERE l.starved_by IS NOT NULL AND l.fitted) AS unstarved
  INTO states FROM (
    SELECT l.id, l.used, l.held, l.seen_at, l.entry, l.starved_by, l.starved_since, r.max, r.window_ms, r.concurrency, greatest(l.newest, l.latest_at) AS latest,
      moved > 0 AND l.held + 1 <= r.concurrency AS fitted,
      CASE WHEN q.grant_ttl IS NULL AND (greatest(now, l.newest) = l.entry_since
          OR (r.max > 1000 AND (greatest(now, l.newest) - l.entry_since) * 1000 < r.window_ms)) THEN l.entry
        WHEN l.window_ms IS NOT NULL OR l.longest > 0 THEN nextval('{schema}.starts_seq_seq') END AS place,
      coalesce(l.id IS NOT NULL AND (r.window_ms IS NULL OR (l.window_ms = r.window_ms AND l.longest >= r.window_ms))
        AND (greatest(r.held_until, r.blind_until, l.held_until, l.remaining_until, l.forgotten_at + r.window_ms + 1) > now) IS NOT TRUE
        AND CASE WHEN r.concurrency IS NULL THEN moved = 0 OR l.id <> ALL (way.held)
          ELSE (moved = 0 OR (l.id = ANY (way.held) AND l.held >= moved)) AND NOT EXISTS (
            SELECT FROM {schema}.slots h WHERE h.limit_id = l.id AND h.until > now) END, false) AS plain
    FROM unnest(way.rules) AS r LEFT JOIN {schema}.limits l ON l.name = r.name AND l.grp = '' OFFSET 0
  ) l;
  IF NOT states.plain OR states.unused < want + 1 OR states.slots + moved < 1
    OR (moved > 0 AND cardinality(way.held) IS DISTINCT FROM cardinality(states.holding))
  THEN
    IF moved > 0 THEN
      given := {schema}.release_limits(q.tokens, NULL, now);
    END IF;
    first_type := ARRAY[sign.head_type];
    IF waited THEN
      sign.head_type := NULL;
    END IF;
    RETURN {schema}.claim_unplanned(q, sign, first_type, {schema}.rules_for(q.queue, first_type, NULL),
      q.types IS NULL AND NOT way.whole, given, now);
  END IF;
  IF states.stale THEN
    PERFORM {schema}.settle_total(l, greatest(now, states.latest)) FROM {schema}.limits l
    WHERE l.id = ANY (states.ids) AND now - l.seen_at > l.window_ms;
  END IF;

  want := least(want, floor(states.slots + moved));
  IF waited THEN
    picked := {schema}.pick_open(q.queue, ARRAY[sign.head_type], want, false, now);
  ELSE
    picked := {schema}.pick_first(q.queue, sign.head_type, sign.head_priority, sign.head_due_at, sign.head_seq, want, now);
  END IF;
  started.count := cardinality(picked);
  busy := started.count < want;
  IF started.count > 0 THEN
    -- Read before the time of the starts: a request that seems to have come later than it did does no harm.
    took := greatest(0, {schema}.wall() - q.arrived);
    -- One of them may have been given back a moment ago: it starts after that. No less is available by then.
    SELECT nextval('{schema}.numbers'), greatest(now, states.latest, m.last, {schema}.wall() + m.skew),
      greatest(m.skew, m.last - {schema}.wall()), (SELECT sum(octet_length(j.data)) FROM {schema}.jobs j WHERE j.ctid = ANY (picked))
    INTO first, now, skew, total FROM {schema}.meta m;
    IF total > q.bytes THEN
      picked := {schema}.first_bytes(picked, q.bytes);
      started.count := cardinality(picked);
      busy := false;
    END IF;
    -- In a row that is there already, or in one of their own, as all that is to be confirmed.
    IF states.shares THEN
      INSERT INTO {schema}.starts AS s (seq, limit_id, at, since, n) OVERRIDING SYSTEM VALUE
      SELECT l.place, l.id, now, now, started.count FROM unnest(states.ids, states.places) AS l (id, place) WHERE l.place IS NOT NULL
      ON CONFLICT ON CONSTRAINT starts_pkey DO UPDATE SET at = excluded.at, n = s.n + excluded.n;
    ELSE
      INSERT INTO {schema}.starts (seq, limit_id, at, since, n, claim, began) OVERRIDING SYSTEM VALUE
      SELECT l.place, l.id, now + coalesce(q.grant_ttl, 0), now, started.count, CASE WHEN q.grant_ttl IS NOT NULL THEN first END,
        CASE WHEN q.grant_ttl IS NOT NULL THEN now - took END
      FROM unnest(states.ids, states.places) AS l (id, place) WHERE l.place IS NOT NULL;
      IF q.grant_ttl IS NOT NULL AND FOUND THEN
        granted := concat(',"grant":[', first, ',', {schema}.confirm_in(states.shortest), ']');
      END IF;
    END IF;
    UPDATE {schema}.limits l SET latest_at = now, called_at = greatest(l.called_at, now + coalesce(q.grant_ttl, 0)), called_by = NULL,
      used = CASE WHEN l.window_ms IS NULL THEN 0 ELSE l.used + started.count END,
      remaining = CASE WHEN l.remaining IS NOT NULL THEN greatest(0, l.remaining - started.count) END,
      newest = CASE WHEN t.place IS NULL THEN l.newest ELSE now END, entry = CASE WHEN q.grant_ttl IS NULL THEN coalesce(t.place, l.entry) ELSE l.entry END,
      entry_since = CASE WHEN t.place = l.entry OR q.grant_ttl IS NOT NULL THEN l.entry_since ELSE now END,
      held = CASE WHEN l.id = ANY (states.holding) THEN l.held - moved + started.count ELSE l.held END
    FROM unnest(states.ids, states.places) AS t (id, place) WHERE l.id = t.id;
    -- Of these a slot was free before (fittedBefore in limits/wakes-waiters.ts).
    IF states.unstarved IS NOT NULL THEN
      PERFORM {schema}.end_starving(l) FROM unnest(states.unstarved) AS l;
    END IF;
    IF moved > 0 THEN
      UPDATE {schema}.slots h SET token = -first, slots = started.count, n = started.count, at = now WHERE h.token = blocks[1];
    ELSIF states.holding IS NOT NULL THEN
      INSERT INTO {schema}.slots (limit_id, token, slots, at, n)
      SELECT l, -first, started.count, now, started.count FROM unnest(states.holding) AS l;
    END IF;
    started := {schema}.start_jobs(picked, first, q.queue, q.worker, q.claim, q.lease_ms, states.taken::jsonb, want, false, now, skew);
    -- Of some limit nothing is left, or nothing was left before: which one is in the way, and may others start?
    IF states.slots + moved - started.count < 1 OR (moved > 0 AND states.slots < 1) THEN
      SELECT min(r.name) FILTER (WHERE l.held + 1 > (r.fields).concurrency),
        array_agg(r.name) FILTER (WHERE l.held + 1 > (r.fields).concurrency AND NOT l.awaited),
        array_agg(l.id) FILTER (WHERE l.held + 1 <= (r.fields).concurrency AND l.held - started.count + moved + 1 > (r.fields).concurrency
          AND l.awaited)
      INTO blocked_by, unmarked, freed
      FROM {schema}.limits l JOIN {schema}.rules r ON r.name = l.name WHERE l.id = ANY (states.holding);
      IF freed IS NOT NULL THEN
        UPDATE {schema}.limits l SET awaited = false, starved_by = NULL, starved_since = NULL WHERE l.id = ANY (freed);
        PERFORM nextval('{schema}.wake_ups');
        wake_all := true;
      END IF;
    END IF;
  ELSIF moved > 0 THEN
    given := {schema}.release_limits(q.tokens, NULL, now);
  END IF;
  IF given IS NOT NULL THEN
    wake_all := wake_all OR {schema}.wakes_waiters(given, now);
  END IF;
  IF waited THEN
    waits := {schema}.any_open(q.queue, ARRAY[sign.head_type], false, now);
  ELSE
    waits := {schema}.any_after(q.queue, sign.head_type, sign.head_priority, coalesce(started.due_at, sign.head_due_at),
      coalesce(started.seq, sign.head_seq), now);
  END IF;
  IF unmarked IS NOT NULL AND (waits OR (sign.due_at IS NOT NULL AND {schema}.next_due(q.queue, q.types, NULL) IS NOT NULL)) THEN
    PERFORM {schema}.await_release(unmarked, array_fill(''::text, ARRAY[cardinality(unmarked)]), NULL, now);
  END IF;
  IF blocked_by IS NOT NULL THEN
    -- Until something is given back. Others may come due that do not wait for it.
    IF q.types IS NULL AND NOT way.whole AND sign.due_at IS NOT NULL THEN
      next_in := {schema}.next_due(q.queue, NULL, ARRAY[sign.head_type]) - {schema}.present();
    END IF;
  ELSIF waits THEN
    next_in := CASE WHEN busy THEN soon_ms ELSE 0 END;
  ELSIF sign.due_at IS NOT NULL THEN
    next_in := {schema}.next_due(q.queue, q.types, NULL) - {schema}.present();
  END IF;
  IF next_in < 0 THEN
    next_in := 0;
  END IF;
  RETURN concat('{"jobs":', coalesce(started.jobs, '[]'), ',"stale":[],"more":',
    CASE WHEN waits AND NOT busy AND blocked_by IS NULL THEN 'true' ELSE 'false' END,
    ',"nextInMs":', coalesce(next_in::text, 'null'), ',"blockedBy":', CASE WHEN waits AND blocked_by IS NOT NULL THEN to_json(blocked_by)::text ELSE 'null' END,
    granted, ',"others":', coalesce(states.others::text, 'null'), CASE WHEN q.ids IS NOT NULL AND {schema}.publish_ends(q.ids, now) THEN ',"ends":true' END,
    ',"wakeAll":', CASE WHEN wake_all THEN 'true}' ELSE 'false}' END);
END
$$;

-- A claim that needs no lanes, with its answer (claim.sql). What it settles ended well and is settled, and what was held is given back.
--
-- q, sign: what it was asked for, and what it saw; its head_type is NULL where that need not be so any more. types, rules, decided: as
-- claim_open. given: what it gave back. now: the time.
CREATE OR REPLACE FUNCTION {schema}.claim_unplanned(q {schema}.claim_request, sign {schema}.claim_signs, types text[],
  rules {schema}.limit_rule[], decided boolean, given {schema}.limit_given[], now float8) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  opened {schema}.opened_claim := {schema}.claim_open(q, sign, types, decided, rules, now);
  next_in float8 := nullif(opened.next_in, 'Infinity');
BEGIN
  IF next_in > 0 THEN
    -- Counted from now, and not from when the locks were taken: the rest of the step took its time.
    next_in := greatest(0, next_in - greatest(0, {schema}.present() - opened.at));
  END IF;
  RETURN concat('{"jobs":', coalesce(opened.jobs, '[]'), ',"stale":[],"more":', to_json(opened.more), ',"nextInMs":',
    coalesce(next_in::text, 'null'), ',"blockedBy":', coalesce(to_json(opened.blocked_by)::text, 'null'), ',"grant":',
    coalesce(opened.granted::text, 'null'), ',"others":', coalesce(opened.others::text, 'null'), CASE WHEN q.ids IS NOT NULL AND {schema}.publish_ends(q.ids, now) THEN ',"ends":true' END,
    ',"wakeAll":', CASE WHEN given IS NULL THEN 'false' ELSE to_json({schema}.wakes_waiters(given, now))::text END, '}');
END
$$;

-- A claim that needs no lanes: no job waits in a group, and all jobs that it may take run under the same limits, or under none, and
-- count for one under each of them. The locks of all names in `rules` are held.
--
-- q, sign: what it was asked for, and what it saw first; head_type is NULL where that need not be so any more. Jobs are
-- prefetched only without limits, and only such as are tried for the first time and may be again. types: those that it
-- takes; decided: these run under `rules`, and others may not (claim.sql: way_of). now: the time. Answers with the jobs that have started,
-- in order (NULL: none), and what storage/job-storage.ts says of a claim (next_in: NULL or Infinity where no clock can tell; counted
-- from `at`); published: events were written.
CREATE OR REPLACE FUNCTION {schema}.claim_open(q {schema}.claim_request, sign {schema}.claim_signs, types text[], decided boolean,
  rules {schema}.limit_rule[], now float8)
RETURNS {schema}.opened_claim
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- So soon it is worth looking for a job that another transaction has locked.
  soon_ms CONSTANT float8 := 100;
  max integer := least(q.max, 10000);
  prefetch integer := greatest(0, least(coalesce(q.prefetch, 0), 10000 - max));
  limited boolean := cardinality(rules) > 0;
  first_only boolean := coalesce(cardinality(types) = 1 AND types[1] = sign.head_type, false);
  opened {schema}.opened_claim;
  keys {schema}.claim_keys;
  charged record;
  refusal record;
  unmarked text[];
  limits jsonb;
  wait float8 := 0;
  picked tid[];
  total float8;
  first bigint;
  skew float8;
  started {schema}.started_jobs;
  waits boolean := false;
  busy boolean := false;
  took float8;
BEGIN
  IF limited THEN
    keys := {schema}.open_keys(rules, cardinality(rules), '{}', '{}', max, q.grant_ttl, q.claimant, now);
    now := keys.at;
    max := least(max, {schema}.available_starts(keys));
    prefetch := 0;
  END IF;
  IF cardinality(types) > 0 THEN
    IF max + prefetch > 0 THEN
      IF first_only THEN
        picked := {schema}.pick_first(q.queue, sign.head_type, sign.head_priority, sign.head_due_at, sign.head_seq,
          max + prefetch, now);
      ELSE
        picked := {schema}.pick_open(q.queue, types, max + prefetch, sign.has_cursors, now);
      END IF;
      busy := cardinality(picked) < max + prefetch;
      IF cardinality(picked) > 0 THEN
        IF limited THEN
          -- Read before the time of the starts: a request that seems to have come later than it did does no harm.
          took := greatest(0, {schema}.wall() - q.arrived);
        END IF;
        -- One of them may have been given back a moment ago: it starts after that. No less is available by then.
        SELECT nextval('{schema}.numbers'), greatest(now, m.last, {schema}.wall() + m.skew), greatest(m.skew, m.last - {schema}.wall()),
          (SELECT sum(octet_length(j.data)) FROM {schema}.jobs j WHERE j.ctid = ANY (picked))
        INTO first, now, skew, total FROM {schema}.meta m;
        IF total > q.bytes THEN
          picked := {schema}.first_bytes(picked, q.bytes);
          busy := false;
        END IF;
        IF limited THEN
          SELECT * INTO charged FROM {schema}.charge_uniform(keys, cardinality(picked), first, q.grant_ttl, now - took, now);
          limits := charged.taken;
          IF charged.confirm_in IS NOT NULL THEN
            opened.granted := json_build_array(first, charged.confirm_in);
          END IF;
        END IF;
        started := {schema}.start_jobs(picked, first, q.queue, q.worker, q.claim, q.lease_ms, limits, max, sign.heard, now, skew);
        -- What was left alone is to be had.
        busy := busy AND started.count = cardinality(picked);
      END IF;
    END IF;
    IF first_only THEN
      waits := {schema}.any_after(q.queue, sign.head_type, sign.head_priority, coalesce(started.due_at, sign.head_due_at),
      coalesce(started.seq, sign.head_seq), now);
    ELSE
      waits := {schema}.any_open(q.queue, types, sign.has_cursors, now);
    END IF;
  END IF;
  opened.jobs := started.jobs;
  opened.published := sign.heard AND started.count > 0;
  opened.at := now;
  IF limited THEN
    SELECT * INTO refusal FROM {schema}.next_refusal(keys, rules, coalesce(started.count, 0), now);
    wait := refusal.wait;
    unmarked := refusal.unmarked;
    opened.others := refusal.others;
    opened.blocked_by := CASE WHEN waits THEN refusal.blocked_by END;
  END IF;
  opened.more := waits AND NOT busy AND wait = 0;
  opened.next_in := CASE WHEN NOT waits THEN {schema}.next_due(q.queue, q.types, NULL) - now WHEN busy THEN soon_ms ELSE 0 END;
  IF opened.next_in IS NOT NULL THEN
    IF unmarked IS NOT NULL THEN
      PERFORM {schema}.await_release(unmarked, array_fill(''::text, ARRAY[cardinality(unmarked)]),
        CASE WHEN coalesce(started.count, 0) = 0 THEN q.claimant END, now);
    END IF;
    -- While the limits are full it makes no sense to ask again, even if a job comes due before.
    opened.next_in := greatest(opened.next_in, wait);
  END IF;
  IF decided AND wait > 0 THEN
    -- Unless it is of a type that runs under others.
    opened.next_in := least(opened.next_in, {schema}.next_due(q.queue, NULL, types) - now);
  END IF;
  RETURN opened;
END
$$;

-- Writes down `count` starts that take one of each key, with tokens from `first` on. Answers what is kept of that with each job, and when
-- it is to be confirmed (NULL: never).
--
-- keys, ttl, began, now: as charge_keys.
CREATE OR REPLACE FUNCTION {schema}.charge_uniform(
  keys {schema}.claim_keys, count integer, first bigint, ttl float8, began float8, now float8, OUT taken jsonb, OUT confirm_in float8
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  starts integer[] := array_fill(0, ARRAY[cardinality(keys.states)]);
  slots float8[] := starts;
  -- Probes are held one by one: a breaker counts those of a time.
  singly boolean[] := starts::boolean[];
  charged record;
BEGIN
  FOR k IN 1 .. cardinality(keys.states) LOOP
    starts[keys.states[k]] := count;
    IF keys.takes_slots[k] THEN
      slots[keys.states[k]] := count;
      singly[keys.states[k]] := singly[keys.states[k]] OR NOT keys.alike[k];
    END IF;
  END LOOP;
  SELECT * INTO charged FROM {schema}.charge_keys(keys, starts, starts, slots, first, ttl, began, now);
  confirm_in := charged.confirm_in;
  INSERT INTO {schema}.slots (limit_id, token, slots, at, n)
    SELECT k.id, -first, count, now, count FROM unnest(charged.ids, slots, singly) AS k (id, slots, singly) WHERE k.slots > 0 AND NOT k.singly
    UNION ALL
    SELECT k.id, token, 1, now, 1 FROM unnest(charged.ids, slots, singly) AS k (id, slots, singly)
      CROSS JOIN generate_series(first, first + count - 1) AS token WHERE k.slots > 0 AND k.singly;
  SELECT concat('[', string_agg(concat('[', k.id, CASE WHEN k.entry <> 0 THEN ',' || k.entry END, ']'), ',' ORDER BY k.place), ']')
    INTO taken FROM unnest(charged.ids, charged.entries, starts) WITH ORDINALITY AS k (id, entry, starts, place) WHERE k.starts > 0;
END
$$;

-- How many starts that take one of each key fit now.
CREATE OR REPLACE FUNCTION {schema}.available_starts(keys {schema}.claim_keys) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT greatest(0, min(CASE WHEN k.closed OR k.max < 1 OR k.concurrency < 1 THEN 0 ELSE floor(least(k.weights, k.slots, k.starts)) END))
  FROM unnest(keys.closed, keys.maxima, keys.concurrency, keys.weights, keys.slots, keys.starts)
    AS k (closed, max, concurrency, weights, slots, starts)
$$;

-- How long one more start that takes one of each key has to wait (0: it may start), and for which limit the longest; which limits
-- do not say yet that something waits for them (NULL: none); and for how long others have (NULL: none do). What the claim has started,
-- `count` of them, is written.
CREATE OR REPLACE FUNCTION {schema}.next_refusal(
  keys {schema}.claim_keys, rules {schema}.limit_rule[], count integer, now float8, OUT wait float8, OUT blocked_by text,
  OUT unmarked text[], OUT others float8
)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  own float8;
BEGIN
  wait := 0;
  FOR k IN 1 .. cardinality(keys.states) LOOP
    others := greatest(others, keys.others[k]);
    CONTINUE WHEN NOT keys.closed[k] AND (keys.maxima[k] >= 1) IS NOT FALSE AND (keys.concurrency[k] >= 1) IS NOT FALSE
      AND least(keys.weights[k], keys.slots[k], keys.starts[k]) - count >= 1;
    own := {schema}.refusal_wait(rules[keys.rules[k]], '', 1, 1, 0, 0, 0, NULL, now);
    IF own > wait THEN
      wait := own;
      blocked_by := keys.names[k];
    END IF;
    IF own <> 0 AND keys.takes_slots[k] AND NOT (keys.awaited[k] AND (count > 0 OR keys.starved[k])) THEN
      unmarked := unmarked || keys.names[k];
    END IF;
  END LOOP;
END
$$;
