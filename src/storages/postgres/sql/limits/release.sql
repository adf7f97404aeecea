-- What jobs give back: slots, weights that are corrected, starts that were none; and what services said of limits when jobs ended.
--
-- Locks: those of the limits are held.

-- The names of the limits that `release_limits` will write to: what ended starts hold, what they took and give back, and what they are to
-- hold up. Read before the locks: under the rules lock nothing is held of other names than before.
CREATE OR REPLACE FUNCTION {schema}.limits_to_release(tokens bigint[], leases {schema}.ended_lease[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  names text[];
  gives boolean;
  holds boolean;
  lease {schema}.ended_lease;
BEGIN
  IF leases IS NOT NULL THEN
    SELECT array_agg(t.token ORDER BY t.token) INTO tokens FROM (SELECT e.token FROM unnest(leases) AS e UNION ALL SELECT unnest(tokens)) AS t;
  END IF;
  names := ARRAY(SELECT DISTINCT l.name FROM {schema}.slots AS h JOIN {schema}.limits AS l ON l.id = h.limit_id
    WHERE h.token = ANY (CASE WHEN {schema}.any_own_slots(tokens) THEN tokens ELSE '{}' END || ({schema}.blocks_of(tokens)).blocks));
  IF leases IS NULL THEN
    RETURN names;
  END IF;
  SELECT bool_or(e.unstarted OR e.settled IS NOT NULL), bool_or(e.hold IS NOT NULL) INTO gives, holds FROM unnest(leases) AS e;
  IF gives THEN
    names := names || ARRAY(SELECT DISTINCT l.name
      FROM (SELECT DISTINCT e.limits FROM unnest(leases) AS e WHERE e.unstarted OR e.settled IS NOT NULL) AS given
        CROSS JOIN LATERAL jsonb_array_elements(given.limits) AS taken
        JOIN {schema}.limits AS l ON l.id = (taken ->> 0)::bigint);
  END IF;
  IF holds THEN
    FOREACH lease IN ARRAY leases LOOP
      names := names || {schema}.names_to_hold(lease);
    END LOOP;
  END IF;
  RETURN names;
END
$$;

-- Starts have ended: what services said about their limits holds, starts that never were are taken back, starts that a service refused
-- count for nothing but for the weights that the jobs have settled, what was held is given back, and breakers are updated. Answers
-- with what was given back, to be judged by `wakes_waiters` when all of the step is done.
--
-- tokens: of those that ended well, in their order; leases: how others ended. Either may be NULL.
CREATE OR REPLACE FUNCTION {schema}.release_limits(
  tokens bigint[], leases {schema}.ended_lease[], now float8
) RETURNS {schema}.limit_given[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  given {schema}.limit_given[] := '{}';
  special boolean := false;
  lease {schema}.ended_lease;
  name text;
  cancelled record;
  together record;
  ended record;
BEGIN
  IF leases IS NOT NULL THEN
    SELECT array_agg(t.token ORDER BY t.token) INTO tokens FROM (SELECT e.token FROM unnest(leases) AS e UNION ALL SELECT unnest(tokens)) AS t;
    SELECT bool_or(e.hold IS NOT NULL OR e.unstarted OR e.settled IS NOT NULL) INTO special FROM unnest(leases) AS e;
  END IF;
  IF special THEN
    FOREACH lease IN ARRAY leases LOOP
      FOREACH name IN ARRAY {schema}.names_to_hold(lease) LOOP
        PERFORM {schema}.write_hold(name, {schema}.state_of({schema}.rule_named(name), lease.grp, lease.keys),
          now + (lease.hold ->> 'forMs')::float8, now);
      END LOOP;
      IF lease.settled IS NOT NULL THEN
        given := given || ({schema}.correct_starts(lease.limits, lease.started_at, NULL, lease.settled, now)).given;
      END IF;
    END LOOP;
    FOR cancelled IN
      SELECT e.limits, e.started_at, count(*) AS times FROM unnest(leases) AS e
        WHERE e.unstarted AND e.started_at IS NOT NULL GROUP BY e.limits, e.started_at
    LOOP
      given := given || {schema}.cancel_taken(cancelled.limits, cancelled.started_at, cancelled.times, now);
    END LOOP;
  END IF;
  together := {schema}.blocks_of(tokens);
  -- What the jobs of one claim hold together. The last of them deletes the row.
  FOR ended IN
    WITH gone AS (
      DELETE FROM {schema}.slots AS h USING unnest(together.blocks, together.counts) AS b (token, n)
        WHERE h.token = b.token AND h.n <= b.n RETURNING h.limit_id, h.at, b.n
    ), fewer AS (
      UPDATE {schema}.slots AS h SET n = h.n - b.n, slots = h.slots - b.n
        FROM unnest(together.blocks, together.counts) AS b (token, n)
        WHERE h.token = b.token AND h.n > b.n RETURNING h.limit_id, h.at, b.n
    )
    SELECT e.limit_id, sum(e.n) AS slots, array_agg(e.at) AS ats FROM (SELECT * FROM gone UNION ALL SELECT * FROM fewer) AS e
      GROUP BY e.limit_id
  LOOP
    given := given || {schema}.give_slots(ended.limit_id, ended.slots, NULL, ended.ats, NULL, now);
  END LOOP;
  IF NOT {schema}.any_own_slots(tokens) THEN
    RETURN given;
  END IF;
  -- What each holds for itself.
  FOR ended IN
    WITH gone AS (
      DELETE FROM {schema}.slots AS h WHERE h.token = ANY (tokens) RETURNING h.limit_id, h.token, h.slots, h.at
    )
    SELECT gone.limit_id, sum(gone.slots) AS slots, array_agg(gone.token) AS tokens, array_agg(gone.at) AS ats
      FROM gone GROUP BY gone.limit_id
  LOOP
    given := given || {schema}.give_slots(ended.limit_id, ended.slots, ended.tokens, ended.ats, leases, now);
  END LOOP;
  RETURN given;
END
$$;

-- Jobs have given back so many slots of a limit: starts with these tokens (NULL: the breaker does not go by them), that held
-- them since these instants. leases: how it went; NULL: well. Answers with what wakes_waiters judges.
CREATE OR REPLACE FUNCTION {schema}.give_slots(
  id bigint, slots float8, tokens bigint[], ats float8[], leases {schema}.ended_lease[], now float8
) RETURNS {schema}.limit_given[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  given {schema}.limit_given[];
  seen record;
BEGIN
  UPDATE {schema}.limits AS l SET held = greatest(0, l.held - slots) WHERE l.id = give_slots.id
    RETURNING l AS kept, (SELECT r.fields FROM {schema}.rules AS r WHERE r.name = l.name) AS rule,
      (SELECT sum(h.slots) FROM {schema}.slots AS h WHERE h.limit_id = l.id AND h.until > give_slots.now) AS permits
    INTO seen;
  IF NOT FOUND OR seen.rule IS NULL THEN
    RETURN '{}';
  END IF;
  -- Where nothing was refused or it was available before, more of it matters only to jobs that need more than one, or wait in a lane.
  IF (seen.rule).probes IS NULL AND (seen.rule).weight IS NULL AND NOT (seen.rule).by_group
    AND (NOT ((seen.kept).awaited OR (seen.kept).starved_by IS NOT NULL) OR (seen.rule).concurrency IS NULL
      OR (seen.kept).held + slots + coalesce(seen.permits, 0) + 1 <= (seen.rule).concurrency)
  THEN
    IF (seen.kept).starved_by IS NOT NULL THEN
      PERFORM {schema}.end_starving(id);
    END IF;
    RETURN '{}';
  END IF;
  given := {schema}.release_slots(seen.kept, seen.rule, slots, ats, now);
  IF (seen.rule).probes IS NOT NULL AND tokens IS NOT NULL
    AND {schema}.update_breaker(seen.kept, seen.rule, leases, tokens, ats, now)
  THEN
    given := given || {schema}.window_freed((seen.kept).name, (seen.kept).grp, now);
  END IF;
  RETURN given;
END
$$;

-- So many slots of a limit have been given back, that were held since these instants: lanes that waited for them may look
-- again at once. Answers with how long one more had to wait for them before, for wakes_waiters; empty: nothing waits for them; slots NULL:
-- what waits was woken up already, and it is only noted that it starves. What jobs hold is written already.
CREATE OR REPLACE FUNCTION {schema}.release_slots(
  kept {schema}.limits, rule {schema}.limit_rule, slots float8, ats float8[], now float8
) RETURNS {schema}.limit_given[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  given {schema}.limit_given;
  open_until float8 := CASE WHEN rule.probes IS NOT NULL THEN kept.open_until END;
  concurrency float8 := rule.concurrency;
  held record;
  awaited boolean := kept.awaited;
BEGIN
  -- What held no slots only kept a group in mind.
  IF kept.id IS NULL OR rule.name IS NULL OR (slots = 0 AND rule.probes IS NULL) THEN
    RETURN '{}';
  END IF;
  IF rule.by_group THEN
    concurrency := ({schema}.quota_of(rule, {schema}.group_of(kept.grp))).concurrency;
  END IF;
  IF rule.by_group OR rule.weight IS NOT NULL THEN
    awaited := {schema}.unblock_lanes(rule.name, ARRAY[kept.grp], now) OR awaited;
  END IF;
  IF NOT awaited AND kept.starved_by IS NULL THEN
    RETURN '{}';
  END IF;
  held := {schema}.slots_in_use(kept.id, kept.held, open_until, now);
  given.id := kept.id;
  given.name := kept.name;
  given.grp := kept.grp;
  given.slots := held.slots + slots;
  given.wait := 0;
  IF given.slots + 1 > concurrency THEN
    given.wait := CASE WHEN concurrency = 0 THEN 'Infinity' WHEN concurrency < 1 THEN -1 ELSE held.expires_in END;
  END IF;
  IF open_until <= now
    AND held.probes + (SELECT count(*) FROM unnest(ats) AS at WHERE at >= open_until) >= rule.probes
  THEN
    given.wait := greatest(given.wait, held.expires_in);
  END IF;
  -- Where it was available, more of it matters only to jobs that need more than one.
  IF given.wait = 0 AND rule.weight IS NULL THEN
    IF kept.starved_by IS NOT NULL THEN
      PERFORM {schema}.end_starving(kept.id);
    END IF;
    RETURN '{}';
  END IF;
  IF NOT awaited AND rule.weight IS NULL THEN
    given.slots := NULL;
  END IF;
  RETURN ARRAY[given];
END
$$;

-- What a job that runs really used: its start is corrected under every limit that weighs by one of these names. seq, token,
-- started_at, limits: of the job, whose row the step has locked. Answers with what was given back, for wakes_waiters.
CREATE OR REPLACE FUNCTION {schema}.correct_weights(
  seq bigint, token bigint, started_at float8, limits jsonb, weights jsonb, now float8
) RETURNS {schema}.limit_given[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  corrected record := {schema}.correct_starts(limits, started_at, weights, NULL, now);
  given {schema}.limit_given[] := corrected.given;
  kept {schema}.limits;
  rule {schema}.limit_rule;
  held {schema}.slots;
  really float8;
BEGIN
  IF corrected.after <> limits THEN
    UPDATE {schema}.jobs AS j SET limits = corrected.after WHERE j.seq = correct_weights.seq;
  END IF;
  FOR held IN SELECT * FROM {schema}.slots AS h WHERE h.token = correct_weights.token LOOP
    SELECT * INTO kept FROM {schema}.limits AS l WHERE l.id = held.limit_id;
    CONTINUE WHEN NOT FOUND;
    rule := {schema}.rule_named(kept.name);
    CONTINUE WHEN rule.name IS NULL OR rule.max IS NOT NULL OR (weights ? rule.weight) IS NOT TRUE;
    really := (weights ->> rule.weight)::float8;
    CONTINUE WHEN really = held.slots;
    UPDATE {schema}.slots AS h SET slots = really WHERE h.limit_id = held.limit_id AND h.token = held.token;
    UPDATE {schema}.limits AS l SET held = greatest(0, l.held + really - held.slots) WHERE l.id = kept.id
      RETURNING * INTO kept;
    IF really < held.slots THEN
      given := given || {schema}.release_slots(kept, rule, held.slots - really, ARRAY[held.at], now);
    END IF;
  END LOOP;
  RETURN given;
END
$$;

-- A start took this of its limits (jobs.limits), and really used so much; the last word holds. Inside the window its place in the log
-- changes; what becomes known after it has expired is charged from now on, and what has expired is not given back. `after` is what it took
-- then, `given` what wakes_waiters judges.
--
-- weights: what it used, by the names of weights; of others it used what it took. NULL: it used nothing, but for the names in `settled`.
CREATE OR REPLACE FUNCTION {schema}.correct_starts(
  limits jsonb, started_at float8, weights jsonb, settled text[], now float8, OUT after jsonb, OUT given {schema}.limit_given[]
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  taken jsonb;
  kept {schema}.limits;
  rule {schema}.limit_rule;
  entry {schema}.starts;
  weight float8;
  spent float8;
  used float8;
  counts float8;
  again record;
BEGIN
  given := '{}';
  IF jsonb_typeof(limits) IS DISTINCT FROM 'array' THEN
    RETURN;
  END IF;
  after := '[]';
  FOR taken IN SELECT jsonb_array_elements(limits) LOOP
    SELECT * INTO kept FROM {schema}.limits AS l WHERE l.id = (taken ->> 0)::bigint;
    rule := {schema}.rule_named(kept.name);
    IF rule.max IS NOT NULL AND rule.weight IS NOT NULL
      AND (weights ? rule.weight OR (weights IS NULL AND rule.weight <> ALL (settled)))
    THEN
      used := coalesce((weights ->> rule.weight)::float8, 0);
      weight := coalesce((taken ->> 2)::float8, 1);
      spent := coalesce((taken ->> 3)::float8, 0);
      entry := {schema}.find_entry(kept.id, coalesce((taken ->> 1)::bigint, 0), coalesce((taken ->> 4)::float8, started_at, 0));
      IF now - entry.at < kept.longest THEN
        counts := greatest(0, used - spent);
        IF counts <> weight THEN
          PERFORM {schema}.change_start(entry, entry.at, entry.since, greatest(0, entry.n + counts - weight), entry.spent);
          IF counts < weight THEN
            given := given || {schema}.window_freed(kept.name, kept.grp, now);
          END IF;
          taken := jsonb_build_array(kept.id, entry.seq, counts, spent)
            || CASE WHEN taken -> 4 IS NULL THEN '[]' ELSE jsonb_build_array(taken -> 4) END;
        END IF;
      ELSE
        spent := spent + weight;
        taken := jsonb_build_array(kept.id, 0, 0, spent);
        IF used > spent THEN
          PERFORM {schema}.charge_more(kept.id, used - spent);
          again := {schema}.record_start(kept.id, used - spent, now);
          taken := jsonb_build_array(kept.id, again.place, used - spent, spent, again.at);
        END IF;
      END IF;
    END IF;
    after := after || jsonb_build_array(taken);
  END LOOP;
END
$$;

-- So many starts of this instant, each of which took the same, never were. What was cleared since has another id, and keeps
-- its starts.
CREATE OR REPLACE FUNCTION {schema}.cancel_taken(
  limits jsonb, started_at float8, times bigint, now float8
) RETURNS {schema}.limit_given[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  given {schema}.limit_given[] := '{}';
  taken jsonb;
  kept {schema}.limits;
  entry {schema}.starts;
BEGIN
  IF limits IS NULL OR jsonb_typeof(limits) <> 'array' THEN
    RETURN given;
  END IF;
  FOR taken IN SELECT jsonb_array_elements(limits) LOOP
    SELECT * INTO kept FROM {schema}.limits AS l WHERE l.id = (taken ->> 0)::bigint;
    CONTINUE WHEN NOT FOUND;
    entry := {schema}.find_entry(
      kept.id, coalesce((taken ->> 1)::bigint, 0), coalesce((taken ->> 4)::float8, started_at));
    IF entry.seq IS NOT NULL THEN
      PERFORM {schema}.change_start(entry, entry.at, entry.since,
        greatest(0, entry.n - coalesce((taken ->> 2)::float8, 1) * times), entry.spent);
    END IF;
    PERFORM {schema}.cancel_latest(kept.id, started_at);
    given := given || {schema}.window_freed(kept.name, kept.grp, now);
  END LOOP;
  RETURN given;
END
$$;

-- What all that start with a token hold in one row is called by: the number that their claim drew, below zero. A claim draws
-- a number, and the 9,999 after it are its own as well.
CREATE OR REPLACE FUNCTION {schema}.block_of(token bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT (token - 1) % 10000 - token
$$;

-- What starts with these tokens, in their order, hold in one row each claim (block_of), and how many of them: two lists.
CREATE OR REPLACE FUNCTION {schema}.blocks_of(tokens bigint[], OUT blocks bigint[], OUT counts integer[])
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  blocks := ARRAY[{schema}.block_of(tokens[1])];
  counts := ARRAY[cardinality(tokens)];
  -- Almost always they come from one claim.
  IF blocks[1] <> {schema}.block_of(tokens[counts[1]]) THEN
    SELECT array_agg(b.block), array_agg(b.n) INTO blocks, counts FROM (
      SELECT {schema}.block_of(token) AS block, count(*) AS n FROM unnest(tokens) AS token GROUP BY 1) AS b;
  END IF;
END
$$;

-- Something was refused under these limits, whose locks are held: slots that are given back wake up what waits (wakes_waiters). Only the
-- first refusal after a wake-up is written.
--
-- names, grps: of which limits, and which state of each. claimant: who waits for slots, and was given none (limits/starved.ts); NULL: who
-- waits has some. now: the time.
CREATE OR REPLACE FUNCTION {schema}.await_release(names text[], grps text[], claimant text, now float8) RETURNS void
LANGUAGE sql VOLATILE AS $$
  UPDATE {schema}.limits AS l SET awaited = true,
    starved_by = CASE WHEN claimant IS NULL THEN l.starved_by WHEN coalesce(l.starved_by, claimant) = claimant THEN claimant ELSE 'several' END,
    starved_since = CASE WHEN claimant IS NULL OR l.starved_by IN (claimant, 'several') THEN l.starved_since ELSE now END
  FROM unnest(names, grps) AS w (name, grp)
    CROSS JOIN LATERAL (SELECT o.id FROM {schema}.limits o WHERE o.name = w.name AND o.grp = w.grp LIMIT 1) s
  WHERE l.id = s.id AND NOT (l.awaited AND coalesce(l.starved_by IN (claimant, 'several'), claimant IS NULL))
$$;

-- A slot of this limit was free before others were given back: what was refused before waits for none any more.
CREATE OR REPLACE FUNCTION {schema}.end_starving(id bigint) RETURNS void
LANGUAGE sql VOLATILE AS $$
  UPDATE {schema}.limits AS l SET starved_by = NULL, starved_since = NULL WHERE l.id = end_starving.id
$$;

-- Does what a step gave back wake up workers and permits that wait (limits/wakes-waiters.ts)? Of what was given back several times the
-- first is how it was before. What the step has taken again wakes no worker.
--
-- takes: the claim that gave it back is about to take of it, in another step: those that wait for slots will hardly get them.
CREATE OR REPLACE FUNCTION {schema}.wakes_waiters(given {schema}.limit_given[], now float8, takes boolean DEFAULT false) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  one {schema}.limit_given;
  rule {schema}.limit_rule;
  kept record;
  judged bigint[] := '{}';
  earlier boolean;
  wakes boolean := false;
BEGIN
  IF coalesce(cardinality(given), 0) = 0 THEN
    RETURN false;
  END IF;
  FOREACH one IN ARRAY given LOOP
    IF one.id IS NULL THEN
      PERFORM nextval('{schema}.wake_ups');
      RETURN true;
    END IF;
  END LOOP;
  FOREACH one IN ARRAY given LOOP
    CONTINUE WHEN one.id = ANY (judged);
    judged := judged || one.id;
    rule := {schema}.rule_named(one.name);
    CONTINUE WHEN rule.name IS NULL;
    -- Where one more fitted before, it matters only to heavier starts. These have to look after every change.
    CONTINUE WHEN one.wait = 0 AND (rule.weight IS NULL OR rule.max IS NOT NULL);
    SELECT greatest(now, l.newest, l.latest_at) AS at, l.starved_by, l.held + coalesce((
        SELECT sum(h.slots) FROM {schema}.slots h WHERE h.limit_id = l.id AND h.until > now), 0) AS slots
      INTO kept FROM {schema}.limits l WHERE l.id = one.id;
    CONTINUE WHEN wakes AND kept.starved_by IS NULL;
    earlier := rule.weight IS NOT NULL AND rule.max IS NULL AND kept.slots < one.slots;
    IF earlier IS NOT TRUE AND one.wait <> 0 THEN
      earlier := {schema}.refusal_wait(rule, one.grp, 1, 1, 0, 0, 0, NULL, coalesce(kept.at, now)) < one.wait;
    END IF;
    IF earlier THEN
      -- All that wait are woken up, and ask again.
      UPDATE {schema}.limits AS l SET awaited = false, starved_by = CASE WHEN takes THEN l.starved_by END,
          starved_since = CASE WHEN takes THEN l.starved_since END
        WHERE l.id = one.id AND (l.awaited OR l.starved_by IS NOT NULL);
      wakes := wakes OR one.slots IS NOT NULL;
    END IF;
  END LOOP;
  IF wakes THEN
    PERFORM nextval('{schema}.wake_ups');
  END IF;
  RETURN wakes;
END
$$;

-- The names of the limits that a service holds up, by what a job said that was refused: those that it named, and all
-- that it ran under and that are not by group.
CREATE OR REPLACE FUNCTION {schema}.names_to_hold(lease {schema}.ended_lease) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF lease.hold IS NULL THEN
    RETURN '{}';
  END IF;
  RETURN ARRAY(
    SELECT jsonb_array_elements_text(lease.hold -> 'names')
    UNION
    SELECT r.name FROM {schema}.rules AS r
      WHERE (lease.hold ->> 'scope')::boolean AND NOT coalesce((r.rule ->> 'byGroup')::boolean, false)
        AND (jsonb_typeof(r.rule -> 'queues') <> 'array' OR r.rule -> 'queues' ? lease.queue)
        AND (jsonb_typeof(r.rule -> 'types') <> 'array' OR r.rule -> 'types' ? lease.type));
END
$$;

-- May one of the starts with these tokens, in their order, hold something for itself? One look instead of one for each of them: where
-- limits are the same for all jobs of a claim, none does.
CREATE OR REPLACE FUNCTION {schema}.any_own_slots(tokens bigint[]) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (SELECT FROM {schema}.slots AS h WHERE h.token >= tokens[1] AND h.token <= tokens[cardinality(tokens)]);
END
$$;

-- Updates the breaker of a limit by how leases ended that held it, in their order: tokens and ats are of what they held;
-- leases is NULL where all of them went well. Does it close with that? It opens after so many failures in a row, and when a
-- probe fails; a probe that goes well closes it.
CREATE OR REPLACE FUNCTION {schema}.update_breaker(
  kept {schema}.limits, rule {schema}.limit_rule, leases {schema}.ended_lease[], tokens bigint[], ats float8[], now float8
) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  fails integer := kept.failures;
  opens float8 := kept.open_until;
  closed boolean := false;
  one record;
BEGIN
  FOR one IN
    SELECT coalesce(e.how, 'well') AS how, e.kinds, held.at
      FROM unnest(tokens, ats) AS held (token, at)
        LEFT JOIN unnest(leases) WITH ORDINALITY AS e ON e.token = held.token
      WHERE e.how IS NULL OR e.how <> 'gone' ORDER BY e.ordinality
  LOOP
    IF one.how = 'well' THEN
      fails := 0;
      IF opens <= one.at THEN
        opens := NULL;
        closed := true;
      END IF;
      CONTINUE;
    END IF;
    CONTINUE WHEN rule.kinds IS NOT NULL AND NOT rule.kinds && coalesce(one.kinds, '{}');
    IF opens IS NULL THEN
      fails := fails + 1;
      CONTINUE WHEN fails < rule.failures;
    ELSIF one.at < opens THEN
      -- It began before the breaker opened, and says nothing new.
      CONTINUE;
    END IF;
    fails := 0;
    opens := now + rule.open_ms;
  END LOOP;
  IF fails = kept.failures AND opens IS NOT DISTINCT FROM kept.open_until THEN
    RETURN false;
  END IF;
  UPDATE {schema}.limits AS l SET failures = fails, open_until = opens
    WHERE l.id = kept.id;
  RETURN closed;
END
$$;

-- The start of this instant never was. When it was granted, the time after the one before it was over.
CREATE OR REPLACE FUNCTION {schema}.cancel_latest(id bigint, started_at float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  UPDATE {schema}.limits AS l SET latest_at = NULL, called_at = NULL, called_by = NULL
    WHERE l.id = cancel_latest.id AND l.latest_at = started_at;
END
$$;
