// Made of the files in sql/ by `node scripts/compile-sql.ts`: change those, and run it.

export interface SqlFile {
  /** Where it is, in sql/. */
  readonly path: string;
  /** `{schema}` in it stands for the schema, quoted. */
  readonly text: string;
}

/** All of them, in the order in which they are applied: the tables first. */
export const SQL_FILES: readonly SqlFile[] = [
  {
    path: "tables.sql",
    text: `-- The first version of the tables. Instants are milliseconds since 1970 by the clock of the storage, with fractions: doubles,
-- so that what is decided here is decided by the same arithmetic as everywhere else, to the last bit.
--
-- A job's state and the columns that belong to it are held together by a CHECK: whoever breaks the state machine, with
-- whatever tool, is refused. Every index is there for one question, named beside it, and partial: finished jobs cost
-- a claim nothing.

-- One row: the clock (step/moment.sql), and a number that grows with every change of rules.
CREATE TABLE {schema}.meta (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  last float8 NOT NULL DEFAULT 0,
  skew float8 NOT NULL DEFAULT 0,
  rules bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
INSERT INTO {schema}.meta DEFAULT VALUES;

-- Behind tokens and turns: they only ever grow. Whoever draws a number has those up to the next one for himself: a claim
-- draws once, however many jobs it starts.
CREATE SEQUENCE {schema}.numbers INCREMENT BY 10000;

CREATE TABLE {schema}.jobs (
  -- The order of adding.
  seq bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  id text COLLATE "C" NOT NULL,
  queue text COLLATE "C" NOT NULL,
  type text COLLATE "C" NOT NULL,
  state text COLLATE "C" NOT NULL,
  priority float8 NOT NULL,
  grp text COLLATE "C",
  data text NOT NULL,
  weights jsonb,
  attempt integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
  max_attempts bigint NOT NULL,
  backoff text NOT NULL,
  timeout float8,
  deadline float8,
  keep_for float8,
  holds integer NOT NULL DEFAULT 0,
  created_at float8 NOT NULL,
  due_at float8 NOT NULL,
  started_at float8,
  finished_at float8,
  worker text COLLATE "C",
  -- Which claim started it: an answer that got lost can be asked for again.
  claim text COLLATE "C",
  lease_until float8,
  token bigint NOT NULL DEFAULT 0,
  -- What its latest start took of limits.
  limits jsonb,
  cancel_requested boolean NOT NULL DEFAULT false,
  progress text,
  result text,
  error text,
  idempotency_key text COLLATE "C",
  delete_at float8,
  PRIMARY KEY (id),
  -- The state machine.
  CHECK (CASE state
    WHEN 'waiting' THEN lease_until IS NULL AND finished_at IS NULL AND delete_at IS NULL AND result IS NULL
    WHEN 'scheduled' THEN lease_until IS NULL AND finished_at IS NULL AND delete_at IS NULL AND result IS NULL
    WHEN 'active' THEN lease_until IS NOT NULL AND worker IS NOT NULL AND started_at IS NOT NULL AND token > 0
      AND finished_at IS NULL AND delete_at IS NULL AND result IS NULL
    WHEN 'completed' THEN lease_until IS NULL AND finished_at IS NOT NULL AND delete_at IS NOT NULL
    WHEN 'dead' THEN lease_until IS NULL AND finished_at IS NOT NULL AND delete_at IS NOT NULL AND result IS NULL
    WHEN 'cancelled' THEN lease_until IS NULL AND finished_at IS NOT NULL AND delete_at IS NOT NULL AND result IS NULL
    WHEN 'awaiting' THEN lease_until IS NULL AND finished_at IS NULL AND delete_at IS NULL AND result IS NULL
    ELSE false END)
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
  autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 1);
-- Who is next of a type, where no lanes are needed?
CREATE INDEX jobs_open ON {schema}.jobs (queue, type, priority DESC, due_at, seq)
  WHERE state = 'waiting' AND grp IS NULL;
-- Who is next in the lane of a group?
CREATE INDEX jobs_grouped ON {schema}.jobs (queue, type, priority DESC, grp, due_at, seq)
  WHERE state = 'waiting' AND grp IS NOT NULL;
-- What comes due?
CREATE INDEX jobs_scheduled ON {schema}.jobs (queue, due_at) WHERE state = 'scheduled';
-- Whose lease has run out?
CREATE INDEX jobs_leases ON {schema}.jobs (lease_until) WHERE state = 'active';
-- Who is asked to stop?
CREATE INDEX jobs_stopping ON {schema}.jobs (queue) WHERE state = 'active' AND cancel_requested;
-- Which jobs are too late to start?
CREATE INDEX jobs_deadlines ON {schema}.jobs (deadline) WHERE deadline IS NOT NULL AND state IN ('waiting', 'scheduled');
-- What has been kept long enough?
CREATE INDEX jobs_kept ON {schema}.jobs (delete_at) WHERE delete_at IS NOT NULL;
-- Lists and counts of all but active jobs, of which there are few. Spelt in another collation, though an equal one: only who asks
-- in the same words finds it. Nothing tells the planner, right after many jobs were added, that it is the wrong one
-- to find the next job by.
CREATE INDEX jobs_states ON {schema}.jobs (queue COLLATE "POSIX", state COLLATE "POSIX", seq)
  WHERE state COLLATE "POSIX" <> 'active';

-- Attempts that failed. job: its seq.
CREATE TABLE {schema}.attempts (
  seq bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  job bigint NOT NULL,
  attempt integer NOT NULL,
  started_at float8 NOT NULL,
  ended_at float8 NOT NULL,
  worker text NOT NULL,
  error text NOT NULL
);
CREATE INDEX attempts_job ON {schema}.attempts (job, seq);

CREATE TABLE {schema}.log (
  seq bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  job bigint NOT NULL,
  at float8 NOT NULL,
  attempt integer NOT NULL,
  text text NOT NULL
);
CREATE INDEX log_job ON {schema}.log (job, seq);

-- Jobs of one queue, type, priority and group that wait, where turns or limits by group or weight make it necessary to know.
-- grp: '' without a group, ':' and its name with one. served: how many were started since it is their turn. blocked_until:
-- the limit blocked_by is full for the group until then, or has too little left for the job heavy, which waits since heavy_since.
CREATE TABLE {schema}.lanes (
  id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  queue text COLLATE "C" NOT NULL,
  type text COLLATE "C" NOT NULL,
  priority float8 NOT NULL,
  grp text COLLATE "C" NOT NULL,
  -- May anybody wait in it? A claim that finds nobody says no.
  ready boolean NOT NULL DEFAULT true,
  turn bigint NOT NULL DEFAULT 0,
  served integer NOT NULL DEFAULT 0,
  blocked_until float8,
  blocked_by text COLLATE "C",
  heavy bigint,
  heavy_since float8,
  used_at float8 NOT NULL,
  UNIQUE (queue, priority, grp, type)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
-- Whose turn is it?
CREATE INDEX lanes_ready ON {schema}.lanes (queue, type, priority DESC, turn, id) WHERE ready AND blocked_until IS NULL;
-- Whose limits have room again?
CREATE INDEX lanes_blocked ON {schema}.lanes (queue, type, blocked_until) WHERE ready AND blocked_until IS NOT NULL;
-- Which lanes wait for this limit, of this group?
CREATE INDEX lanes_group ON {schema}.lanes (blocked_by, grp) WHERE blocked_until IS NOT NULL;
-- Which lanes has nobody used for long?
CREATE INDEX lanes_empty ON {schema}.lanes (used_at) WHERE NOT ready;

-- Jobs have come to wait in this group: whoever brings them says so with them, in the same transaction, once for all that he brings,
-- and waits for nobody. A claim that walks over lanes reads it, and opens the lane (jobs/let_in.sql). So, where a job of a group
-- waits, there is a lane that is ready, or this. due_at, job: the first of them.
CREATE TABLE {schema}.arrivals (
  seq bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  queue text COLLATE "C" NOT NULL,
  type text COLLATE "C" NOT NULL,
  priority float8 NOT NULL,
  grp text COLLATE "C" NOT NULL,
  due_at float8 NOT NULL,
  job bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_insert_scale_factor = 0.1,
  autovacuum_vacuum_cost_delay = 1);
-- Who has arrived?
CREATE INDEX arrivals_type ON {schema}.arrivals (queue, type, priority DESC, seq);

-- type: '' for the whole queue, ':' and the type for one.
CREATE TABLE {schema}.pauses (
  queue text COLLATE "C" NOT NULL,
  type text COLLATE "C" NOT NULL,
  PRIMARY KEY (queue, type)
);

-- One job for one idempotency key. They outlive their jobs.
CREATE TABLE {schema}.keys (
  queue text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  fingerprint text NOT NULL,
  job text COLLATE "C" NOT NULL,
  expires_at float8 NOT NULL,
  PRIMARY KEY (queue, key)
);
CREATE INDEX keys_expired ON {schema}.keys (expires_at);

-- A rule, taken out of its JSON once (limits/rule.ts). groups: NULL where none is different. probes: NULL without a breaker.
CREATE TYPE {schema}.limit_rule AS (
  name text,
  by_group boolean,
  types text[],
  queues text[],
  max float8,
  window_ms float8,
  concurrency float8,
  every_ms float8,
  groups jsonb,
  weight text,
  estimate float8,
  failures integer,
  open_ms float8,
  probes integer,
  kinds text[],
  paused boolean,
  held_until float8,
  blind_until float8
);

-- The rules as they are kept (storage/stored-rules.ts), and what is in force of them, as JSON and taken out of it.
CREATE TABLE {schema}.rules (
  name text COLLATE "C" PRIMARY KEY,
  stored jsonb NOT NULL,
  rule jsonb NOT NULL,
  fields {schema}.limit_rule NOT NULL
);

-- The limits that the latest claim of a queue brought along.
CREATE TABLE {schema}.claims (
  queue text COLLATE "C" PRIMARY KEY,
  limits jsonb NOT NULL,
  at float8 NOT NULL
);
CREATE INDEX claims_old ON {schema}.claims (at);

-- What is kept under the name of a limit, for one group or for all. A cleared one gets another id: tokens and starts of
-- before name nothing then. What changes with every start is in no index, so that a change costs no index anything.
CREATE TABLE {schema}.limits (
  id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  name text COLLATE "C" NOT NULL,
  grp text COLLATE "C" NOT NULL DEFAULT '',
  -- The numbers beside the window (limits/gauge.ts).
  latest_at float8,
  pause_until float8,
  told_left float8,
  told_until float8,
  failures integer NOT NULL DEFAULT 0,
  open_until float8,
  -- At seen_at so much was in use in a window of this length.
  window_ms float8,
  used float8 NOT NULL DEFAULT 0,
  seen_at float8 NOT NULL DEFAULT 0,
  -- What jobs hold of it, all together.
  held float8 NOT NULL DEFAULT 0,
  -- The longest window seen: so long starts are kept. The newest start; the newest that was not kept.
  longest float8 NOT NULL,
  newest float8,
  forgotten_at float8,
  -- The latest row of starts that later ones may share, and when the first of them was.
  entry bigint,
  entry_since float8,
  -- When to look next for starts that need not be kept.
  prune_at float8 NOT NULL,
  UNIQUE (name, grp)
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
CREATE INDEX limits_prune ON {schema}.limits (prune_at);

-- What is held of limits, by the token of a job's start or of a permit. Jobs hold until their lease ends.
-- Of a claim whose jobs all hold the same, one row is for all of them: it has the number that the claim drew, below zero; n
-- of them are not done yet.
CREATE TABLE {schema}.holds (
  limit_id bigint NOT NULL,
  token bigint NOT NULL,
  slots float8 NOT NULL,
  at float8 NOT NULL,
  until float8,
  n integer NOT NULL DEFAULT 1,
  PRIMARY KEY (limit_id, token)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
-- What does this start hold?
CREATE INDEX holds_token ON {schema}.holds (token);
-- Which permits hold something of this limit?
CREATE INDEX holds_permits ON {schema}.holds (limit_id, until) WHERE until IS NOT NULL;
-- Which permits have run out?
CREATE INDEX holds_expired ON {schema}.holds (until) WHERE until IS NOT NULL;

-- Starts from \`since\` to \`at\` that count for n together, or one that a token names. \`spent\`: what was charged before, and
-- has left every window.
CREATE TABLE {schema}.starts (
  seq bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  limit_id bigint NOT NULL,
  at float8 NOT NULL,
  since float8 NOT NULL,
  n float8 NOT NULL CHECK (n >= 0),
  token bigint,
  spent float8 NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
CREATE INDEX starts_window ON {schema}.starts (limit_id, at, seq) INCLUDE (n);
CREATE UNIQUE INDEX starts_token ON {schema}.starts (token) WHERE token IS NOT NULL;

-- What happened, for processes that listen; and which those are.
CREATE TABLE {schema}.events (
  seq bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  at float8 NOT NULL,
  event text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);
CREATE TABLE {schema}.listeners (
  origin text COLLATE "C" PRIMARY KEY,
  until float8 NOT NULL,
  events boolean NOT NULL
) WITH (fillfactor = 50);

-- A lease that has ended, as the limits want to know about it. how: 'well', 'failed' (with these kinds of error), 'gone'.
CREATE TYPE {schema}.ended_lease AS (
  token bigint,
  queue text,
  type text,
  grp text,
  started_at float8,
  limits jsonb,
  how text,
  kinds text[],
  hold jsonb,
  unstarted boolean
);

-- How much may happen, in one group. share: how many it starts each time it has its turn.
CREATE TYPE {schema}.limit_quota AS (
  max float8,
  window_ms float8,
  concurrency float8,
  every_ms float8,
  share integer
);

-- What one start takes of a limit.
CREATE TYPE {schema}.limit_charge AS (weight float8, slots float8);

-- When a start may happen, and what is in its way the longest. wait: 'Infinity' until something is given back, -1 never.
CREATE TYPE {schema}.limit_verdict AS (wait float8, reason text);

-- One rule for one group, or for all. used: what was in use of its window before the step. account: where in a list of
-- accounts that is which it counts in.
CREATE TYPE {schema}.limit_meter AS (
  name text,
  by_group boolean,
  grp text,
  max float8,
  window_ms float8,
  concurrency float8,
  every_ms float8,
  share integer,
  weight text,
  estimate float8,
  weighs_window boolean,
  probes integer,
  paused boolean,
  held_until float8,
  blind_until float8,
  holds boolean,
  pins boolean,
  used float8,
  account integer
);

-- What is kept of one limit, for one group or for all, as one step sees it, with all that the step has taken so far. Rules
-- of one name share it. id: NULL where nothing is kept yet. held: NULL until somebody has looked.
CREATE TYPE {schema}.limit_account AS (
  id bigint,
  name text,
  grp text,
  latest_at float8,
  pause_until float8,
  told_left float8,
  told_until float8,
  open_until float8,
  window_ms float8,
  used float8,
  seen_at float8,
  longest float8,
  newest float8,
  forgotten_at float8,
  job_slots float8,
  held float8,
  probes float8,
  expires_in float8,
  -- The window that starts are counted in; starts less than this apart share an entry; what was in use of it, and when.
  watch_ms float8,
  resolution float8,
  before float8,
  before_at float8,
  -- Which start it was last charged for, and how much; how much for all of them, and in how many starts.
  latest bigint,
  charged float8,
  taken float8,
  starts integer,
  -- Where the starts of the step were written down; 0: nowhere.
  entry bigint
);

-- What a claim whose jobs are all alike to its limits is going to write under one of them. id: NULL where nothing is kept yet.
-- counted: the window that is kept a total of, before: what was in use of it at before_at. logged: starts are written down;
-- entry: in a row that is there already. singly: what is held of it is written down for each job.
CREATE TYPE {schema}.limit_use AS (
  id bigint,
  name text,
  holds boolean,
  singly boolean,
  counted float8,
  before float8,
  before_at float8,
  logged boolean,
  entry bigint
);

-- What limits leave to such a claim. plain: nothing but numbers is in its way. taken: what is kept of a start with its job.
CREATE TYPE {schema}.limit_room AS (
  at float8,
  free float8,
  wait float8,
  blocked_by text,
  unprepared boolean,
  plain boolean,
  taken jsonb,
  rules {schema}.limit_rule[],
  uses {schema}.limit_use[]
);

-- What a step gave back of one limit: how long one more had to wait for what was held before, and how much that was;
-- whether lanes were waiting for it. Without an id: there is news for everybody, whatever comes.
CREATE TYPE {schema}.limit_given AS (
  id bigint,
  name text,
  grp text,
  wait float8,
  slots float8,
  awaited boolean
);

-- Where in the log a start was written down, and when.
CREATE TYPE {schema}.start_place AS (seq bigint, at float8);

-- What was deleted, and whether there is more.
CREATE TYPE {schema}.pruned AS (deleted integer, more boolean);

-- A job that waited and does not any more, though it has not started: what decides which lane that was.
CREATE TYPE {schema}.gone_job AS (queue text, type text, priority float8, grp text);

-- What a claim came to that has walked over lanes (jobs/walk.sql). Nothing of it is written yet.
CREATE TYPE {schema}.walked AS (
  at float8,
  -- There is more to start at once; else what will be first to let a job start, and when.
  more boolean,
  blocked_by text,
  next_in float8,
  -- The jobs that start, in order; and what they take: which start, of which meter, how much.
  places tid[],
  seqs bigint[],
  use_starts integer[],
  use_meters integer[],
  use_weights float8[],
  use_slots float8[],
  meters {schema}.limit_meter[],
  accounts {schema}.limit_account[],
  -- Lanes that had their turn with a start (0: it is still theirs), how many were served since, and whether they gave any.
  lanes bigint[],
  turns integer[],
  served integer[],
  gave boolean[],
  -- Lanes in which nobody was found.
  emptied bigint[],
  -- Lanes that are blocked, for how long, by which limit, and the job that is too heavy for it.
  blocked bigint[],
  blocked_waits float8[],
  blocked_names text[],
  blocked_heavy bigint[],
  -- Jobs that can never start, under which meter, and what they weigh.
  refused tid[],
  refused_seqs bigint[],
  refused_meters integer[],
  refused_weights float8[],
  -- Limits that a heavy one waited for which starts now, and for which group: others may have waited behind it.
  freed_names text[],
  freed_grps text[]
);
`,
  },
  {
    path: "events/asked_to_stop.sql",
    text: `-- Which of these jobs are active and asked to stop: [[queue, id]]. A hint that they are is not enough to stop them.
CREATE OR REPLACE FUNCTION {schema}.asked_to_stop(ids json) RETURNS json
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(json_agg(json_build_array(j.queue, j.id)), '[]')
  FROM (SELECT DISTINCT json_array_elements_text(ids) AS id) AS hinted
  JOIN {schema}.jobs j ON j.id = hinted.id
  WHERE j.state = 'active' AND j.cancel_requested
$$;
`,
  },
  {
    path: "events/beat.sql",
    text: `-- A storage that listens says so, for half a minute from now, and hears itself say it if its ears are open.
--
-- origin: who listens. wants: does he want events? ear: the channel that he alone listens to.
-- The answer: \`event\`: the newest event there is. \`stamp\`: changes whenever a job was added or started. \`stopping\`: active
-- jobs that are asked to stop, some of them at least.
CREATE OR REPLACE FUNCTION {schema}.beat(origin text, wants boolean, ear text) RETURNS json
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8 := {schema}.present();
BEGIN
  DELETE FROM {schema}.listeners WHERE listeners.origin IN (
    SELECT l.origin FROM {schema}.listeners l WHERE l.until < now - 60000 AND l.origin <> beat.origin
    FOR UPDATE SKIP LOCKED);
  INSERT INTO {schema}.listeners AS l (origin, until, events) VALUES (beat.origin, now + 30000, wants)
    ON CONFLICT ON CONSTRAINT listeners_pkey DO UPDATE SET until = excluded.until, events = excluded.events;
  PERFORM pg_notify(ear, '');
  RETURN json_build_object(
    'event', (SELECT max(seq) FROM {schema}.events),
    'stamp', concat_ws('/', pg_sequence_last_value(pg_get_serial_sequence('{schema}.jobs', 'seq')::regclass),
      pg_sequence_last_value('{schema}.numbers'::regclass)),
    'stopping', (SELECT json_agg(json_build_array(s.queue, s.id)) FROM (
      SELECT j.queue, j.id FROM {schema}.jobs j WHERE j.state = 'active' AND j.cancel_requested LIMIT 100) AS s));
END
$$;
`,
  },
  {
    path: "events/channel.sql",
    text: `-- Where processes tell each other that there is something to look at.
CREATE OR REPLACE FUNCTION {schema}.channel() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT 'sluice:' || btrim('{schema}', '"')
$$;
`,
  },
  {
    path: "events/leave.sql",
    text: `-- A storage that listened does so no more.
CREATE OR REPLACE FUNCTION {schema}.leave(origin text) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  DELETE FROM {schema}.listeners l WHERE l.origin = leave.origin
$$;
`,
  },
  {
    path: "events/notify_queues.sql",
    text: `-- Tells whoever listens that there is something in these queues, when the transaction is committed and not before: for jobs
-- that are added inside somebody else's. news: as in the contract, for those whom a limit keeps back.
CREATE OR REPLACE FUNCTION {schema}.notify_queues(queues text[], news boolean DEFAULT true) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now float8 := {schema}.present();
  told text;
BEGIN
  IF NOT EXISTS (SELECT FROM {schema}.listeners l WHERE l.until > now) THEN
    RETURN;
  END IF;
  SELECT json_build_object('queues', json_agg(json_build_array(queue, news)), 'events', {schema}.events_wanted(now))
    INTO told FROM (SELECT DISTINCT unnest(queues) AS queue) AS q;
  -- There is a bound to what can be said at once.
  IF octet_length(told) > 7900 THEN
    told := json_build_object('everybody', true, 'events', {schema}.events_wanted(now));
  END IF;
  PERFORM pg_notify({schema}.channel(), told);
END
$$;
`,
  },
  {
    path: "events/publish.sql",
    text: `-- Writes down an event that no step writes by itself, if anybody wants to hear it.
CREATE OR REPLACE FUNCTION {schema}.publish(event text) RETURNS json
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8 := {schema}.present();
BEGIN
  IF NOT {schema}.events_wanted(now) THEN
    RETURN json_build_object('events', false);
  END IF;
  INSERT INTO {schema}.events (at, event) VALUES (now, publish.event);
  RETURN json_build_object('events', true);
END
$$;
`,
  },
  {
    path: "events/read_events.sql",
    text: `-- Events from a number on, in order, so many at most, and those that were found in gaps before it. gaps: [{first, last}].
CREATE OR REPLACE FUNCTION {schema}.read_events(newest bigint, gaps json, most int) RETURNS json
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(json_agg(json_build_object('seq', found.seq, 'event', found.event) ORDER BY found.seq), '[]') FROM (
    (SELECT e.seq, e.event FROM {schema}.events e WHERE e.seq > newest ORDER BY e.seq LIMIT most)
    UNION ALL
    (SELECT e.seq, e.event FROM json_to_recordset(gaps) AS gap (first bigint, last bigint)
      JOIN {schema}.events e ON e.seq BETWEEN gap.first AND gap.last)
  ) AS found
$$;
`,
  },
  {
    path: "events/tell.sql",
    text: `-- Tells other storages what is new, if there are any that listen. Hints, no more: who misses one finds out by himself.
--
-- A transaction that notifies waits for others that do, and holds them up until it has ended: so this is a transaction of its
-- own, after the step, which does not wait for the disk.
--
-- origin: who tells. news: what (telling.ts). The answer: does anybody listen?
CREATE OR REPLACE FUNCTION {schema}.tell(origin text, news text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM {schema}.listeners l WHERE l.origin <> tell.origin AND l.until > {schema}.present()) THEN
    RETURN false;
  END IF;
  PERFORM pg_notify({schema}.channel(), news);
  RETURN true;
END
$$;
`,
  },
  {
    path: "jobs/add.sql",
    text: `-- Adds jobs: all of them or none. Nothing but INSERTs, as a rule, so that it can be part of a transaction of somebody else's, at
-- any isolation level, and holds up nobody until that one ends.
--
-- jobs: a list as jobs/add.ts writes it, or, if they are alike, as add_alike takes them. notify: whoever waits for jobs is told by
-- NOTIFY, as soon as the transaction is committed; else the caller tells, and the transaction is ours. again: an earlier call may have
-- been done, and its answer lost: what it has added counts as added, and is told as news.
--
-- Answer: {others: [[number of the job from 0, the id that there is instead]], woken, everybody, events}, or, where nothing was
-- added, {refused: {why: "key", key, id, because} or {why: "weight", rule, weight, said, most}}.
CREATE OR REPLACE FUNCTION {schema}.add(jobs json, notify boolean DEFAULT false, again boolean DEFAULT false)
RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  now float8;
  keyed boolean;
  weighed boolean;
  alike text;
  there boolean := again;
  rows record;
  everybody boolean := false;
  wrong text;
BEGIN
  IF json_typeof(jobs) = 'object' THEN
    IF NOT again THEN
      alike := {schema}.add_alike(jobs, notify);
      IF alike IS NOT NULL THEN
        RETURN alike;
      END IF;
    END IF;
    jobs := {schema}.listed(jobs);
  END IF;
  -- Names are written as they are; inside of text every quote has a backslash before it.
  keyed := strpos(jobs::text, '"key":') > 0 OR strpos(jobs::text, '"key" :') > 0;
  weighed := EXISTS (SELECT FROM {schema}.rules r WHERE r.rule ->> 'weight' IS NOT NULL);
  now := {schema}.present();
  IF NOT keyed AND NOT weighed THEN
    IF NOT notify AND NOT again THEN
      BEGIN
        SELECT a.*, NULL::json AS others INTO rows FROM {schema}.add_rows(jobs, now, true) a;
      EXCEPTION WHEN unique_violation THEN
        there := true;
      END;
    END IF;
    -- In somebody else's transaction nothing is tried first: what can be undone costs more, the more of it there is in one.
    IF notify OR there THEN
      SELECT a.*, {schema}.not_added(jobs, a.made) AS others INTO rows FROM {schema}.add_rows(jobs, now, false) a;
    END IF;
  ELSE
    BEGIN
      SELECT * INTO rows FROM {schema}.add_with_care(jobs, now);
    EXCEPTION WHEN SQLSTATE 'SL002' THEN
      GET STACKED DIAGNOSTICS wrong = PG_EXCEPTION_DETAIL;
      RETURN json_build_object('refused', wrong::json);
    END;
    IF weighed AND cardinality(rows.gone) > 0 THEN
      everybody := true;
      IF NOT notify THEN
        PERFORM {schema}.begin_step();
        PERFORM {schema}.lock_limits({schema}.weighing());
        everybody := {schema}.left_lane(rows.gone);
      END IF;
    END IF;
  END IF;
  IF again THEN
    rows.others := {schema}.others_than(jobs, rows.others);
    rows.woken := (SELECT json_agg(DISTINCT jsonb_build_array(n.queue, true)) FROM json_to_recordset(jobs) AS n (queue text));
  END IF;
  IF NOT notify THEN
    -- The time is remembered, last: in somebody else's transaction that would keep others waiting until it ends.
    PERFORM {schema}.moment();
  END IF;
  IF notify AND cardinality(rows.made) > 0 THEN
    -- Whatever keeps them back now may be over when the transaction is.
    PERFORM {schema}.notify_queues((SELECT array_agg(DISTINCT n.queue) FROM json_to_recordset(jobs) AS n (queue text)));
  END IF;
  RETURN json_build_object('others', rows.others, 'woken', rows.woken, 'everybody', everybody, 'events', rows.told);
END
$$;
`,
  },
  {
    path: "jobs/add_alike.sql",
    text: `-- Adds jobs that differ in nothing but their ids and data, in their order, as almost all do that come at once; one alone among them.
--
-- jobs: {ids, data, and the columns that are the same for all} (jobs/add.ts). notify: as add. Answers as add; NULL: nothing was added,
-- and more care is needed: they may have to be refused, or one is there already.
CREATE OR REPLACE FUNCTION {schema}.add_alike(jobs json, notify boolean) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- So many are looked up one by one. More than that are rather tried, and undone if one was there, which costs something once.
  few CONSTANT integer := 20;
  q record;
  sign record;
  now float8;
  due float8;
  made text[];
  others json;
  -- NULL: there is nothing to tell.
  news boolean;
BEGIN
  SELECT * INTO q FROM json_to_record(jobs) AS r (ids text[], data text[], queue text, type text, due float8, due_in float8,
    priority float8, grp text, weights jsonb, max_attempts bigint, backoff text, timeout float8, deadline float8,
    deadline_in float8, keep_for float8);
  SELECT m.last, greatest(m.last, {schema}.wall() + m.skew) AS now,
    EXISTS (SELECT FROM {schema}.rules r WHERE r.rule ->> 'weight' IS NOT NULL) AS weighed,
    EXISTS (SELECT FROM {schema}.listeners l WHERE l.events AND l.until > m.last) AS heard
  INTO sign FROM {schema}.meta m;
  IF sign.weighed THEN
    RETURN NULL;
  END IF;
  now := sign.now;
  due := greatest(now, coalesce(q.due, now + q.due_in));
  news := CASE WHEN due <= now THEN {schema}.lane_news(q.queue, q.type, q.priority, q.grp, now)
    ELSE {schema}.is_first_due(q.queue, q.type, due) END;
  IF notify OR cardinality(q.ids) <= few THEN
    WITH added AS (
      INSERT INTO {schema}.jobs AS j (id, queue, type, state, priority, grp, data, weights, max_attempts, backoff, timeout,
        deadline, keep_for, created_at, due_at)
      SELECT n.id, q.queue, q.type, CASE WHEN due <= now THEN 'waiting' ELSE 'scheduled' END, q.priority, q.grp, n.data, q.weights,
        q.max_attempts, q.backoff, q.timeout, coalesce(q.deadline, now + q.deadline_in), q.keep_for, now, due
      FROM unnest(q.ids, q.data) AS n (id, data)
      ON CONFLICT (id) DO NOTHING RETURNING j.id
    )
    SELECT array_agg(a.id) INTO made FROM added a;
    IF cardinality(made) = cardinality(q.ids) IS NOT TRUE THEN
      made := coalesce(made, '{}');
      others := {schema}.not_added({schema}.listed(jobs), made);
    END IF;
  ELSE
    BEGIN
      INSERT INTO {schema}.jobs AS j (id, queue, type, state, priority, grp, data, weights, max_attempts, backoff, timeout,
        deadline, keep_for, created_at, due_at)
      SELECT n.id, q.queue, q.type, CASE WHEN due <= now THEN 'waiting' ELSE 'scheduled' END, q.priority, q.grp, n.data, q.weights,
        q.max_attempts, q.backoff, q.timeout, coalesce(q.deadline, now + q.deadline_in), q.keep_for, now, due
      FROM unnest(q.ids, q.data) AS n (id, data);
      made := q.ids;
    EXCEPTION WHEN unique_violation THEN
      RETURN NULL;
    END;
  END IF;
  IF cardinality(made) > 0 AND due <= now AND q.grp IS NOT NULL THEN
    INSERT INTO {schema}.arrivals (queue, type, priority, grp, due_at, job)
    SELECT q.queue, q.type, q.priority, q.grp, due, j.seq FROM {schema}.jobs j WHERE j.id = made[1];
  END IF;
  IF cardinality(made) = 0 THEN
    news := NULL;
  ELSIF sign.heard THEN
    INSERT INTO {schema}.events (at, event)
    SELECT now, json_build_object('event', 'added', 'queue', q.queue, 'id', m.id, 'type', q.type) FROM unnest(made) AS m (id);
  END IF;
  IF notify AND cardinality(made) > 0 THEN
    -- Whatever keeps them back now may be over when the transaction is.
    PERFORM {schema}.notify_queues(ARRAY[q.queue]);
  ELSIF NOT notify AND now >= sign.last + 100 THEN
    now := {schema}.moment();
  END IF;
  RETURN json_build_object('others', others,
    'woken', CASE WHEN news IS NOT NULL THEN json_build_array(json_build_array(q.queue, news)) END,
    'events', sign.heard AND cardinality(made) > 0);
END
$$;
`,
  },
  {
    path: "jobs/add_job.sql",
    text: `-- Adds a job: for triggers and for psql. It answers with the id of the job, and takes the same options as \`queue.add\`, with the same
-- defaults. The job is part of the transaction it is added in: it can start when that one is committed, and does not exist if
-- it is rolled back.
--
--   SELECT {schema}.add_job('mail', 'send_email', '{"to": "a@example.com"}');
--   SELECT {schema}.add_job('mail', 'send_email', '{"to": "a@example.com"}', '{"delay": "5m", "priority": 3}');
--
-- data: any JSON, up to 1 MiB. options, all of which may be left out:
--   priority         an integer, default 0; higher runs first
--   delay, runAt     not before so long from now (milliseconds, or "250ms", "5s", "1m", "2h", "1d"), or before this instant (text
--                    with a time zone, such as to_jsonb(now()) gives)
--   group            groups of a priority take turns
--   weights          {"tokens": 1200}
--   maxAttempts      default 5
--   backoff          {"kind": "exponential", "initial": "1s", "max": "10m"} (the default), {"kind": "fixed", "delay": "5s"} or
--                    {"kind": "custom", "name": …}
--   timeout          how long one attempt may take
--   deadline         not to be started, nor to run, after this: so long from now, or an instant
--   keepFor          how long it is kept once it has ended; default: a day, and 30 days if dead
--   idempotencyKey, idempotencyTtl, onDuplicate
--                    one job for this key, for so long (default "1d"); where it is taken: "return" (default) answers with the job
--                    that has it, if type and data are the same, "reject" fails, "replace" takes its place unless it runs
-- An option that is wrong or unknown raises invalid_parameter_value (22023), a key that is taken unique_violation (23505).
CREATE OR REPLACE FUNCTION {schema}.add_job(queue text, type text, data jsonb, options jsonb DEFAULT '{}') RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  known CONSTANT text[] := ARRAY['priority', 'delay', 'runAt', 'group', 'weights', 'maxAttempts', 'backoff', 'timeout',
    'deadline', 'keepFor', 'idempotencyKey', 'idempotencyTtl', 'onDuplicate'];
  id CONSTANT text := gen_random_uuid();
  option record;
  run_at float8;
  due_in float8;
  deadline float8;
  deadline_in float8;
  duplicate text;
  answer json;
  refused json;
BEGIN
  IF queue IS NULL OR length(queue) NOT BETWEEN 1 AND 200 THEN
    PERFORM {schema}.wrong_option('queue', to_jsonb(queue), 'a string of 1 to 200 characters');
  END IF;
  IF type IS NULL OR length(type) NOT BETWEEN 1 AND 255 THEN
    PERFORM {schema}.wrong_option('type', to_jsonb(type), 'a string of 1 to 255 characters');
  END IF;
  IF data IS NULL THEN
    PERFORM {schema}.wrong_option('data', NULL, 'a JSON value', 'JSON has a null of its own: ''null''');
  ELSIF octet_length(data::text) > 1048576 THEN
    PERFORM {schema}.wrong_option('data', data, 'at most 1048576 bytes as JSON', 'keep large things elsewhere and pass a reference');
  END IF;
  IF options IS NULL OR jsonb_typeof(options) <> 'object' THEN
    PERFORM {schema}.wrong_option('options', options, 'an object');
  END IF;
  FOR option IN SELECT o.key, o.value FROM jsonb_each(options) o WHERE o.key <> ALL (known) ORDER BY o.key LIMIT 1 LOOP
    PERFORM {schema}.wrong_option(option.key, option.value, 'left out (there is no such option)',
      'known options: ' || array_to_string(known, ', '));
  END LOOP;

  due_in := coalesce({schema}.option_duration('delay', options -> 'delay', false), 0);
  IF options ? 'runAt' THEN
    run_at := {schema}.option_instant(options -> 'runAt');
    IF run_at IS NULL THEN
      PERFORM {schema}.wrong_option('runAt', options -> 'runAt', 'an instant with a time zone, such as "2030-01-31T12:00:00Z"');
    ELSIF options ? 'delay' THEN
      PERFORM {schema}.wrong_option('runAt', options -> 'runAt', 'left out where there is a "delay"');
    END IF;
  END IF;
  IF options ? 'deadline' THEN
    deadline := {schema}.option_instant(options -> 'deadline');
    IF deadline IS NULL THEN
      deadline_in := {schema}.option_duration('deadline', options -> 'deadline', true);
    END IF;
  END IF;
  duplicate := coalesce({schema}.option_text('onDuplicate', options -> 'onDuplicate', 255), 'return');
  IF duplicate NOT IN ('return', 'replace', 'reject') THEN
    PERFORM {schema}.wrong_option('onDuplicate', options -> 'onDuplicate', '"return" or "replace" or "reject"');
  END IF;

  answer := {schema}.add(json_build_array(json_strip_nulls(json_build_object(
    'id', id, 'queue', queue, 'type', type, 'data', data::text, 'due', run_at, 'due_in', due_in,
    'priority', coalesce({schema}.option_integer('priority', options -> 'priority', -2147483647, 2147483647), 0),
    'grp', {schema}.option_text('group', options -> 'group', 255),
    'weights', {schema}.option_weights(options -> 'weights'),
    'max_attempts', coalesce({schema}.option_integer('maxAttempts', options -> 'maxAttempts', 1, 9007199254740991), 5),
    'backoff', {schema}.option_backoff(options -> 'backoff'),
    'timeout', {schema}.option_duration('timeout', options -> 'timeout', true),
    'deadline', deadline, 'deadline_in', deadline_in,
    'keep_for', {schema}.option_duration('keepFor', options -> 'keepFor', false),
    'key', {schema}.option_text('idempotencyKey', options -> 'idempotencyKey', 512),
    'ttl', coalesce({schema}.option_duration('idempotencyTtl', options -> 'idempotencyTtl', true), 86400000),
    'on_duplicate', duplicate,
    'fingerprint', CASE WHEN options ? 'idempotencyKey' THEN encode(sha256(convert_to(
      '[' || to_json(type) || ',' || to_json({schema}.canonical_json(data)) || ']', 'UTF8')), 'hex') END))), true)::json;
  refused := answer -> 'refused';
  IF refused ->> 'why' = 'key' THEN
    RAISE EXCEPTION 'add_job: the idempotency key "%" belongs to job "%": %', refused ->> 'key', refused ->> 'id',
      refused ->> 'because' USING ERRCODE = 'unique_violation';
  ELSIF refused IS NOT NULL THEN
    PERFORM {schema}.wrong_option('weights.' || (refused ->> 'weight'), (refused ->> 'said')::jsonb,
      'at most ' || (refused ->> 'most'), 'the limit "' || (refused ->> 'rule') || '" never lets more than that start');
  END IF;
  RETURN coalesce(answer -> 'others' -> 0 ->> 1, id);
END
$$;
`,
  },
  {
    path: "jobs/add_rows.sql",
    text: `-- Adds jobs, in their order.
--
-- jobs: a list as jobs/add.ts writes it. fresh: none of their ids is there, else it fails; otherwise those that are there are left
-- out. made: the ids of those that were added. woken: [[queue, news]]. told: events were written. Many kinds of jobs at once
-- are news without a further look.
CREATE OR REPLACE FUNCTION {schema}.add_rows(jobs json, now float8, fresh boolean, OUT made text[], OUT woken json,
  OUT told boolean)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  told := {schema}.events_wanted(now);
  WITH added AS MATERIALIZED (
    SELECT * FROM {schema}.insert_jobs(add_rows.jobs, now) WHERE fresh
    UNION ALL
    SELECT * FROM {schema}.insert_missing(add_rows.jobs, now) WHERE NOT fresh
  ), arrived AS (
    INSERT INTO {schema}.arrivals (queue, type, priority, grp, due_at, job)
    SELECT a.queue, a.type, a.priority, a.grp, min(a.due_at), min(a.seq) FROM added a
    WHERE a.state = 'waiting' AND a.grp IS NOT NULL GROUP BY a.queue, a.type, a.priority, a.grp ORDER BY min(a.seq)
  ), told_of AS (
    INSERT INTO {schema}.events (at, event)
    SELECT now, json_build_object('event', 'added', 'queue', a.queue, 'id', a.id, 'type', a.type)
    FROM added a WHERE told ORDER BY a.seq
  ), kinds AS (
    SELECT a.queue, a.type, a.state, a.priority, a.grp, min(a.due_at) AS due_at, row_number() OVER () AS no
    FROM added a GROUP BY a.queue, a.type, a.state, a.priority, a.grp
  ), looked AS (
    SELECT k.queue, CASE
      WHEN k.no > 20 THEN true
      WHEN k.state = 'waiting' THEN {schema}.lane_news(k.queue, k.type, k.priority, k.grp, now)
      ELSE {schema}.is_first_due(k.queue, k.type, k.due_at) END AS news
    FROM kinds k
  )
  SELECT (SELECT array_agg(a.id) FROM added a), (
    SELECT json_agg(json_build_array(w.queue, w.news)) FROM (
      SELECT l.queue, bool_or(l.news) AS news FROM looked l WHERE l.news IS NOT NULL GROUP BY l.queue) w)
  INTO made, woken;
  made := coalesce(made, '{}');
  told := told AND cardinality(made) > 0;
END
$$;
`,
  },
  {
    path: "jobs/add_with_care.sql",
    text: `-- Adds jobs where something may have to be refused: they ask for idempotency keys, or are weighed. What is refused raises
-- SQLSTATE SL002. Keys that are free are taken for all jobs together; where one is not, the jobs come one by one.
--
-- Answers as add_rows does. others: [[number of the job from 0, the id that there is instead]]. gone: jobs that waited, and have
-- given way to others.
CREATE OR REPLACE FUNCTION {schema}.add_with_care(jobs json, now float8, OUT made text[], OUT woken json, OUT told boolean,
  OUT others json, OUT gone {schema}.gone_job[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  one record;
  taken record;
  rows record;
  wakes json[] := '{}';
  instead json[] := '{}';
BEGIN
  gone := '{}';
  IF {schema}.lock_keys(jobs, now) THEN
    SELECT * INTO rows FROM {schema}.add_rows(jobs, now, false);
    made := rows.made;
    woken := rows.woken;
    told := rows.told;
    others := {schema}.not_added(jobs, made);
  ELSE
    made := '{}';
    told := false;
    PERFORM {schema}.lock_holders(jobs, now);
    FOR one IN
      SELECT e.no - 1 AS no, e.job, n.* FROM json_array_elements(jobs) WITH ORDINALITY AS e (job, no)
      CROSS JOIN LATERAL json_to_record(e.job) AS n (id text, queue text, key text, fingerprint text, ttl float8, on_duplicate text)
      ORDER BY e.no
    LOOP
      IF one.key IS NOT NULL THEN
        SELECT * INTO taken FROM {schema}.take_key(one.id, one.queue, one.key, one.fingerprint, one.ttl, one.on_duplicate, now);
        IF (taken.gone).queue IS NOT NULL THEN
          gone := gone || taken.gone;
        END IF;
        IF taken.earlier IS NOT NULL THEN
          instead := instead || json_build_array(one.no, taken.earlier);
          CONTINUE;
        END IF;
      END IF;
      SELECT * INTO rows FROM {schema}.add_rows(json_build_array(one.job), now, false);
      IF cardinality(rows.made) = 0 THEN
        instead := instead || json_build_array(one.no, one.id);
      ELSE
        made := made || one.id;
        told := told OR rows.told;
        IF rows.woken IS NOT NULL THEN
          wakes := wakes || (rows.woken -> 0);
        END IF;
      END IF;
    END LOOP;
    -- Those that were locked for a job that was there already.
    DELETE FROM {schema}.keys k USING json_to_recordset(jobs) AS n (queue text, key text)
    WHERE k.queue = n.queue AND k.key = n.key AND k.expires_at = '-Infinity';
    others := array_to_json(instead);
    woken := array_to_json(wakes);
  END IF;
  PERFORM {schema}.refuse_impossible(made);
END
$$;
`,
  },
  {
    path: "jobs/any_lanes.sql",
    text: `-- Does any job of these types wait in a group? Then turns have to be taken, whatever the limits are. It only decides which
-- way a claim goes, so no lock is needed.
--
-- queue_name, asked: of which queue and types; NULL: of any type.
CREATE OR REPLACE FUNCTION {schema}.any_lanes(queue_name text, asked text[]) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF asked IS NULL THEN
    RETURN EXISTS (SELECT FROM {schema}.lanes
        WHERE queue = queue_name AND ready AND blocked_until IS NULL AND grp <> '')
      OR EXISTS (SELECT FROM {schema}.arrivals WHERE queue = queue_name);
  END IF;
  RETURN EXISTS (SELECT FROM unnest(asked) AS a (type) WHERE EXISTS (SELECT FROM {schema}.lanes l
      WHERE l.queue = queue_name AND l.type = a.type AND l.ready AND l.blocked_until IS NULL AND l.grp <> ''))
    OR EXISTS (SELECT FROM unnest(asked) AS a (type) WHERE EXISTS (SELECT FROM {schema}.arrivals r
      WHERE r.queue = queue_name AND r.type = a.type));
END
$$;
`,
  },
  {
    path: "jobs/any_open.sql",
    text: `-- Does a job without a group wait, of one of these types? In the order of the index that is there for it: no other seems to do then.
CREATE OR REPLACE FUNCTION {schema}.any_open(queue text, types text[], now float8) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  FOR i IN 1 .. cardinality(types) LOOP
    IF (SELECT true FROM {schema}.jobs j
      WHERE j.queue = any_open.queue AND j.type = types[i] AND j.state = 'waiting' AND j.grp IS NULL
        AND (j.deadline IS NULL OR j.deadline > now)
      ORDER BY j.priority DESC, j.due_at, j.seq LIMIT 1)
    THEN
      RETURN true;
    END IF;
  END LOOP;
  RETURN false;
END
$$;
`,
  },
  {
    path: "jobs/bring_back.sql",
    text: `-- Jobs that have ended, or are scheduled, are due now. One that has ended starts from its first attempt, its history kept; a deadline
-- that has passed would end it again at once: whoever asks for a retry wants it to run. Their rows are locked already.
--
-- Answers whom it wakes: [[queue, news]].
CREATE OR REPLACE FUNCTION {schema}.bring_back(ids text[], now float8) RETURNS json
LANGUAGE sql VOLATILE AS $$
  WITH back AS (
    UPDATE {schema}.jobs j SET state = 'waiting', due_at = now, finished_at = NULL, delete_at = NULL, result = NULL,
      attempt = CASE WHEN j.state = 'scheduled' THEN j.attempt ELSE 0 END,
      holds = CASE WHEN j.state = 'scheduled' THEN j.holds ELSE 0 END,
      worker = CASE WHEN j.state = 'scheduled' THEN j.worker END,
      cancel_requested = j.state = 'scheduled' AND j.cancel_requested,
      deadline = CASE WHEN j.state = 'scheduled' OR j.deadline > now THEN j.deadline END
    -- Of none at all the planner believes that they may be found by any index.
    WHERE j.id = ANY (ids) AND cardinality(ids) > 0
    RETURNING j.seq, j.queue, j.type, j.priority, j.grp
  ), arrived AS (
    INSERT INTO {schema}.arrivals (queue, type, priority, grp, due_at, job)
    SELECT b.queue, b.type, b.priority, b.grp, now, min(b.seq) FROM back b
    WHERE b.grp IS NOT NULL GROUP BY b.queue, b.type, b.priority, b.grp ORDER BY 6
  )
  SELECT json_agg(json_build_array(w.queue, w.news)) FROM (
    SELECT l.queue, bool_or(l.news) AS news FROM (
      SELECT b.queue, {schema}.lane_news(b.queue, b.type, b.priority, b.grp, now) AS news
      FROM (SELECT DISTINCT b.queue, b.type, b.priority, b.grp FROM back b) b) l
    WHERE l.news IS NOT NULL GROUP BY l.queue) w
$$;
`,
  },
  {
    path: "jobs/cancel_jobs.sql",
    text: `-- Jobs that have not started are cancelled at once; an active one is asked to stop. Their rows are locked already. tells: somebody
-- wants to hear of it; answers whether events were written.
CREATE OR REPLACE FUNCTION {schema}.cancel_jobs(ids text[], now float8, tells boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  WITH cancelled AS (
    UPDATE {schema}.jobs j SET
      cancel_requested = j.cancel_requested OR j.state = 'active',
      state = CASE WHEN j.state = 'active' THEN 'active' ELSE 'cancelled' END,
      finished_at = CASE WHEN j.state <> 'active' THEN now END,
      delete_at = CASE WHEN j.state <> 'active' THEN now + coalesce(j.keep_for, {schema}.kept_ms('cancelled')) END
    WHERE j.id = ANY (ids)
    RETURNING j.id, j.queue, j.type, j.state
  )
  INSERT INTO {schema}.events (at, event)
  SELECT now, json_build_object('event', 'cancelled', 'queue', c.queue, 'id', c.id, 'type', c.type)
  FROM unnest(ids) WITH ORDINALITY AS i (id, no) JOIN cancelled c ON c.id = i.id
  WHERE tells AND c.state = 'cancelled' ORDER BY i.no;
  RETURN FOUND;
END
$$;
`,
  },
  {
    path: "jobs/canonical_json.sql",
    text: `-- The same text for the same value, in whatever order its keys came: as core/json.ts writes it.
CREATE OR REPLACE FUNCTION {schema}.canonical_json(value jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  n numeric;
BEGIN
  CASE jsonb_typeof(value)
    WHEN 'object' THEN
      RETURN '{' || coalesce((SELECT string_agg(to_json(e.key) || ':' || {schema}.canonical_json(e.value), ',' ORDER BY e.key COLLATE "C")
        FROM jsonb_each(value) e), '') || '}';
    WHEN 'array' THEN
      RETURN '[' || coalesce((SELECT string_agg({schema}.canonical_json(e.value), ',' ORDER BY e.no)
        FROM jsonb_array_elements(value) WITH ORDINALITY AS e (value, no)), '') || ']';
    WHEN 'string' THEN
      RETURN to_json(value #>> '{}');
    WHEN 'number' THEN
      -- JavaScript writes powers of ten only where a number is very large or small.
      n := value::numeric;
      RETURN CASE WHEN n = 0 THEN '0' WHEN abs(n) >= 1e21 OR abs(n) < 1e-6
        THEN regexp_replace(n::float8::text, 'e([+-])0+', 'e\\1') ELSE trim_scale(n::float8::text::numeric)::text END;
    ELSE
      RETURN value::text;
  END CASE;
END
$$;
`,
  },
  {
    path: "jobs/change.sql",
    text: `-- What people do to jobs.
--
-- wanted: {action, queue, ids, states} or {action, queue, states, type, grp, ended_for, most}: jobs by their ids, or the oldest
-- that are such; states: only if they are in one of these, NULL: in any that the action applies to. Answer: {changed: [id],
-- woken, everybody, stopping: [[queue, id]], events}.
--
-- Jobs that have come due count as such, whether or not anybody has claimed since. They stay as they are: who held them, in the
-- order in which they came due, while he waits for others would be waited for crosswise.
--
-- A job may be in the hands of a transaction of somebody else's, for as long as he likes: it is waited for only for a moment, for
-- others wait behind the rules lock meanwhile. Then the client comes back (55P03).
CREATE OR REPLACE FUNCTION {schema}.change(wanted json) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  q record;
  alone boolean := {schema}.many_rules();
  now float8;
  applies text[];
  chosen text[];
  rows record;
  weighing text[];
  woken json;
  stopping json;
  everybody boolean := false;
  told boolean;
BEGIN
  SELECT * INTO q FROM json_to_record(wanted) AS r (action text, queue text, ids text[], states text[], type text, grp text,
    ended_for float8, most integer);
  applies := CASE q.action WHEN 'cancel' THEN '{waiting,scheduled,awaiting,active}' WHEN 'retry' THEN '{completed,dead,cancelled}'
    WHEN 'promote' THEN '{scheduled}' ELSE '{waiting,scheduled,awaiting,completed,dead,cancelled}' END;
  IF q.states IS NOT NULL THEN
    applies := ARRAY(SELECT s FROM unnest(applies) s WHERE s = ANY (q.states));
  END IF;
  PERFORM {schema}.begin_step(alone);
  now := {schema}.present();
  chosen := q.ids;
  IF chosen IS NULL THEN
    chosen := ARRAY(SELECT p.id FROM (
        SELECT i.* FROM unnest(applies) AS s (state) CROSS JOIN LATERAL {schema}.ids_in_state(q.queue, s.state, q.type,
          q.grp, NULL, NULL, now - q.ended_for, q.action = 'cancel', false, NULL, q.most) i WHERE s.state <> 'scheduled'
        UNION ALL
        SELECT i.* FROM {schema}.ids_scheduled(q.queue, q.type, q.grp, 'waiting' = ANY (applies), 'scheduled' = ANY (applies), now,
          q.most) i WHERE q.ended_for IS NULL
      ) p ORDER BY p.seq LIMIT q.most);
  END IF;
  PERFORM set_config('lock_timeout', CASE WHEN alone THEN '20' ELSE '200' END, true);
  -- By ids an active job is asked again, and its worker hears of it again; but nothing is changed then.
  SELECT coalesce(array_agg(l.id), '{}') AS ids, coalesce(array_agg(l.seq), '{}') AS seqs,
    json_agg(json_build_array(q.queue, l.id)) FILTER (WHERE l.state = 'active') AS stopping,
    coalesce(array_agg(l.id) FILTER (WHERE NOT (l.state = 'active' AND l.cancel_requested)), '{}') AS changed,
    coalesce(array_agg((q.queue, l.type, l.priority, l.grp)::{schema}.gone_job) FILTER (WHERE l.state = 'waiting'), '{}') AS waited
  INTO rows FROM (
    SELECT j.id, j.seq, j.state, j.type, j.priority, j.grp, j.cancel_requested FROM {schema}.jobs j
    WHERE j.id = ANY (chosen) AND j.queue COLLATE "POSIX" = q.queue
      AND CASE WHEN j.state = 'scheduled' AND j.due_at <= now THEN 'waiting' ELSE j.state END = ANY (applies)
    ORDER BY j.id FOR UPDATE
  ) l;
  PERFORM set_config('lock_timeout', '2000', true);
  weighing := CASE WHEN cardinality(rows.waited) > 0 THEN {schema}.weighing() ELSE '{}' END;
  IF NOT alone AND cardinality(weighing) > 0 THEN
    PERFORM {schema}.lock_limits(weighing);
  END IF;
  now := {schema}.moment();
  told := q.action = 'cancel' AND {schema}.events_wanted(now);
  CASE q.action
    WHEN 'cancel' THEN
      stopping := rows.stopping;
      told := {schema}.cancel_jobs(rows.changed, now, told);
    WHEN 'remove' THEN
      PERFORM {schema}.delete_jobs(rows.seqs, rows.ids);
    ELSE
      woken := {schema}.bring_back(rows.ids, now);
  END CASE;
  IF cardinality(weighing) > 0 THEN
    everybody := {schema}.left_lane(rows.waited);
  END IF;
  RETURN json_build_object('changed', ARRAY(SELECT i.id FROM (
      SELECT u.id, min(u.no) AS no FROM unnest(chosen) WITH ORDINALITY AS u (id, no) GROUP BY u.id) i
      WHERE i.id = ANY (rows.changed) ORDER BY i.no),
    'woken', woken, 'everybody', everybody, 'stopping', stopping, 'events', told);
END
$$;
`,
  },
  {
    path: "jobs/claim.sql",
    text: `-- Settles, then takes jobs and room under limits together.
--
-- request: {claim, queue, worker, max, types, lease_ms, limits, settle} (jobs/claim.ts); claim: a number of its own for this request.
-- What is to be settled is a list, as lock_leases takes it, or, where all of it ended well, {ids, tokens, results}, as
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
  SELECT * INTO q FROM json_to_record(request) AS r (claim text, queue text, worker text, max integer, types text[],
    lease_ms float8, limits jsonb, settle json, ids text[], tokens bigint[], results jsonb);
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
    SELECT * INTO started FROM {schema}.claim_open(q.queue, q.worker, q.claim, least(q.max, 10000), q.types, types, decided,
      q.lease_ms, rules, sign.heard, now);
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
`,
  },
  {
    path: "jobs/claim_open.sql",
    text: `-- A claim that needs no lanes: nobody waits in a group, and all jobs that it may take run under the same limits, or under none, and
-- count for one under each of them. The locks of all names in \`rules\` are held.
--
-- queue, worker, claim, lease_ms: who claims, by which claim, for how long. max: how many at most. asked: of which types; NULL: of
-- any. types: those of them that it takes; decided: these run under \`rules\`, and others may not (way_of.sql). heard: somebody wants to
-- hear what happens. now: the time. Answers with the jobs that have started, in order (NULL: none), and what storage/job-storage.ts
-- says of a claim (next_in: NULL or Infinity where no clock can tell); told: events were written.
CREATE OR REPLACE FUNCTION {schema}.claim_open(queue text, worker text, claim text, max integer, asked text[], types text[],
  decided boolean, lease_ms float8, rules {schema}.limit_rule[], heard boolean, now float8,
  OUT jobs json, OUT more boolean, OUT next_in float8, OUT blocked_by text, OUT told boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- So soon it is worth looking for a job that somebody else has his hands on.
  soon_ms CONSTANT float8 := 100;
  limited boolean := cardinality(rules) > 0;
  room {schema}.limit_room;
  wait float8 := 0;
  picked tid[];
  first bigint;
  waits boolean := false;
  busy boolean := false;
BEGIN
  told := false;
  IF limited THEN
    room := {schema}.claim_room(rules, now);
    now := room.at;
    max := least(max, room.free);
  END IF;
  IF cardinality(types) > 0 THEN
    IF max > 0 THEN
      picked := {schema}.pick_open(queue, types, max, now);
      busy := cardinality(picked) < max;
      IF cardinality(picked) > 0 THEN
        first := nextval('{schema}.numbers');
        IF limited THEN
          room := {schema}.take_uniform(room, cardinality(picked), first);
        ELSE
          -- One of them may have been given back a moment ago: it starts after that.
          now := greatest(now, {schema}.present());
        END IF;
        jobs := {schema}.start_jobs(picked, first, worker, claim, lease_ms, room.taken, heard, now);
        told := heard;
      END IF;
    END IF;
    waits := {schema}.any_open(queue, types, now);
  END IF;
  IF limited THEN
    wait := coalesce(room.wait, 0);
    blocked_by := CASE WHEN waits THEN room.blocked_by END;
  END IF;
  more := waits AND NOT busy AND wait = 0;
  next_in := CASE WHEN NOT waits THEN {schema}.next_due(queue, asked, NULL) - now WHEN busy THEN soon_ms ELSE 0 END;
  IF next_in IS NOT NULL THEN
    -- While the limits are full it makes no sense to ask again, even if a job comes due before.
    next_in := greatest(next_in, wait);
  END IF;
  IF decided AND wait > 0 THEN
    -- Unless it is of a type that runs under others.
    next_in := least(next_in, {schema}.next_due(queue, NULL, types) - now);
  END IF;
END
$$;
`,
  },
  {
    path: "jobs/claim_under.sql",
    text: `-- A claim under limits or among groups: groups that jobs have come into get their lanes, the lanes are walked over
-- (jobs/walk.sql), and what that came to is written down. The locks of the queue and of all names in \`rules\` are held; what is
-- to be settled is settled, and what has come due waits.
--
-- queue_name, worker_name, claim_name, lease_ms: who claims, by which claim, for how long. want: how many at most. asked: of
-- which types; NULL: of any. rules: what they run under. now: the time. Answers with the jobs that have started, in order; what
-- storage/job-storage.ts says of a claim (next_in: NULL where no clock can tell); whether there is news for everybody; and
-- whether events were written.
CREATE OR REPLACE FUNCTION {schema}.claim_under(
  queue_name text, worker_name text, claim_name text, want integer, asked text[], lease_ms float8,
  rules {schema}.limit_rule[], now float8,
  OUT jobs json, OUT more boolean, OUT next_in float8, OUT blocked_by text, OUT everybody boolean, OUT told boolean
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- So soon it is worth looking for a job that somebody else has his hands on. It may be a transaction that stays open: only
  -- where others start, too, whoever has it is likely to be done with it.
  soon_ms CONSTANT float8 := 10;
  later_ms CONSTANT float8 := 100;
  paused text[];
  types text[];
  others text[];
  weighing text[];
  blocks boolean;
  -- So many groups that jobs have come into are heard of in any case: more of them than jobs are started, so that a backlog of
  -- them becomes smaller, and not so many that the claim takes much longer for it.
  few CONSTANT integer := 250;
  outside boolean;
  without bigint[] := '{}';
  walked {schema}.walked;
  missed bigint[];
  written record;
  ahead record;
BEGIN
  jobs := '[]';
  more := false;
  everybody := false;
  told := false;
  SELECT array_agg(p.type) INTO paused FROM {schema}.pauses p WHERE p.queue = queue_name;
  IF '' = ANY (paused) THEN
    RETURN;
  END IF;
  SELECT coalesce(bool_or(r.by_group OR r.weight IS NOT NULL), false),
      coalesce(array_agg(r.name) FILTER (WHERE r.weight IS NOT NULL), '{}')
    INTO blocks, weighing FROM unnest(rules) AS r;
  others := {schema}.waiting_types(queue_name);
  types := others;
  IF asked IS NOT NULL THEN
    SELECT coalesce(array_agg(a.type ORDER BY a.place), '{}') INTO types
      FROM (SELECT u.type, min(u.place) AS place FROM unnest(asked) WITH ORDINALITY AS u (type, place) GROUP BY u.type) a;
  END IF;
  outside := {schema}.let_in(queue_name, types, others, weighing, greatest(few, want, least(1000, 5 * want)), now);
  IF blocks THEN
    PERFORM {schema}.unblock_ripe(queue_name, types, now);
  END IF;
  IF paused IS NOT NULL THEN
    SELECT coalesce(array_agg(t.type ORDER BY t.place), '{}') INTO types
      FROM unnest(types) WITH ORDINALITY AS t (type, place) WHERE ':' || t.type <> ALL (paused);
  END IF;
  LOOP
    walked := {schema}.walk(queue_name, asked, types, rules, want, without, now);
    -- Somebody may have changed a job since it was read, or be about to: then it is not to be had, and the walk goes another way.
    missed := {schema}.lock_walked(walked);
    EXIT WHEN missed IS NULL;
    without := without || missed;
  END LOOP;
  IF rules = '{}' THEN
    -- One of them may have been given back a moment ago: it starts after that.
    walked.at := greatest(walked.at, {schema}.present());
  END IF;
  SELECT * INTO written FROM {schema}.write_walk(queue_name, worker_name, claim_name, lease_ms, types, walked);
  jobs := written.jobs;
  everybody := written.everybody;
  told := written.told;
  -- Some groups have not come in: they were too many.
  outside := outside AND EXISTS (SELECT FROM unnest(types) AS t (type) WHERE EXISTS (SELECT FROM {schema}.arrivals a
    WHERE a.queue = queue_name AND a.type = t.type));
  walked.more := walked.more OR written.others_may_look OR (outside AND cardinality(walked.places) < want);
  SELECT * INTO ahead FROM {schema}.outlook(queue_name, asked, types, paused, rules, blocks, walked);
  more := ahead.more;
  next_in := ahead.next_in;
  blocked_by := ahead.blocked_by;
  IF (written.taken OR outside OR without <> '{}') AND NOT more THEN
    next_in := least(next_in, CASE WHEN walked.places <> '{}' THEN soon_ms ELSE later_ms END);
  END IF;
END
$$;
`,
  },
  {
    path: "jobs/complete_plainly.sql",
    text: `-- The way of almost all jobs: they ended well, and nobody wants to hear of it. One statement, as a rule, and no lock before it: the
-- rows are taken in the order of their ids, as by everybody who waits for jobs. What they hold of limits is given back later.
--
-- Each is looked up by its id, whatever the planner believes of the table: there is no join that it could turn round, and no
-- state is named, for which there is another index. Only the active have a lease.
--
-- ids, leased: the jobs and their tokens, in the same order, all of them different. results: by id; NULL: none has one. Answers with
-- the tokens of those that were done; the leases of the others are lost.
CREATE OR REPLACE FUNCTION {schema}.complete_plainly(ids text[], leased bigint[], results jsonb, now float8) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  kept boolean;
  done bigint[];
  more bigint[];
  gone text[];
  seqs bigint[];
BEGIN
  SELECT j.keep_for IS DISTINCT FROM 0 INTO kept FROM {schema}.jobs j WHERE j.id = ids[1];
  IF NOT kept THEN
    done := {schema}.delete_completed(ids, leased);
    IF cardinality(done) = cardinality(ids) THEN
      RETURN done;
    END IF;
    -- There are others among them after all. They are out of order, so nobody waits for them: rather all of it is begun again.
    PERFORM FROM {schema}.jobs j
    WHERE j.id = ANY (ids) AND ids[array_position(leased, j.token)] = j.id AND j.lease_until IS NOT NULL FOR UPDATE NOWAIT;
  END IF;
  WITH completed AS (
    UPDATE {schema}.jobs j SET state = 'completed', finished_at = now, lease_until = NULL, result = results ->> j.id,
      delete_at = now + coalesce(j.keep_for, {schema}.kept_ms('completed'))
    WHERE j.id = ANY (ids) AND ids[array_position(leased, j.token)] = j.id AND j.lease_until IS NOT NULL
    RETURNING j.token, CASE WHEN j.keep_for = 0 THEN j.id END AS gone, CASE WHEN j.keep_for = 0 THEN j.seq END AS seq
  )
  SELECT coalesce(array_agg(c.token), '{}'), array_agg(c.gone) FILTER (WHERE c.gone IS NOT NULL),
    array_agg(c.seq) FILTER (WHERE c.seq IS NOT NULL) INTO more, gone, seqs FROM completed c;
  IF gone IS NOT NULL THEN
    PERFORM {schema}.delete_jobs(seqs, gone);
  END IF;
  RETURN done || more;
END
$$;
`,
  },
  {
    path: "jobs/delete_completed.sql",
    text: `-- Deletes jobs that have ended well and are not to be kept, with all that is kept of them; others among them are left alone. The
-- rows are taken in the order of their ids.
--
-- ids, leased: as complete_plainly. Answers with the tokens of those that were deleted.
CREATE OR REPLACE FUNCTION {schema}.delete_completed(ids text[], leased bigint[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  done bigint[];
  seqs bigint[];
  failed boolean;
BEGIN
  WITH gone AS (
    DELETE FROM {schema}.jobs j
    WHERE j.id = ANY (ids) AND ids[array_position(leased, j.token)] = j.id AND j.lease_until IS NOT NULL AND j.keep_for = 0
    RETURNING j.token, j.seq, j.attempt > 1 OR j.error IS NOT NULL AS failed
  )
  SELECT coalesce(array_agg(g.token), '{}'), array_agg(g.seq), bool_or(g.failed) INTO done, seqs, failed FROM gone g;
  IF failed THEN
    DELETE FROM {schema}.attempts a WHERE a.job = ANY (seqs);
  END IF;
  IF seqs IS NOT NULL THEN
    DELETE FROM {schema}.log l WHERE l.job = ANY (seqs);
  END IF;
  RETURN done;
END
$$;
`,
  },
  {
    path: "jobs/delete_jobs.sql",
    text: `-- Deletes jobs, by their numbers and ids (in the same order), with all that is kept of them. Their rows are locked already.
CREATE OR REPLACE FUNCTION {schema}.delete_jobs(seqs bigint[], ids text[]) RETURNS void
LANGUAGE sql VOLATILE AS $$
  DELETE FROM {schema}.attempts a WHERE a.job = ANY (seqs);
  DELETE FROM {schema}.log l WHERE l.job = ANY (seqs);
  DELETE FROM {schema}.jobs j WHERE j.id = ANY (ids);
$$;
`,
  },
  {
    path: "jobs/earliest.sql",
    text: `-- When the limits for all would let a job of this type start that counts for one; and what is in its way, if anything is.
--
-- rules: of the claim. names, waits: those of them that are for all, in order, and how long one more waits for each.
CREATE OR REPLACE FUNCTION {schema}.earliest(
  rules {schema}.limit_rule[], names text[], waits float8[], job_type text, OUT wait float8, OUT name text
)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  rule {schema}.limit_rule;
  place integer := 0;
BEGIN
  wait := 0;
  FOREACH rule IN ARRAY rules LOOP
    CONTINUE WHEN rule.by_group;
    place := place + 1;
    IF waits[place] > wait AND (rule.types IS NULL OR job_type = ANY (rule.types)) THEN
      wait := waits[place];
      name := names[place];
    END IF;
  END LOOP;
END
$$;
`,
  },
  {
    path: "jobs/end_late.sql",
    text: `-- Jobs that have not started and whose deadline has passed are dead: a thousand at the most. That is no attempt.
--
-- ids: only these; NULL: any.
-- ended: how many. gone: those of them that waited, as the limits want to hear of it. told: events were written.
CREATE OR REPLACE FUNCTION {schema}.end_late(now float8, ids text[] DEFAULT NULL, OUT ended integer, OUT gone {schema}.gone_job[],
  OUT told boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  why CONSTANT json := json_build_object('name', 'JobTimeoutError', 'code', 'SLUICE_TIMEOUT',
    'message', 'the deadline passed before the job could start');
  late tid[] := ARRAY(SELECT j.ctid FROM {schema}.jobs j
    WHERE j.deadline IS NOT NULL AND j.state IN ('waiting', 'scheduled') AND j.deadline <= now
      AND (ids IS NULL OR j.id = ANY (ids))
    ORDER BY j.deadline LIMIT 1000 FOR UPDATE SKIP LOCKED);
BEGIN
  ended := cardinality(late);
  gone := '{}';
  told := false;
  IF ended = 0 THEN
    RETURN;
  END IF;
  gone := ARRAY(SELECT (j.queue, j.type, j.priority, j.grp)::{schema}.gone_job
    FROM {schema}.jobs j WHERE j.ctid = ANY (late) AND j.state = 'waiting');
  told := {schema}.events_wanted(now);
  WITH dead AS (
    UPDATE {schema}.jobs j SET state = 'dead', finished_at = now, error = why::text,
      delete_at = now + coalesce(j.keep_for, {schema}.kept_ms('dead'))
    WHERE j.ctid = ANY (late) RETURNING j.seq, j.queue, j.id, j.type, j.attempt
  )
  INSERT INTO {schema}.events (at, event)
  SELECT now, json_build_object('event', 'dead', 'queue', d.queue, 'id', d.id, 'type', d.type, 'attempt', d.attempt,
    'error', why)
  FROM dead d WHERE told ORDER BY d.seq;
END
$$;
`,
  },
  {
    path: "jobs/end_leases.sql",
    text: `-- Writes down how leases ended. Everything but limits: those hear of it first.
--
-- ats, ns, tos, results: as lock_leases answers. woken: [[queue, news]]. late: one came back whose deadline has passed. told:
-- events were written.
CREATE OR REPLACE FUNCTION {schema}.end_leases(outcomes json, ats tid[], ns integer[], tos text[], results text[], now float8,
  OUT woken json, OUT late boolean, OUT told boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  well integer := cardinality(ats) - cardinality(array_remove(tos, NULL));
  count integer := 0;
BEGIN
  late := false;
  told := {schema}.events_wanted(now);
  IF told THEN
    PERFORM {schema}.tell_ended(outcomes, ats, ns, now);
  END IF;
  IF well > 0 THEN
    UPDATE {schema}.jobs j SET state = 'completed', finished_at = now, lease_until = NULL, result = e.result,
      delete_at = now + coalesce(j.keep_for, {schema}.kept_ms('completed'))
    FROM unnest(ats, tos, results) AS e (at, how, result)
    WHERE j.ctid = e.at AND e.how IS NULL AND j.keep_for IS DISTINCT FROM 0;
    GET DIAGNOSTICS count = ROW_COUNT;
    IF count < well THEN
      PERFORM {schema}.delete_jobs(array_agg(j.seq), array_agg(j.id))
      FROM unnest(ats, tos) AS e (at, how) JOIN {schema}.jobs j ON j.ctid = e.at
      WHERE e.how IS NULL AND j.keep_for = 0 AND j.state = 'active';
    END IF;
  END IF;
  IF well < cardinality(ats) THEN
    SELECT r.woken, r.late INTO woken, late FROM {schema}.release_leases(outcomes, ats, ns, now) r;
  END IF;
END
$$;
`,
  },
  {
    path: "jobs/end_refused.sql",
    text: `-- Jobs that can never fit under a limit are dead, for the limit was made smaller after they had been added. That is no attempt.
-- Answers whether there is news for everybody.
--
-- queue_name: of which queue. walked: what a claim came to. wanted: somebody wants to hear what happens.
CREATE OR REPLACE FUNCTION {schema}.end_refused(queue_name text, walked {schema}.walked, wanted boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  kept_ms CONSTANT float8 := 30 * 86400000::float8;
  gone {schema}.gone_job[];
BEGIN
  WITH refused AS (
    SELECT r.place, r.job, json_build_object('name', 'OptionsError', 'code', 'SLUICE_OPTIONS', 'message',
      format('the limit "%s" lets %s start at the most, and the job weighs %s', m.name, coalesce(m.max, m.concurrency),
        r.weight)) AS error
    FROM unnest(walked.refused, walked.refused_meters, walked.refused_weights) WITH ORDINALITY AS r (job, meter, weight, place)
      CROSS JOIN LATERAL (SELECT k.* FROM unnest(walked.meters[r.meter : r.meter]) AS k) m
  ), ended AS (
    UPDATE {schema}.jobs j SET state = 'dead', finished_at = walked.at, error = r.error::text,
      delete_at = walked.at + coalesce(j.keep_for, kept_ms)
    FROM refused r WHERE j.ctid = r.job
    RETURNING r.place, r.error, j.id, j.type, j.priority, j.grp, j.attempt
  ), said AS (
    INSERT INTO {schema}.events (at, event)
    SELECT walked.at, json_build_object('event', 'dead', 'queue', queue_name, 'id', e.id, 'type', e.type,
      'attempt', e.attempt, 'error', e.error)::text
    FROM ended e WHERE wanted ORDER BY e.place
  )
  SELECT array_agg((queue_name, e.type, e.priority, e.grp)::{schema}.gone_job) INTO gone FROM ended e;
  RETURN {schema}.left_lane(gone);
END
$$;
`,
  },
  {
    path: "jobs/ended_leases.sql",
    text: `-- Leases that end, as the limits want to know about them. ats, ns: as lock_leases answers; the jobs are active still.
CREATE OR REPLACE FUNCTION {schema}.ended_leases(outcomes json, ats tid[], ns integer[]) RETURNS {schema}.ended_lease[]
LANGUAGE sql STABLE SET enable_hashjoin = on AS $$
  SELECT array_agg((j.token, j.queue, j.type, j.grp, j.started_at, j.limits,
      CASE WHEN o.to IS NULL THEN 'well' WHEN o.to IN ('retry', 'dead') THEN 'failed' ELSE 'gone' END,
      o.kinds, o.hold, coalesce(o.unstarted, false))::{schema}.ended_lease ORDER BY o.n)
  FROM unnest(ats, ns) AS l (at, n)
  JOIN json_to_recordset(outcomes) AS o (n integer, "to" text, kinds text[], hold jsonb, unstarted boolean) ON o.n = l.n
  JOIN {schema}.jobs j ON j.ctid = l.at
$$;
`,
  },
  {
    path: "jobs/explain_job.sql",
    text: `-- Everything that decides when a job can start (jobs/explain.ts): one look, without any lock. NULL: there is no such job.
CREATE OR REPLACE FUNCTION {schema}.explain_job(job_id text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8 := {schema}.present();
  own {schema}.jobs;
  standing jsonb := '{"ahead": {"higher": 0, "group": 0, "lane": 0, "turns": 0}, "lane": null}';
  ahead float8;
  first jsonb;
  kept jsonb;
  brought jsonb;
BEGIN
  SELECT * INTO own FROM {schema}.jobs j WHERE j.id = job_id;
  IF own.id IS NULL THEN
    RETURN NULL;
  END IF;
  IF own.state IN ('waiting', 'scheduled') THEN
    standing := {schema}.standing_of(own, now);
  END IF;
  ahead := (standing -> 'ahead' ->> 'lane')::float8;
  IF ahead > 0 THEN
    first := jsonb_build_object('weights', {schema}.head_weights(own, now));
  END IF;
  SELECT coalesce(jsonb_agg(jsonb_build_object('rule', r.rule)
      || {schema}.seen_standing(r.fields, own, standing -> 'lane', first -> 'weights', ahead, now)
      ORDER BY r.name), '[]')
    INTO kept FROM {schema}.rules r
    WHERE ((r.fields).queues IS NULL OR own.queue = ANY ((r.fields).queues))
      AND ((r.fields).types IS NULL OR own.type = ANY ((r.fields).types));
  SELECT coalesce(jsonb_agg(jsonb_build_object('claim', c.value, 'behind', 0, 'seen', {schema}.seen_limit(c.value ->> 'key', '',
      (c.value ->> 'windowMs')::float8, (c.value ->> 'max')::float8, 1, ahead, now)) ORDER BY c.ordinality), '[]')
    INTO brought FROM {schema}.claims q, jsonb_array_elements(q.limits) WITH ORDINALITY c WHERE q.queue = own.queue;
  RETURN standing || jsonb_build_object('now', now, 'job', {schema}.job_json(own), 'first', first,
    'pauses', (SELECT coalesce(jsonb_agg(p.type), '[]') FROM {schema}.pauses p WHERE p.queue = own.queue),
    'limits', kept || brought);
END
$$;
`,
  },
  {
    path: "jobs/find_jobs.sql",
    text: `-- The jobs of these ids (a list), in this order; null where there is none. One that has come due is shown as waiting: the next claim
-- will write that down.
CREATE OR REPLACE FUNCTION {schema}.find_jobs(ids json) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
  SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  now float8 := {schema}.present();
BEGIN
  RETURN (SELECT coalesce(json_agg(CASE
      WHEN j.id IS NULL THEN NULL
      WHEN j.state = 'scheduled' AND j.due_at <= now THEN
        {schema}.job_json(jsonb_populate_record(j, '{"state":"waiting"}'))
      ELSE {schema}.job_json(j) END ORDER BY i.no), '[]')
    FROM json_array_elements_text(ids) WITH ORDINALITY AS i (id, no) LEFT JOIN {schema}.jobs j ON j.id = i.id);
END
$$;
`,
  },
  {
    path: "jobs/first_since.sql",
    text: `-- The place in the order of adding from which on jobs of a queue in this state were added at or after an instant, found by halving.
CREATE OR REPLACE FUNCTION {schema}.first_since(queue text, state text, instant float8) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
  low bigint;
  high bigint;
  middle bigint;
  next record;
BEGIN
  SELECT j.seq INTO low FROM {schema}.jobs j
  WHERE j.queue COLLATE "POSIX" = first_since.queue AND j.state COLLATE "POSIX" = first_since.state AND j.state COLLATE "POSIX" <> 'active'
  ORDER BY j.seq LIMIT 1;
  IF low IS NULL THEN
    RETURN 0;
  END IF;
  SELECT j.seq + 1 INTO high FROM {schema}.jobs j
  WHERE j.queue COLLATE "POSIX" = first_since.queue AND j.state COLLATE "POSIX" = first_since.state AND j.state COLLATE "POSIX" <> 'active'
  ORDER BY j.seq DESC LIMIT 1;
  WHILE low < high LOOP
    middle := (low + high) / 2;
    SELECT j.seq, j.created_at INTO next FROM {schema}.jobs j
    WHERE j.queue COLLATE "POSIX" = first_since.queue AND j.state COLLATE "POSIX" = first_since.state AND j.state COLLATE "POSIX" <> 'active'
      AND j.seq >= middle ORDER BY j.seq LIMIT 1;
    IF NOT FOUND OR next.created_at >= instant THEN
      high := middle;
    ELSE
      low := next.seq + 1;
    END IF;
  END LOOP;
  RETURN low;
END
$$;
`,
  },
  {
    path: "jobs/head_of.sql",
    text: `-- The number of the job that is first in a lane; NULL: nobody waits there.
CREATE OR REPLACE FUNCTION {schema}.head_of(l {schema}.lanes) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF l.grp = '' THEN
    RETURN (SELECT j.seq FROM {schema}.jobs j
      WHERE j.queue = l.queue AND j.type = l.type AND j.priority = l.priority AND j.state = 'waiting' AND j.grp IS NULL
      ORDER BY j.due_at, j.seq LIMIT 1);
  END IF;
  RETURN (SELECT j.seq FROM {schema}.jobs j
    WHERE j.queue = l.queue AND j.type = l.type AND j.priority = l.priority AND j.state = 'waiting' AND j.grp IS NOT NULL
      AND j.grp = substr(l.grp, 2)
    ORDER BY j.due_at, j.seq LIMIT 1);
END
$$;
`,
  },
  {
    path: "jobs/head_weights.sql",
    text: `-- What the first of the jobs weighs that wait with this one: of its queue, type, priority and group.
--
-- own: the job. at: now: what has come due waits.
CREATE OR REPLACE FUNCTION {schema}.head_weights(own {schema}.jobs, at float8) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT f.weights FROM (
    (SELECT j.weights, j.due_at, j.seq FROM {schema}.jobs j
      WHERE j.queue = own.queue AND j.type = own.type AND j.state = 'waiting' AND j.grp IS NULL
        AND j.priority = own.priority AND own.grp IS NULL ORDER BY j.due_at, j.seq LIMIT 1)
    UNION ALL
    (SELECT j.weights, j.due_at, j.seq FROM {schema}.jobs j
      WHERE j.queue = own.queue AND j.type = own.type AND j.state = 'waiting' AND j.grp IS NOT NULL
        AND j.priority = own.priority AND j.grp = own.grp ORDER BY j.due_at, j.seq LIMIT 1)
    UNION ALL
    (SELECT j.weights, j.due_at, j.seq FROM {schema}.jobs j
      WHERE j.queue = own.queue AND j.state = 'scheduled' AND j.due_at <= at AND j.type = own.type
        AND j.priority = own.priority AND j.grp IS NOT DISTINCT FROM own.grp ORDER BY j.due_at, j.seq LIMIT 1)
  ) f ORDER BY f.due_at, f.seq LIMIT 1
$$;
`,
  },
  {
    path: "jobs/heartbeat.sql",
    text: `-- Keeps leases for lease_ms from now. One that has run out is lost for good, even if nobody has noticed yet.
--
-- leases: [{n, id, token}]. Answer: {lost: [n], cancelled: [n]}: leases that were lost, and jobs that somebody wants to stop.
CREATE OR REPLACE FUNCTION {schema}.heartbeat(leases json, lease_ms float8) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
  SET enable_mergejoin = off AS $$
DECLARE
  now float8;
  ids text[];
  tokens bigint[];
  kept integer[];
  stopping integer[];
BEGIN
  PERFORM {schema}.begin_step();
  SELECT array_agg(o.id), array_agg(o.token) INTO ids, tokens FROM json_to_recordset(leases) AS o (id text, token bigint);
  -- Each is looked up by its id (complete_plainly.sql).
  PERFORM FROM {schema}.jobs j WHERE j.id = ANY (ids) AND j.token = ANY (tokens) AND j.lease_until IS NOT NULL
  ORDER BY j.id FOR UPDATE;
  now := {schema}.moment();
  WITH renewed AS (
    UPDATE {schema}.jobs j SET lease_until = now + lease_ms
    WHERE j.id = ANY (ids) AND j.token = ANY (tokens) AND j.lease_until > now
      AND (array_positions(ids, j.id) && array_positions(tokens, j.token))
    RETURNING j.id, j.token, j.cancel_requested
  )
  SELECT array_agg(o.n), array_agg(o.n ORDER BY o.n) FILTER (WHERE r.cancel_requested) INTO kept, stopping
  FROM renewed r JOIN json_to_recordset(leases) AS o (n integer, id text, token bigint) ON o.token = r.token AND o.id = r.id;
  RETURN json_build_object('cancelled', coalesce(stopping, '{}'), 'lost', ARRAY(
    SELECT o.n FROM json_to_recordset(leases) AS o (n integer) WHERE o.n <> ALL (coalesce(kept, '{}')) ORDER BY o.n));
END
$$;
`,
  },
  {
    path: "jobs/ids_in_state.sql",
    text: `-- Jobs of a queue in one state, in the order of adding, so many at the most: their numbers and ids. What is NULL does not matter.
--
-- since, until: added at or after, and before. ended_before: ended at or before. unasked: only those that nobody has asked to
-- stop. newest: the newest first. after: only those after this number in the order.
--
-- Instants of two processes may lie so far apart that the order of adding does not tell: a second is allowed for.
CREATE OR REPLACE FUNCTION {schema}.ids_in_state(queue text, state text, type text, grp text, since float8, until float8,
  ended_before float8, unasked boolean, newest boolean, after bigint, most integer) RETURNS TABLE (seq bigint, id text)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  low bigint := 0;
  high bigint := 9223372036854775807;
BEGIN
  IF state <> 'active' AND since IS NOT NULL THEN
    low := {schema}.first_since(queue, state, since - 1000);
  END IF;
  IF state <> 'active' AND until IS NOT NULL THEN
    high := {schema}.first_since(queue, state, until + 1000);
  END IF;
  IF newest THEN
    high := least(high, after);
  ELSE
    low := greatest(low, after + 1);
  END IF;
  IF state = 'active' THEN
    RETURN QUERY SELECT j.seq, j.id FROM {schema}.jobs j
      WHERE j.state = 'active' AND j.queue = ids_in_state.queue AND j.seq >= low AND j.seq < high
        AND (since IS NULL OR j.created_at >= since) AND (until IS NULL OR j.created_at < until)
        AND (ids_in_state.type IS NULL OR j.type = ids_in_state.type) AND (ids_in_state.grp IS NULL OR j.grp = ids_in_state.grp)
        AND ended_before IS NULL AND (unasked IS NOT TRUE OR NOT j.cancel_requested)
      ORDER BY CASE WHEN newest THEN -j.seq ELSE j.seq END LIMIT most;
  ELSIF newest THEN
    RETURN QUERY SELECT j.seq, j.id FROM {schema}.jobs j
      WHERE j.queue COLLATE "POSIX" = ids_in_state.queue AND j.state COLLATE "POSIX" = ids_in_state.state AND j.state COLLATE "POSIX" <> 'active'
        AND j.seq >= low AND j.seq < high
        AND (since IS NULL OR j.created_at >= since) AND (until IS NULL OR j.created_at < until)
        AND (ids_in_state.type IS NULL OR j.type = ids_in_state.type) AND (ids_in_state.grp IS NULL OR j.grp = ids_in_state.grp)
        AND (ended_before IS NULL OR j.finished_at <= ended_before)
      ORDER BY j.seq DESC LIMIT most;
  ELSE
    RETURN QUERY SELECT j.seq, j.id FROM {schema}.jobs j
      WHERE j.queue COLLATE "POSIX" = ids_in_state.queue AND j.state COLLATE "POSIX" = ids_in_state.state AND j.state COLLATE "POSIX" <> 'active'
        AND j.seq >= low AND j.seq < high
        AND (since IS NULL OR j.created_at >= since) AND (until IS NULL OR j.created_at < until)
        AND (ids_in_state.type IS NULL OR j.type = ids_in_state.type) AND (ids_in_state.grp IS NULL OR j.grp = ids_in_state.grp)
        AND (ended_before IS NULL OR j.finished_at <= ended_before)
      ORDER BY j.seq LIMIT most;
  END IF;
END
$$;
`,
  },
  {
    path: "jobs/ids_scheduled.sql",
    text: `-- Jobs of a queue that are scheduled, in the order of adding, so many at the most: their numbers and ids. due: those that have come
-- due, though nobody has noticed yet; coming: the others. type, grp: NULL does not matter.
CREATE OR REPLACE FUNCTION {schema}.ids_scheduled(queue text, type text, grp text, due boolean, coming boolean, now float8,
  most integer) RETURNS TABLE (seq bigint, id text)
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF coming THEN
    RETURN QUERY SELECT j.seq, j.id FROM {schema}.jobs j
      WHERE j.queue COLLATE "POSIX" = ids_scheduled.queue AND j.state COLLATE "POSIX" = 'scheduled' AND j.state COLLATE "POSIX" <> 'active'
        AND (due OR j.due_at > now)
        AND (ids_scheduled.type IS NULL OR j.type = ids_scheduled.type) AND (ids_scheduled.grp IS NULL OR j.grp = ids_scheduled.grp)
      ORDER BY j.seq LIMIT most;
  ELSIF due THEN
    -- Few of many: another index finds them.
    RETURN QUERY SELECT j.seq, j.id FROM {schema}.jobs j
      WHERE j.queue = ids_scheduled.queue AND j.state = 'scheduled' AND j.due_at <= now
        AND (ids_scheduled.type IS NULL OR j.type = ids_scheduled.type) AND (ids_scheduled.grp IS NULL OR j.grp = ids_scheduled.grp)
      ORDER BY j.seq LIMIT most;
  END IF;
END
$$;
`,
  },
  {
    path: "jobs/insert_jobs.sql",
    text: `-- Puts jobs into the table, in their order; fails if one of their ids is there already. jobs: a list as jobs/add.ts writes it.
CREATE OR REPLACE FUNCTION {schema}.insert_jobs(jobs json, now float8)
RETURNS TABLE (seq bigint, id text, queue text, type text, state text, priority float8, grp text, due_at float8)
LANGUAGE sql VOLATILE AS $$
  INSERT INTO {schema}.jobs AS j (id, queue, type, state, priority, grp, data, weights, max_attempts, backoff, timeout, deadline,
    keep_for, created_at, due_at, idempotency_key)
  SELECT n.id, n.queue, n.type, CASE WHEN due.at <= now THEN 'waiting' ELSE 'scheduled' END, n.priority, n.grp, n.data,
    n.weights, n.max_attempts, n.backoff, n.timeout, coalesce(n.deadline, now + n.deadline_in), n.keep_for, now, due.at, n.key
  FROM ROWS FROM (json_to_recordset(insert_jobs.jobs) AS (id text, queue text, type text, data text, due float8, due_in float8,
    priority float8, grp text, weights jsonb, max_attempts bigint, backoff text, timeout float8, deadline float8,
    deadline_in float8, keep_for float8, key text)) WITH ORDINALITY
    AS n (id, queue, type, data, due, due_in, priority, grp, weights, max_attempts, backoff, timeout, deadline, deadline_in,
      keep_for, key, no)
  CROSS JOIN LATERAL (SELECT greatest(now, coalesce(n.due, now + n.due_in)) AS at) due
  ORDER BY n.no
  RETURNING j.seq, j.id, j.queue, j.type, j.state, j.priority, j.grp, j.due_at
$$;
`,
  },
  {
    path: "jobs/insert_missing.sql",
    text: `-- The same as insert_jobs, but jobs whose ids are there already are left out: to look for them takes a sixth more time.
CREATE OR REPLACE FUNCTION {schema}.insert_missing(jobs json, now float8)
RETURNS TABLE (seq bigint, id text, queue text, type text, state text, priority float8, grp text, due_at float8)
LANGUAGE sql VOLATILE AS $$
  INSERT INTO {schema}.jobs AS j (id, queue, type, state, priority, grp, data, weights, max_attempts, backoff, timeout, deadline,
    keep_for, created_at, due_at, idempotency_key)
  SELECT n.id, n.queue, n.type, CASE WHEN due.at <= now THEN 'waiting' ELSE 'scheduled' END, n.priority, n.grp, n.data,
    n.weights, n.max_attempts, n.backoff, n.timeout, coalesce(n.deadline, now + n.deadline_in), n.keep_for, now, due.at, n.key
  FROM ROWS FROM (json_to_recordset(insert_missing.jobs) AS (id text, queue text, type text, data text, due float8, due_in float8,
    priority float8, grp text, weights jsonb, max_attempts bigint, backoff text, timeout float8, deadline float8,
    deadline_in float8, keep_for float8, key text)) WITH ORDINALITY
    AS n (id, queue, type, data, due, due_in, priority, grp, weights, max_attempts, backoff, timeout, deadline, deadline_in,
      keep_for, key, no)
  CROSS JOIN LATERAL (SELECT greatest(now, coalesce(n.due, now + n.due_in)) AS at) due
  ORDER BY n.no
  ON CONFLICT (id) DO NOTHING
  RETURNING j.seq, j.id, j.queue, j.type, j.state, j.priority, j.grp, j.due_at
$$;
`,
  },
  {
    path: "jobs/is_first_due.sql",
    text: `-- Will a job of this type be the first of the scheduled jobs of its queue to come due; where there are limits, which may keep
-- other types back, of its type?
CREATE OR REPLACE FUNCTION {schema}.is_first_due(queue text, type text, due_at float8) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT NOT EXISTS (SELECT FROM {schema}.jobs j
      WHERE j.queue = is_first_due.queue AND j.state = 'scheduled' AND j.due_at <= is_first_due.due_at)
    OR (EXISTS (SELECT FROM {schema}.rules) AND NOT EXISTS (SELECT FROM (
      SELECT j.type, j.due_at FROM {schema}.jobs j
      WHERE j.queue = is_first_due.queue AND j.state = 'scheduled' ORDER BY j.due_at LIMIT 64) coming
      WHERE coming.type = is_first_due.type AND coming.due_at <= is_first_due.due_at))
$$;
`,
  },
  {
    path: "jobs/job_history.sql",
    text: `-- The attempts of a job that failed, and what it logged, oldest first: {attempts: [[attempt, started_at, ended_at, worker, error]],
-- log: [[at, attempt, text]]}.
CREATE OR REPLACE FUNCTION {schema}.job_history(id text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT json_build_object(
    'attempts', coalesce((SELECT json_agg(json_build_array(a.attempt, a.started_at, a.ended_at, a.worker, a.error) ORDER BY a.seq)
      FROM {schema}.jobs j JOIN {schema}.attempts a ON a.job = j.seq WHERE j.id = job_history.id), '[]'),
    'log', coalesce((SELECT json_agg(json_build_array(l.at, l.attempt, l.text) ORDER BY l.seq)
      FROM {schema}.jobs j JOIN {schema}.log l ON l.job = j.seq WHERE j.id = job_history.id), '[]'))::text
$$;
`,
  },
  {
    path: "jobs/job_json.sql",
    text: `-- A job as all steps answer with it: its columns in the order of jobs/record.ts. Without their names, for those would be most
-- of the answer; and without the last of them where they are empty, as they almost always are. A plan for retries that says nothing
-- of its own is NULL.
CREATE OR REPLACE FUNCTION {schema}.job_json(j {schema}.jobs) RETURNS json
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN j.grp IS NULL AND j.weights IS NULL AND j.timeout IS NULL AND j.deadline IS NULL AND j.holds = 0
      AND j.finished_at IS NULL AND NOT j.cancel_requested AND j.progress IS NULL AND j.error IS NULL AND j.idempotency_key IS NULL
    THEN json_build_array(j.seq, j.id, j.queue, j.type, j.state, j.priority, j.data, j.attempt, j.max_attempts,
      nullif(j.backoff, '{"kind":"exponential","initial":1000,"max":600000}'), j.keep_for, j.created_at, j.due_at, j.started_at,
      j.worker, j.lease_until, j.token)
    ELSE json_build_array(j.seq, j.id, j.queue, j.type, j.state, j.priority, j.data, j.attempt, j.max_attempts,
      nullif(j.backoff, '{"kind":"exponential","initial":1000,"max":600000}'), j.keep_for, j.created_at, j.due_at, j.started_at,
      j.worker, j.lease_until, j.token, j.grp, j.weights, j.timeout, j.deadline, j.holds, j.finished_at, j.cancel_requested,
      j.progress, j.result, j.error, j.idempotency_key) END
$$;
`,
  },
  {
    path: "jobs/kept_ms.sql",
    text: `-- How long a job that ended is kept if it does not say so itself: a day, and 30 days if dead.
CREATE OR REPLACE FUNCTION {schema}.kept_ms(state text) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE state WHEN 'dead' THEN 2592000000 ELSE 86400000 END::float8
$$;
`,
  },
  {
    path: "jobs/lane_news.sql",
    text: `-- What is there to tell about a job that comes to wait: true, news, for nobody of its queue, type, priority and group waits
-- yet; false, others do; NULL, nothing, for a limit keeps the group back.
CREATE OR REPLACE FUNCTION {schema}.lane_news(queue text, type text, priority float8, grp text, now float8) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT CASE
    WHEN l.blocked_until > lane_news.now THEN NULL
    WHEN lane_news.grp IS NULL THEN NOT EXISTS (SELECT FROM {schema}.jobs j
      WHERE j.queue = lane_news.queue AND j.type = lane_news.type AND j.priority = lane_news.priority
        AND j.state = 'waiting' AND j.grp IS NULL)
    ELSE NOT EXISTS (SELECT FROM {schema}.jobs j
      WHERE j.queue = lane_news.queue AND j.type = lane_news.type AND j.priority = lane_news.priority
        AND j.state = 'waiting' AND j.grp IS NOT NULL AND j.grp = lane_news.grp)
    END
  FROM (SELECT) one LEFT JOIN {schema}.lanes l ON l.queue = lane_news.queue AND l.type = lane_news.type
    AND l.priority = lane_news.priority AND l.grp = coalesce(':' || lane_news.grp, '')
$$;
`,
  },
  {
    path: "jobs/left_lane.sql",
    text: `-- Jobs that waited do not any more, and have not started: where another one is in front now than the one that was too heavy, it
-- is looked at, and so is whoever waited behind it. Answers whether that is news for everybody: it is where limits weigh. The
-- locks of these limits are held.
CREATE OR REPLACE FUNCTION {schema}.left_lane(gone {schema}.gone_job[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  names text[] := {schema}.weighing();
  at float8 := {schema}.present();
  other record;
BEGIN
  IF names = '{}' OR coalesce(cardinality(gone), 0) = 0 THEN
    RETURN false;
  END IF;
  FOR other IN
    WITH changed AS (
      SELECT DISTINCT l.id FROM unnest(gone) AS g
        CROSS JOIN LATERAL (SELECT k.* FROM {schema}.lanes k WHERE k.queue = g.queue AND k.priority = g.priority
          AND k.grp = coalesce(':' || g.grp, '') AND k.type = g.type LIMIT 1) l
      WHERE l.blocked_until IS NOT NULL AND l.blocked_by = ANY (names)
        AND l.heavy IS DISTINCT FROM {schema}.head_of(l::{schema}.lanes)
    )
    UPDATE {schema}.lanes l SET blocked_until = NULL FROM changed WHERE l.id = changed.id RETURNING l.blocked_by, l.grp
  LOOP
    PERFORM {schema}.unblock_like(other.blocked_by, other.grp, at);
  END LOOP;
  RETURN true;
END
$$;
`,
  },
  {
    path: "jobs/let_in.sql",
    text: `-- Groups that jobs have come into since the last claim have a lane that is ready from now on. What has arrived is read by
-- priority and in its order, so many of the types that are asked for, and as many of others: whatever their type, so that lanes
-- come to be in the order in which jobs came, whoever claims. The lane of jobs without a group is ready while there are any. Answers
-- whether there may be too many for one step.
--
-- The lock of the queue is held: no other lock is needed for lanes that are new, or in which nobody waited, for those are not
-- blocked. Those that are blocked are let be, unless by a limit that weighs: it is for look_again to tell.
--
-- queue_name: of which queue. types: those that the claim asks for, whose limits are locked. others: all types of which jobs wait.
-- names: of limits that weigh and are locked. most: how many are read. at: now.
CREATE OR REPLACE FUNCTION {schema}.let_in(
  queue_name text, types text[], others text[], names text[], most integer, at float8
) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- Lanes that are not there yet, where their unit stands, and the first that waits in each.
  new_types text[];
  priorities float8[];
  grps text[];
  turns bigint[];
  dues float8[];
  seqs bigint[];
  -- Lanes in which nobody waited; lanes that are blocked, and all that have come into any.
  idle bigint[];
  blocked bigint[];
  jobs bigint[];
  too_many boolean;
BEGIN
  WITH RECURSIVE arrived AS (
    (SELECT a.type FROM {schema}.arrivals a WHERE a.queue = queue_name ORDER BY a.type LIMIT 1)
    UNION ALL
    SELECT n.type FROM arrived o CROSS JOIN LATERAL (SELECT a.type FROM {schema}.arrivals a
      WHERE a.queue = queue_name AND a.type > o.type ORDER BY a.type LIMIT 1) n
  ), parts AS MATERIALIZED (
    SELECT a.type, ceil(most / count(*) OVER (PARTITION BY a.type = ANY (types))::float8)::integer AS most FROM arrived a
  ), met AS (
    DELETE FROM {schema}.arrivals a WHERE a.ctid = ANY (ARRAY(
      SELECT w.place FROM parts p CROSS JOIN LATERAL (
        SELECT f.ctid AS place FROM {schema}.arrivals f WHERE f.queue = queue_name AND f.type = p.type
        ORDER BY f.priority DESC, f.seq LIMIT p.most FOR UPDATE SKIP LOCKED) w))
    RETURNING a.type, a.priority, ':' || a.grp AS grp, a.due_at, a.job
  ), kinds AS (
    SELECT m.type, m.priority, m.grp, min(m.due_at) AS due_at, min(m.job) AS job FROM met m GROUP BY m.type, m.priority, m.grp
  )
  SELECT array_agg(k.type) FILTER (WHERE l.id IS NULL), array_agg(k.priority) FILTER (WHERE l.id IS NULL),
      array_agg(k.grp) FILTER (WHERE l.id IS NULL), array_agg(coalesce(l.turn, 0)) FILTER (WHERE l.id IS NULL),
      array_agg(k.due_at) FILTER (WHERE l.id IS NULL), array_agg(k.job) FILTER (WHERE l.id IS NULL),
      array_agg(l.id) FILTER (WHERE l.idle), array_agg(l.id) FILTER (WHERE l.blocked), (SELECT array_agg(m.job) FROM met m),
      (SELECT count(*) FROM met) >= (SELECT min(p.most) FROM parts p)
    INTO new_types, priorities, grps, turns, dues, seqs, idle, blocked, jobs, too_many
    FROM kinds k CROSS JOIN LATERAL (
      SELECT max(n.turn) AS turn, max(n.id) FILTER (WHERE n.type = k.type) AS id,
        bool_or(n.type = k.type AND NOT n.ready) AS idle, bool_or(n.type = k.type AND n.blocked_until IS NOT NULL) AS blocked
      FROM {schema}.lanes n WHERE n.queue = queue_name AND n.priority = k.priority AND n.grp = k.grp) l;
  PERFORM {schema}.open_lanes(queue_name, others, new_types, priorities, grps, turns, dues, seqs, at);
  IF idle IS NOT NULL THEN
    UPDATE {schema}.lanes SET ready = true, used_at = at WHERE id = ANY (idle);
  END IF;
  IF blocked IS NOT NULL THEN
    names := names || {schema}.lock_blocking(queue_name, blocked, names);
  END IF;
  IF names <> '{}' THEN
    PERFORM {schema}.look_again(queue_name, types, blocked, jobs, names, at);
  END IF;
  RETURN coalesce(too_many, false);
END
$$;
`,
  },
  {
    path: "jobs/list_jobs.sql",
    text: `-- A page of the jobs of a queue, the newest first. Those that have come due are shown as such, whether or not anybody has
-- claimed since.
--
-- query: {queue, states, type, grp, since, until, most, after}; after: the number of the last job of the page before. Answer: a
-- list as job_json gives them. Each state is a range of its own in the index; the ranges are merged.
CREATE OR REPLACE FUNCTION {schema}.list_jobs(query json) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  q record;
BEGIN
  SELECT * INTO q FROM json_to_record(query) AS r (queue text, states text[], type text, grp text, since float8, until float8,
    most integer, after bigint);
  PERFORM {schema}.show_due(q.queue);
  RETURN (SELECT coalesce(json_agg({schema}.job_json(j) ORDER BY j.seq DESC), '[]') FROM (
    SELECT p.id FROM unnest(q.states) AS s (state) CROSS JOIN LATERAL {schema}.ids_in_state(q.queue, s.state, q.type, q.grp,
      q.since, q.until, NULL, NULL, true, q.after, q.most) p
    ORDER BY p.seq DESC LIMIT q.most) page JOIN {schema}.jobs j ON j.id = page.id);
END
$$;
`,
  },
  {
    path: "jobs/listed.sql",
    text: `-- Jobs that are alike (add_alike.sql), as a list of jobs (insert_jobs.sql).
CREATE OR REPLACE FUNCTION {schema}.listed(jobs json) RETURNS json
LANGUAGE sql STABLE AS $$
  SELECT json_agg((jobs::jsonb - 'ids' - 'data') || jsonb_build_object('id', n.id, 'data', n.data) ORDER BY n.no)
  FROM json_to_record(jobs) AS r (ids text[], data text[])
  CROSS JOIN LATERAL unnest(r.ids, r.data) WITH ORDINALITY AS n (id, data, no)
$$;
`,
  },
  {
    path: "jobs/lock_blocking.sql",
    text: `-- Jobs have come into lanes that wait for limits, and whoever found them there does not hold all of these: where a limit weighs, the
-- lane may have another job in front now. Takes those that are free, and answers with them. Where somebody is at one just now, the
-- jobs are as if they had only just arrived: nobody is waited for.
--
-- queue_name, blocked: the lanes. held: the names of limits that are held already.
CREATE OR REPLACE FUNCTION {schema}.lock_blocking(queue_name text, blocked bigint[], held text[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  name text;
  taken text[] := '{}';
BEGIN
  FOR name IN
    SELECT DISTINCT l.blocked_by FROM {schema}.lanes l
    WHERE l.id = ANY (blocked) AND l.blocked_by = ANY ({schema}.weighing()) AND l.blocked_by <> ALL (held)
  LOOP
    IF pg_try_advisory_xact_lock({schema}.lock_key('limit', name)) THEN
      taken := taken || name;
    ELSE
      INSERT INTO {schema}.arrivals (queue, type, priority, grp, due_at, job)
      SELECT l.queue, l.type, l.priority, j.grp, j.due_at, j.seq FROM {schema}.lanes l
        JOIN {schema}.jobs j ON j.queue = l.queue AND j.type = l.type AND j.priority = l.priority AND j.state = 'waiting'
          AND j.grp IS NOT NULL AND j.grp = substr(l.grp, 2) AND j.seq = {schema}.head_of(l)
      WHERE l.id = ANY (blocked) AND l.blocked_by = name;
    END IF;
  END LOOP;
  RETURN taken;
END
$$;
`,
  },
  {
    path: "jobs/lock_holders.sql",
    text: `-- The jobs that are to give way to these are ours until the end of the transaction: all at once and in the order of their ids, as
-- everybody does who waits for jobs. Those that run do not give way, and are left alone: a worker is not to wait for a transaction
-- of somebody else's. jobs: a list as jobs/add.ts writes it, whose keys are locked.
CREATE OR REPLACE FUNCTION {schema}.lock_holders(jobs json, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  holders text[] := ARRAY(SELECT k.job
    FROM json_to_recordset(lock_holders.jobs) AS n (queue text, key text, on_duplicate text)
    JOIN {schema}.keys k ON k.queue = n.queue AND k.key = n.key
    WHERE n.on_duplicate = 'replace' AND k.expires_at > now);
BEGIN
  IF cardinality(holders) > 0 THEN
    PERFORM FROM {schema}.jobs j
    WHERE j.id = ANY (holders) AND j.state COLLATE "POSIX" = ANY ('{waiting,scheduled,awaiting}')
    ORDER BY j.id FOR UPDATE;
  END IF;
END
$$;
`,
  },
  {
    path: "jobs/lock_keys.sql",
    text: `-- The idempotency keys that these jobs ask for are ours until the end of the transaction. In one go and sorted: whoever adds
-- others with some of the same keys waits, and not crosswise. Answers true where nobody had any of them, each is asked for once, and
-- none of the jobs is there already or comes twice; then the keys belong to them. Else those that were free have run out, and can be taken.
CREATE OR REPLACE FUNCTION {schema}.lock_keys(jobs json, now float8) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  asked bigint;
  taken text[];
  twice boolean;
BEGIN
  WITH asking AS (
    SELECT n.* FROM json_to_recordset(lock_keys.jobs) AS n (id text, queue text, key text, fingerprint text, ttl float8)
    WHERE n.key IS NOT NULL
  ), locked AS (
    INSERT INTO {schema}.keys AS k (queue, key, fingerprint, job, expires_at)
    SELECT DISTINCT ON (a.queue COLLATE "C", a.key COLLATE "C") a.queue, a.key, a.fingerprint, a.id, now + a.ttl
    FROM asking a ORDER BY a.queue COLLATE "C", a.key COLLATE "C"
    -- Never true: the row is locked, and stays as it is.
    ON CONFLICT (queue, key) DO UPDATE SET job = excluded.job WHERE false
    RETURNING k.job
  )
  SELECT (SELECT count(*) FROM asking), (SELECT array_agg(l.job) FROM locked l) INTO asked, taken;
  SELECT count(*) > count(DISTINCT n.id) INTO twice FROM json_to_recordset(lock_keys.jobs) AS n (id text);
  IF asked = 0 THEN
    RETURN true;
  END IF;
  IF cardinality(taken) = asked AND NOT twice AND NOT EXISTS (SELECT FROM {schema}.jobs j WHERE j.id = ANY (taken)) THEN
    RETURN true;
  END IF;
  UPDATE {schema}.keys k SET expires_at = '-Infinity'
  FROM json_to_recordset(lock_keys.jobs) AS n (id text, queue text, key text)
  WHERE k.queue = n.queue AND k.key = n.key AND k.job = n.id AND n.id = ANY (taken);
  RETURN false;
END
$$;
`,
  },
  {
    path: "jobs/lock_leases.sql",
    text: `-- Locks the jobs whose leases are to be ended, in the order of their ids, as everybody does who waits for jobs. Each is looked up
-- by its id (complete_plainly.sql).
--
-- outcomes: a list as jobs/outcomes.ts writes it, each with its number n. again: an earlier call may have done it already; what
-- it has ended is not stale then.
--
-- ats, ns, tos, results: the rows that are held, with the numbers of their outcomes, how they end (NULL: well), and what with.
-- stale: the numbers of the others. took: one of them has taken something of a limit, or holds one now. grouped: one that has
-- a group comes back.
CREATE OR REPLACE FUNCTION {schema}.lock_leases(outcomes json, again boolean, OUT ats tid[], OUT ns integer[], OUT tos text[],
  OUT results text[], OUT stale integer[], OUT took boolean, OUT grouped boolean)
LANGUAGE plpgsql VOLATILE SET enable_hashjoin = on AS $$
DECLARE
  ids text[];
  tokens bigint[];
BEGIN
  SELECT array_agg(o.id), array_agg(o.token) INTO ids, tokens
  FROM json_to_recordset(outcomes) AS o (id text, token bigint);
  WITH locked AS MATERIALIZED (
    SELECT j.ctid AS at, j.id, j.token, j.limits IS NOT NULL AS took, j.grp IS NOT NULL AS grouped FROM {schema}.jobs j
    WHERE j.id = ANY (ids) AND j.token = ANY (tokens) AND j.lease_until IS NOT NULL ORDER BY j.id FOR UPDATE
  )
  SELECT array_agg(l.at), array_agg(o.n), array_agg(o.to), array_agg(o.result), bool_or(l.took OR o.hold IS NOT NULL),
    bool_or(l.grouped AND o.to IN ('retry', 'back'))
  INTO ats, ns, tos, results, took, grouped
  FROM locked l JOIN json_to_recordset(outcomes) AS o (n integer, id text, token bigint, "to" text, result text, hold json)
    ON o.token = l.token AND o.id = l.id;
  ats := coalesce(ats, '{}');
  stale := '{}';
  IF cardinality(ats) < cardinality(ids) THEN
    stale := ARRAY(SELECT o.n FROM json_to_recordset(outcomes) AS o (n integer, id text, token bigint)
      WHERE o.n <> ALL (coalesce(ns, '{}')) AND NOT (again AND NOT EXISTS (
        SELECT FROM {schema}.jobs j WHERE j.id = o.id AND (j.token <> o.token OR j.lease_until IS NOT NULL OR j.claim IS NULL)))
      ORDER BY o.n);
  END IF;
END
$$;
`,
  },
  {
    path: "jobs/lock_walked.sql",
    text: `-- Takes hold of the jobs that a walk has come to. Answers with those that are not to be had: somebody else has his hands on
-- them, or has changed them since; NULL: all are.
CREATE OR REPLACE FUNCTION {schema}.lock_walked(walked {schema}.walked) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  places tid[] := walked.places || walked.refused;
  held tid[];
BEGIN
  IF places = '{}' THEN
    RETURN NULL;
  END IF;
  SELECT array_agg(h.place) INTO held FROM (
    SELECT j.ctid AS place FROM {schema}.jobs j WHERE j.ctid = ANY (places) AND j.state = 'waiting' FOR UPDATE SKIP LOCKED
  ) h;
  IF cardinality(held) = cardinality(places) THEN
    RETURN NULL;
  END IF;
  RETURN (SELECT array_agg(w.seq) FROM unnest(places, walked.seqs || walked.refused_seqs) AS w (place, seq)
    WHERE held IS NULL OR w.place <> ALL (held));
END
$$;
`,
  },
  {
    path: "jobs/look_again.sql",
    text: `-- Lanes that wait for limits that weigh, and have another job in front now than the one that was too heavy: it may fit where
-- that one did not, and whoever waited behind it may look as well.
--
-- queue_name, types: of which queue and types. ids: lanes that jobs have come into, NULL: none; seqs: the first of these jobs, each
-- time that some came. Lanes of jobs without a group are looked at all. names: of the limits. at: now.
CREATE OR REPLACE FUNCTION {schema}.look_again(
  queue_name text, types text[], ids bigint[], seqs bigint[], names text[], at float8
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  other record;
BEGIN
  FOR other IN
    WITH changed AS (
      SELECT l.id FROM {schema}.lanes l
      WHERE l.id = ANY (ids) AND l.blocked_until IS NOT NULL AND l.blocked_by = ANY (names)
        AND l.heavy IS DISTINCT FROM {schema}.head_of(l) AND {schema}.head_of(l) = ANY (seqs)
      UNION
      SELECT l.id FROM {schema}.lanes l
      WHERE l.blocked_by = ANY (names) AND l.blocked_until IS NOT NULL AND l.grp = ''
        AND l.queue = queue_name AND l.type = ANY (types) AND l.heavy IS NOT NULL AND l.heavy IS DISTINCT FROM {schema}.head_of(l)
    )
    UPDATE {schema}.lanes l SET blocked_until = NULL FROM changed WHERE l.id = changed.id RETURNING l.blocked_by, l.grp
  LOOP
    PERFORM {schema}.unblock_like(other.blocked_by, other.grp, at);
  END LOOP;
END
$$;
`,
  },
  {
    path: "jobs/many_rules.sql",
    text: `-- Are there so many limits that whoever locks some of them had better have the storage for himself? Every lock takes a place in
-- a table of the server that is not large.
CREATE OR REPLACE FUNCTION {schema}.many_rules() RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (SELECT FROM {schema}.rules OFFSET 64);
END
$$;
`,
  },
  {
    path: "jobs/meters_for_all.sql",
    text: `-- The rules of a claim that are for all, and what is kept of them: a meter of each, in order; those of one name share an account.
-- Starts are kept long enough for them from now on. \`at\`: not before any start that is known.
--
-- rules: which, none of them by group. at: now.
CREATE OR REPLACE FUNCTION {schema}.meters_for_all(
  rules {schema}.limit_rule[], INOUT at float8, OUT meters {schema}.limit_meter[], OUT accounts {schema}.limit_account[]
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  rule {schema}.limit_rule;
  meter {schema}.limit_meter;
  account {schema}.limit_account;
  names text[] := '{}';
  place integer;
BEGIN
  meters := '{}';
  accounts := '{}';
  FOREACH rule IN ARRAY rules LOOP
    meter := {schema}.meter_of(rule, NULL);
    place := array_position(names, rule.name);
    IF place IS NULL THEN
      account := {schema}.open_account(rule.name, '');
      at := greatest(at, account.newest, account.latest_at);
      names := names || rule.name;
      accounts := accounts || account;
      place := cardinality(names);
    END IF;
    meter.account := place;
    meters := meters || meter;
  END LOOP;
  FOR i IN 1 .. cardinality(meters) LOOP
    meter := meters[i];
    account := {schema}.watch(accounts[meter.account], meter, at, true);
    accounts[meter.account] := account;
    meter.used := {schema}.meter_used(account, meter, at);
    meters[i] := meter;
  END LOOP;
END
$$;
`,
  },
  {
    path: "jobs/next_due.sql",
    text: `-- When the next scheduled job of these types comes due, or a little before if many others come first. asked: NULL, any; types
-- that are paused do not count, nor those in \`besides\`. NULL: none comes.
CREATE OR REPLACE FUNCTION {schema}.next_due(queue text, asked text[], besides text[]) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
DECLARE
  job record;
  looked integer := 0;
BEGIN
  FOR job IN
    SELECT j.type, j.due_at FROM {schema}.jobs j
    WHERE j.queue = next_due.queue AND j.state = 'scheduled' ORDER BY j.due_at LIMIT 64
  LOOP
    looked := looked + 1;
    IF looked = 64 OR ((asked IS NULL OR job.type = ANY (asked)) AND (besides IS NULL OR job.type <> ALL (besides)) AND NOT EXISTS (
      SELECT FROM {schema}.pauses p WHERE p.queue = next_due.queue AND p.type = ':' || job.type)) THEN
      RETURN job.due_at;
    END IF;
  END LOOP;
  RETURN NULL;
END
$$;
`,
  },
  {
    path: "jobs/not_added.sql",
    text: `-- Which of the jobs were not added, for their ids were there, or came twice: [[number of the job from 0, its id]].
CREATE OR REPLACE FUNCTION {schema}.not_added(jobs json, made text[]) RETURNS json
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN cardinality(made) < json_array_length(jobs) THEN (
    SELECT json_agg(json_build_array(n.no - 1, n.id)) FROM (
      SELECT e.no, e.job ->> 'id' AS id, row_number() OVER (PARTITION BY e.job ->> 'id' ORDER BY e.no) AS time
      FROM json_array_elements(jobs) WITH ORDINALITY AS e (job, no)) n
    WHERE n.time > 1 OR n.id <> ALL (made)) END
$$;
`,
  },
  {
    path: "jobs/oldest_waiting.sql",
    text: `-- How long the first of the waiting jobs of a queue has been due, in ms; NULL: none waits.
--
-- Jobs are due when they are added, or later: once one is found that was due before the next was even added, it is the oldest.
-- As a rule that is the first.
CREATE OR REPLACE FUNCTION {schema}.oldest_waiting(queue text, now float8) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
DECLARE
  job record;
  oldest float8;
BEGIN
  FOR job IN
    SELECT j.created_at, j.due_at FROM {schema}.jobs j
    WHERE j.queue COLLATE "POSIX" = oldest_waiting.queue AND j.state COLLATE "POSIX" = 'waiting' AND j.state COLLATE "POSIX" <> 'active'
    ORDER BY j.seq
  LOOP
    EXIT WHEN job.created_at >= oldest;
    oldest := least(oldest, job.due_at);
  END LOOP;
  RETURN greatest(0, now - oldest) + CASE WHEN oldest IS NULL THEN NULL ELSE 0 END;
END
$$;
`,
  },
  {
    path: "jobs/open_lanes.sql",
    text: `-- Opens lanes for groups that have none yet, and for jobs without a group of each type and priority. New lanes are numbered in the
-- order in which their first jobs came to wait, and stand where their unit does: a group is not served twice because it has
-- jobs of another type now.
--
-- queue_name, types: of which queue and types. arrived, priorities, grps: the lanes of groups; NULL: none. turns: where their
-- units stand. dues, seqs: the first that waits in each. at: now.
CREATE OR REPLACE FUNCTION {schema}.open_lanes(
  queue_name text, types text[], arrived text[], priorities float8[], grps text[], turns bigint[], dues float8[],
  seqs bigint[], at float8
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  ids bigint[];
BEGIN
  -- From one priority to the next along the index, however many jobs lie between them.
  WITH RECURSIVE open AS (
    SELECT t.type, j.priority, j.due_at, j.seq FROM unnest(types) AS t (type) CROSS JOIN LATERAL (
      SELECT w.priority, w.due_at, w.seq FROM {schema}.jobs w
      WHERE w.queue = queue_name AND w.type = t.type AND w.state = 'waiting' AND w.grp IS NULL
      ORDER BY w.priority DESC, w.due_at, w.seq LIMIT 1) j
    UNION ALL
    SELECT o.type, j.priority, j.due_at, j.seq FROM open o CROSS JOIN LATERAL (
      SELECT w.priority, w.due_at, w.seq FROM {schema}.jobs w
      WHERE w.queue = queue_name AND w.type = o.type AND w.state = 'waiting' AND w.grp IS NULL
        AND w.priority < o.priority
      ORDER BY w.priority DESC, w.due_at, w.seq LIMIT 1) j
  ), found AS (
    SELECT o.type, o.priority, o.due_at, o.seq, l.id, l.idle, l.turn
    FROM (SELECT * FROM open LIMIT 1000) o
      CROSS JOIN LATERAL (SELECT max(k.turn) AS turn, max(k.id) FILTER (WHERE k.type = o.type) AS id,
          bool_or(k.type = o.type AND NOT k.ready) AS idle
        FROM {schema}.lanes k WHERE k.queue = queue_name AND k.priority = o.priority AND k.grp = '') l
  )
  SELECT array_agg(id) FILTER (WHERE idle), arrived || array_agg(type) FILTER (WHERE id IS NULL),
      priorities || array_agg(priority) FILTER (WHERE id IS NULL),
      grps || array_agg(''::text) FILTER (WHERE id IS NULL), turns || array_agg(coalesce(turn, 0)) FILTER (WHERE id IS NULL),
      dues || array_agg(due_at) FILTER (WHERE id IS NULL), seqs || array_agg(seq) FILTER (WHERE id IS NULL)
    INTO ids, arrived, priorities, grps, turns, dues, seqs FROM found;
  IF ids IS NOT NULL THEN
    UPDATE {schema}.lanes SET ready = true WHERE id = ANY (ids);
  END IF;
  IF arrived IS NULL THEN
    RETURN;
  END IF;
  INSERT INTO {schema}.lanes (queue, type, priority, grp, turn, used_at)
    SELECT queue_name, n.type, n.priority, n.grp, n.turn, at
    FROM unnest(arrived, priorities, grps, turns, dues, seqs) AS n (type, priority, grp, turn, due_at, seq)
    ORDER BY n.due_at, n.seq;
END
$$;
`,
  },
  {
    path: "jobs/open_types.sql",
    text: `-- The types of a queue that a claim may take: those it asks for (NULL: any that has open jobs, without a group) and that
-- are not paused. From one type to the next along the index, however many jobs lie between them.
CREATE OR REPLACE FUNCTION {schema}.open_types(queue text, asked text[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  kept text[] := asked;
BEGIN
  IF asked IS NULL THEN
    WITH RECURSIVE types AS (
      (SELECT j.type FROM {schema}.jobs j
        WHERE j.queue = open_types.queue AND j.state = 'waiting' AND j.grp IS NULL
        ORDER BY j.type LIMIT 1)
      UNION ALL
      SELECT (SELECT j.type FROM {schema}.jobs j
        WHERE j.queue = open_types.queue AND j.type > t.type
          AND j.state = 'waiting' AND j.grp IS NULL
        ORDER BY j.type LIMIT 1)
      FROM types t WHERE t.type IS NOT NULL
    )
    SELECT array_agg(t.type) INTO kept FROM types t WHERE t.type IS NOT NULL;
  ELSIF cardinality(asked) > 1 THEN
    kept := ARRAY(SELECT DISTINCT t FROM unnest(asked) t);
  END IF;
  IF EXISTS (SELECT FROM {schema}.pauses p WHERE p.queue = open_types.queue) THEN
    kept := ARRAY(SELECT t FROM unnest(kept) t
      WHERE NOT EXISTS (SELECT FROM {schema}.pauses p WHERE p.queue = open_types.queue AND p.type = ':' || t));
  END IF;
  RETURN coalesce(kept, '{}');
END
$$;
`,
  },
  {
    path: "jobs/option_backoff.sql",
    text: `-- The back-off of add_job, with its defaults, as text: {"kind": "exponential", "initial": …, "max": …} (the default: from 1 s, at most
-- 10 minutes), {"kind": "fixed", "delay": …} or {"kind": "custom", "name": …}.
CREATE OR REPLACE FUNCTION {schema}.option_backoff(value jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  kind text := CASE WHEN jsonb_typeof(value) = 'object' THEN value ->> 'kind' END;
  known text[] := CASE kind WHEN 'exponential' THEN '{kind,initial,max}' WHEN 'fixed' THEN '{kind,delay}'
    WHEN 'custom' THEN '{kind,name}' END;
  unknown text;
  initial float8;
  most float8;
BEGIN
  IF value IS NULL THEN
    RETURN '{"kind":"exponential","initial":1000,"max":600000}';
  END IF;
  IF known IS NULL THEN
    PERFORM {schema}.wrong_option('backoff', value, 'an object with "kind": "exponential", "fixed" or "custom"');
  END IF;
  SELECT min(k) INTO unknown FROM jsonb_object_keys(value) k WHERE k <> ALL (known);
  IF unknown IS NOT NULL THEN
    PERFORM {schema}.wrong_option('backoff.' || unknown, value -> unknown, 'left out (there is no such option)',
      'known options: ' || array_to_string(known, ', '));
  END IF;
  IF kind = 'exponential' THEN
    initial := coalesce({schema}.option_duration('backoff.initial', value -> 'initial', true), 1000);
    most := coalesce({schema}.option_duration('backoff.max', value -> 'max', true), 600000);
    IF most < initial THEN
      PERFORM {schema}.wrong_option('backoff.max', value -> 'max', 'at least initial (' || initial || ')');
    END IF;
    RETURN json_build_object('kind', kind, 'initial', initial, 'max', most);
  ELSIF kind = 'fixed' THEN
    IF value -> 'delay' IS NULL THEN
      PERFORM {schema}.wrong_option('backoff.delay', NULL, 'a duration >= 0 (milliseconds, or text such as "250ms", "5s")');
    END IF;
    RETURN json_build_object('kind', kind, 'delay', {schema}.option_duration('backoff.delay', value -> 'delay', false));
  END IF;
  IF value -> 'name' IS NULL THEN
    PERFORM {schema}.wrong_option('backoff.name', NULL, 'a string of 1 to 255 characters');
  END IF;
  RETURN json_build_object('kind', kind, 'name', {schema}.option_text('backoff.name', value -> 'name', 255));
END
$$;
`,
  },
  {
    path: "jobs/option_duration.sql",
    text: `-- The milliseconds of an option of add_job that is a length of time: a number of them, or text such as "250ms", "5s", "1m", "2h",
-- "1d". NULL: it was left out. positive: more than 0.
CREATE OR REPLACE FUNCTION {schema}.option_duration(option text, value jsonb, positive boolean) RETURNS float8
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  parts text[];
  ms float8;
BEGIN
  IF value IS NULL THEN
    RETURN NULL;
  END IF;
  IF jsonb_typeof(value) = 'number' THEN
    ms := value::float8;
  ELSIF jsonb_typeof(value) = 'string' AND length(value #>> '{}') <= 32 THEN
    parts := regexp_match(value #>> '{}', '^(\\d+(?:\\.\\d+)?)(ms|s|m|h|d)$');
    ms := parts[1]::float8 * CASE parts[2] WHEN 'ms' THEN 1 WHEN 's' THEN 1000 WHEN 'm' THEN 60000 WHEN 'h' THEN 3600000
      WHEN 'd' THEN 86400000 END;
  END IF;
  IF ms IS NULL OR ms < 0 OR ms > 1e15 OR (positive AND ms = 0) THEN
    PERFORM {schema}.wrong_option(option, value, CASE WHEN positive THEN 'a duration > 0' ELSE 'a duration >= 0' END
      || ' (milliseconds, or text such as "250ms", "5s")');
  END IF;
  RETURN ms;
END
$$;
`,
  },
  {
    path: "jobs/option_instant.sql",
    text: `-- The instant (milliseconds since 1970) of an option of add_job that is text with a time zone: what to_jsonb makes of a timestamptz,
-- or an ISO date as toISOString() of JavaScript writes it. NULL: it is none.
CREATE OR REPLACE FUNCTION {schema}.option_instant(value jsonb) RETURNS float8
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF jsonb_typeof(value) = 'string'
    AND value #>> '{}' ~ '^\\d{4,6}-\\d\\d-\\d\\d[T ]\\d\\d:\\d\\d(:\\d\\d(\\.\\d+)?)?(Z|[+-]\\d\\d(:?\\d\\d)?)$' THEN
    RETURN extract(epoch FROM (value #>> '{}')::timestamptz) * 1000;
  END IF;
  RETURN NULL;
EXCEPTION WHEN datetime_field_overflow OR invalid_datetime_format THEN
  RETURN NULL;
END
$$;
`,
  },
  {
    path: "jobs/option_integer.sql",
    text: `-- The number of an option of add_job that is an integer from \`lowest\` to \`highest\`. NULL: it was left out.
CREATE OR REPLACE FUNCTION {schema}.option_integer(option text, value jsonb, lowest bigint, highest bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF value IS NOT NULL AND (jsonb_typeof(value) <> 'number' OR value::numeric <> trunc(value::numeric)
    OR value::numeric < lowest OR value::numeric > highest) THEN
    PERFORM {schema}.wrong_option(option, value, 'an integer from ' || lowest || ' to ' || highest);
  END IF;
  RETURN value::numeric;
END
$$;
`,
  },
  {
    path: "jobs/option_text.sql",
    text: `-- The text of an option of add_job that is a name or a key, of 1 to \`longest\` characters. NULL: it was left out.
CREATE OR REPLACE FUNCTION {schema}.option_text(option text, value jsonb, longest integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF value IS NOT NULL AND (jsonb_typeof(value) <> 'string' OR length(value #>> '{}') NOT BETWEEN 1 AND longest) THEN
    PERFORM {schema}.wrong_option(option, value, 'a string of 1 to ' || longest || ' characters');
  END IF;
  RETURN value #>> '{}';
END
$$;
`,
  },
  {
    path: "jobs/option_weights.sql",
    text: `-- The weights of add_job: an object of names and integers >= 1, 32 at the most. NULL: they were left out.
CREATE OR REPLACE FUNCTION {schema}.option_weights(value jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  wrong boolean := jsonb_typeof(value) <> 'object';
BEGIN
  IF NOT wrong THEN
    SELECT count(*) > 32 OR coalesce(bool_or(length(w.key) NOT BETWEEN 1 AND 255 OR CASE jsonb_typeof(w.value) WHEN 'number' THEN
      w.value::numeric <> trunc(w.value::numeric) OR w.value::numeric NOT BETWEEN 1 AND 4294967295 ELSE true END), false)
    INTO wrong FROM jsonb_each(value) w;
  END IF;
  IF wrong THEN
    PERFORM {schema}.wrong_option('weights', value,
      'an object of at most 32 names and integer weights from 1 to 4294967295, such as {"tokens": 1200}');
  END IF;
  RETURN value;
END
$$;
`,
  },
  {
    path: "jobs/others_than.sql",
    text: `-- Of jobs that were not added, for there is another one instead, those for which that is not the job itself: an earlier call has
-- added those. One that comes twice was added once.
--
-- jobs: a list as jobs/add.ts writes it. others: [[number of the job from 0, the id that there is instead]].
CREATE OR REPLACE FUNCTION {schema}.others_than(jobs json, others json) RETURNS json
LANGUAGE sql STABLE AS $$
  SELECT json_agg(o.other ORDER BY n.no) FROM (
    SELECT e.no, e.job ->> 'id' AS id, row_number() OVER (PARTITION BY e.job ->> 'id' ORDER BY e.no) AS time
    FROM json_array_elements(jobs) WITH ORDINALITY AS e (job, no)) n
  JOIN json_array_elements(others) AS o (other) ON (o.other ->> 0)::bigint = n.no - 1
  WHERE n.time > 1 OR n.id <> o.other ->> 1
$$;
`,
  },
  {
    path: "jobs/outcomes_of.sql",
    text: `-- Outcomes that all ended well, as a list (jobs/outcomes.ts), but for those whose tokens are done. ids, leased, results: as
-- complete_plainly.
CREATE OR REPLACE FUNCTION {schema}.outcomes_of(ids text[], leased bigint[], results jsonb, done bigint[]) RETURNS json
LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(json_agg(json_build_object('n', o.no - 1, 'id', o.id, 'token', o.token, 'result', results ->> o.id)), '[]')
  FROM unnest(ids, leased) WITH ORDINALITY AS o (id, token, no) WHERE o.token <> ALL (done)
$$;
`,
  },
  {
    path: "jobs/outlook.sql",
    text: `-- What comes after a claim. While limits are full it makes no sense to ask again, even if a job comes due before. next_in: NULL
-- where no clock can tell.
--
-- queue_name, asked: of which queue, which types were asked for; NULL: any. types: those that wait and may start. paused: as
-- \`pauses\` says it, or NULL. rules: what they run under. blocks: may lanes be blocked? walked: what the claim came to.
CREATE OR REPLACE FUNCTION {schema}.outlook(
  queue_name text, asked text[], types text[], paused text[], rules {schema}.limit_rule[], blocks boolean,
  walked {schema}.walked, OUT more boolean, OUT next_in float8, OUT blocked_by text
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- How far ahead scheduled jobs are looked through.
  ahead CONSTANT integer := 64;
  now float8 := walked.at;
  meter {schema}.limit_meter;
  -- How long one more waits for each of the limits for all.
  names text[] := '{}';
  waits float8[] := '{}';
  lane record;
  coming record;
  general record;
  own float8;
  due float8 := 'Infinity';
  due_by text;
  looked integer := 0;
  last_due float8;
BEGIN
  more := false;
  blocked_by := walked.blocked_by;
  next_in := walked.next_in;
  FOR i IN 1 .. coalesce(cardinality(walked.meters), 0) LOOP
    meter := walked.meters[i];
    EXIT WHEN meter.by_group;
    names := names || meter.name;
    waits := waits || {schema}.limit_wait(meter, walked.accounts[meter.account], 1, 1, now);
  END LOOP;
  IF blocks THEN
    FOR lane IN
      SELECT t.type, f.grp, f.blocked_by AS name,
        CASE WHEN f.blocked_until >= 1e18 THEN 'Infinity'::float8 ELSE greatest(0, f.blocked_until - now) END AS wait
      FROM unnest(types) WITH ORDINALITY AS t (type, place) CROSS JOIN LATERAL (
        SELECT l.grp, l.blocked_until, l.blocked_by FROM {schema}.lanes l
        WHERE l.queue = queue_name AND l.type = t.type AND l.ready AND l.blocked_until IS NOT NULL
        ORDER BY l.blocked_until LIMIT 1
      ) f ORDER BY t.place
    LOOP
      SELECT * INTO general FROM {schema}.earliest(rules, names, waits, lane.type);
      own := greatest(lane.wait, general.wait);
      -- Its instant has come, and too many others came before it in this step.
      IF own = 0 THEN
        more := true;
        next_in := 0;
        RETURN;
      END IF;
      IF blocked_by IS NULL OR own < next_in THEN
        blocked_by := CASE WHEN lane.wait < general.wait THEN general.name ELSE lane.name
          || CASE WHEN lane.grp <> '' AND (SELECT (r.rule ->> 'byGroup')::boolean FROM {schema}.rules r WHERE r.name = lane.name)
            THEN '[' || substr(lane.grp, 2) || ']' ELSE '' END END;
      END IF;
      next_in := least(next_in, own);
    END LOOP;
  END IF;
  IF walked.more THEN
    more := true;
    next_in := 0;
    RETURN;
  END IF;
  -- When the next scheduled job can start; and what is in its way, if it is due: it waits, whether or not it stands in its
  -- lane yet. Those behind may come due for somebody whom no limit keeps back.
  FOR coming IN
    SELECT j.type, j.due_at FROM {schema}.jobs j WHERE j.queue = queue_name AND j.state = 'scheduled'
    ORDER BY j.due_at LIMIT ahead
  LOOP
    looked := looked + 1;
    last_due := coming.due_at;
    CONTINUE WHEN (asked IS NOT NULL AND coming.type <> ALL (asked)) OR ':' || coming.type = ANY (paused);
    SELECT * INTO general FROM {schema}.earliest(rules, names, waits, coming.type);
    IF coming.due_at <= now AND general.name IS NOT NULL AND (due_by IS NULL OR general.wait < due) THEN
      due_by := general.name;
    END IF;
    due := least(due, greatest(coming.due_at - now, general.wait));
  END LOOP;
  IF looked = ahead THEN
    due := least(due, greatest(0, last_due - now));
  END IF;
  IF due_by IS NOT NULL AND (blocked_by IS NULL OR due < next_in) THEN
    blocked_by := due_by;
  END IF;
  next_in := nullif(least(next_in, due), 'Infinity');
END
$$;
`,
  },
  {
    path: "jobs/overview.sql",
    text: `-- What there is of each queue, by name; of one, if asked. A queue exists while it has jobs or is paused. Those that have come due
-- are counted as such.
--
-- Answer: [[queue, {state: count}, [paused: '' for the queue, ':' and the type for one], how long the first has waited]].
CREATE OR REPLACE FUNCTION {schema}.overview(queue text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET jit = off SET enable_seqscan = off AS $$
DECLARE
  now float8;
  names text[] := ARRAY[queue];
BEGIN
  IF queue IS NULL THEN
    names := {schema}.queue_names();
  END IF;
  PERFORM {schema}.show_due(n.name) FROM unnest(names) AS n (name);
  now := {schema}.present();
  RETURN (SELECT coalesce(json_agg(json_build_array(n.name, c.counts, p.pauses, {schema}.oldest_waiting(n.name, now)) ORDER BY n.no),
      '[]')
    FROM unnest(names) WITH ORDINALITY AS n (name, no)
    CROSS JOIN LATERAL (SELECT json_object_agg(s.state, s.count) AS counts FROM (
      SELECT 'active' AS state, count(*) AS count FROM {schema}.jobs j
      WHERE j.state = 'active' AND j.queue = n.name HAVING count(*) > 0
      UNION ALL
      SELECT j.state COLLATE "POSIX", count(*) FROM {schema}.jobs j
      WHERE j.queue COLLATE "POSIX" = n.name AND j.state COLLATE "POSIX" <> 'active' GROUP BY j.state COLLATE "POSIX") s) c
    CROSS JOIN LATERAL (SELECT json_agg(p.type ORDER BY p.type) AS pauses FROM {schema}.pauses p WHERE p.queue = n.name) p
    WHERE c.counts IS NOT NULL OR p.pauses IS NOT NULL);
END
$$;
`,
  },
  {
    path: "jobs/pick_open.sql",
    text: `-- The next jobs without a group, of these types: higher priority first, then by due_at, then as they were added. They are locked;
-- those that others have locked are passed over.
--
-- Of one type they lie in the index in this order. Of several the index tells, without locks, how many of each there are
-- among the first; so no more are locked than are taken. Where others were faster, a second look finds the rest.
CREATE OR REPLACE FUNCTION {schema}.pick_open(queue text, types text[], want integer, now float8) RETURNS tid[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  picked tid[];
  seen bigint;
BEGIN
  IF cardinality(types) = 1 THEN
    RETURN ARRAY(SELECT j.ctid FROM {schema}.jobs j
      WHERE j.queue = pick_open.queue AND j.type = types[1] AND j.state = 'waiting' AND j.grp IS NULL
        AND (j.deadline IS NULL OR j.deadline > now)
      ORDER BY j.priority DESC, j.due_at, j.seq LIMIT want FOR UPDATE SKIP LOCKED);
  END IF;
  WITH first AS (
    SELECT h.type FROM unnest(types) AS t (type)
    CROSS JOIN LATERAL (SELECT j.type, j.priority, j.due_at, j.seq FROM {schema}.jobs j
      WHERE j.queue = pick_open.queue AND j.type = t.type AND j.state = 'waiting' AND j.grp IS NULL
        AND (j.deadline IS NULL OR j.deadline > now)
      ORDER BY j.priority DESC, j.due_at, j.seq LIMIT want) h
    ORDER BY h.priority DESC, h.due_at, h.seq LIMIT want
  ), counts AS (
    SELECT f.type, count(*) AS n FROM first f GROUP BY f.type
  )
  SELECT array_agg(p.at ORDER BY p.priority DESC, p.due_at, p.seq), (SELECT sum(c.n) FROM counts c) INTO picked, seen
  FROM counts c
  CROSS JOIN LATERAL (SELECT j.ctid AS at, j.priority, j.due_at, j.seq FROM {schema}.jobs j
    WHERE j.queue = pick_open.queue AND j.type = c.type AND j.state = 'waiting' AND j.grp IS NULL
      AND (j.deadline IS NULL OR j.deadline > now)
    ORDER BY j.priority DESC, j.due_at, j.seq LIMIT c.n FOR UPDATE SKIP LOCKED) p;
  picked := coalesce(picked, '{}');
  IF cardinality(picked) < seen AND seen = want THEN
    picked := picked || ARRAY(SELECT p.at FROM unnest(types) AS t (type)
      CROSS JOIN LATERAL (SELECT j.ctid AS at, j.priority, j.due_at, j.seq FROM {schema}.jobs j
        WHERE j.queue = pick_open.queue AND j.type = t.type AND j.state = 'waiting' AND j.grp IS NULL
          AND (j.deadline IS NULL OR j.deadline > now) AND j.ctid <> ALL (picked)
        ORDER BY j.priority DESC, j.due_at, j.seq LIMIT want - cardinality(picked) FOR UPDATE SKIP LOCKED) p
      ORDER BY p.priority DESC, p.due_at, p.seq LIMIT want - cardinality(picked));
  END IF;
  RETURN picked;
END
$$;
`,
  },
  {
    path: "jobs/promote_due.sql",
    text: `-- Scheduled jobs of the queue that have come due wait from now on: a thousand at the most. Whoever waits for them knows when they
-- come due. Answers how many.
CREATE OR REPLACE FUNCTION {schema}.promote_due(queue text, now float8) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  due tid[] := ARRAY(SELECT j.ctid FROM {schema}.jobs j
    WHERE j.queue = promote_due.queue AND j.state = 'scheduled' AND j.due_at <= now
    ORDER BY j.due_at LIMIT 1000 FOR UPDATE SKIP LOCKED);
BEGIN
  IF cardinality(due) > 0 THEN
    WITH promoted AS (
      UPDATE {schema}.jobs j SET state = 'waiting' WHERE j.ctid = ANY (due)
      RETURNING j.type, j.priority, j.grp, j.due_at, j.seq
    )
    INSERT INTO {schema}.arrivals (queue, type, priority, grp, due_at, job)
    SELECT promote_due.queue, p.type, p.priority, p.grp, min(p.due_at), (array_agg(p.seq ORDER BY p.due_at, p.seq))[1]
    FROM promoted p WHERE p.grp IS NOT NULL GROUP BY p.type, p.priority, p.grp ORDER BY 5, 6;
  END IF;
  RETURN cardinality(due);
END
$$;
`,
  },
  {
    path: "jobs/prune_rows.sql",
    text: `-- Deletes what has been kept long enough, 500 of each kind at the most: jobs, idempotency keys, limits of claims, events and those
-- who listened to them. What others have in their hands is left for the next time. deleted: how many. more: there may be more.
CREATE OR REPLACE FUNCTION {schema}.prune_rows(now float8, OUT deleted integer, OUT more boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  seqs bigint[];
  ids text[];
  count integer;
BEGIN
  SELECT array_agg(k.seq), array_agg(k.id), count(*) INTO seqs, ids, deleted FROM (
    SELECT j.seq, j.id FROM {schema}.jobs j WHERE j.delete_at IS NOT NULL AND j.delete_at <= now
    ORDER BY j.delete_at LIMIT 500 FOR UPDATE SKIP LOCKED) k;
  IF deleted > 0 THEN
    PERFORM {schema}.delete_jobs(seqs, ids);
  END IF;
  more := deleted = 500;

  DELETE FROM {schema}.keys k WHERE k.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}.keys o WHERE o.expires_at <= now ORDER BY o.expires_at LIMIT 500 FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS count = ROW_COUNT;
  deleted := deleted + count;
  more := more OR count = 500;

  -- They are written down again once a day, as long as there are claims.
  DELETE FROM {schema}.claims c WHERE c.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}.claims o WHERE o.at <= now - 2592000000 ORDER BY o.at LIMIT 500 FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS count = ROW_COUNT;
  deleted := deleted + count;

  DELETE FROM {schema}.listeners l WHERE l.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}.listeners o WHERE o.until <= now LIMIT 500 FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS count = ROW_COUNT;
  deleted := deleted + count;

  -- Events are for those who listen now: a minute, and ten thousand of them. They are numbered as they happen.
  DELETE FROM {schema}.events e WHERE e.ctid = ANY (ARRAY(
    SELECT f.at FROM (
      SELECT o.ctid AS at, o.seq, o.at AS told_at FROM {schema}.events o ORDER BY o.seq LIMIT 500 FOR UPDATE SKIP LOCKED) f
    WHERE f.told_at <= now - 60000 OR f.seq <= (SELECT max(n.seq) FROM {schema}.events n) - 10000));
  GET DIAGNOSTICS count = ROW_COUNT;
  deleted := deleted + count;
  more := more OR count = 500;
END
$$;
`,
  },
  {
    path: "jobs/queue_names.sql",
    text: `-- All queues that have jobs or are paused, sorted. From one to the next along the index, however many jobs lie between them.
CREATE OR REPLACE FUNCTION {schema}.queue_names() RETURNS text[]
LANGUAGE sql STABLE AS $$
  WITH RECURSIVE listed AS (
    (SELECT j.queue COLLATE "POSIX" AS queue FROM {schema}.jobs j WHERE j.state COLLATE "POSIX" <> 'active'
      ORDER BY j.queue COLLATE "POSIX" LIMIT 1)
    UNION ALL
    SELECT (SELECT j.queue COLLATE "POSIX" FROM {schema}.jobs j WHERE j.state COLLATE "POSIX" <> 'active' AND j.queue COLLATE "POSIX" > l.queue
      ORDER BY j.queue COLLATE "POSIX" LIMIT 1)
    FROM listed l WHERE l.queue IS NOT NULL
  )
  SELECT coalesce(array_agg(n.queue ORDER BY n.queue COLLATE "C"), '{}') FROM (
    SELECT l.queue COLLATE "C" AS queue FROM listed l WHERE l.queue IS NOT NULL
    UNION
    SELECT j.queue FROM {schema}.jobs j WHERE j.state = 'active'
    UNION
    SELECT p.queue FROM {schema}.pauses p) n
$$;
`,
  },
  {
    path: "jobs/read_backlog.sql",
    text: `-- What of a queue has not started, and what it runs under (jobs/backlog.ts): one look, without any lock.
CREATE OR REPLACE FUNCTION {schema}.read_backlog(of_queue text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8 := {schema}.present();
  types jsonb;
  names text[];
  waiting jsonb;
  kept jsonb;
  brought jsonb := '[]';
BEGIN
  -- Along the index of the state, and the latest thousand that were completed: for people, not for a job.
  WITH waiting AS (
    SELECT w.type, sum(w.waiting) AS n, count(*) AS groups, max(w.waiting) AS most
    FROM {schema}.waiting_groups(of_queue, now) w GROUP BY w.type
  ), others AS (
    SELECT j.type, count(*) FILTER (WHERE j.state = 'active') AS active,
      count(*) FILTER (WHERE j.state = 'scheduled' AND j.due_at > now) AS scheduled
    FROM {schema}.jobs j WHERE j.queue = of_queue AND j.state IN ('active', 'scheduled') GROUP BY j.type
  ), ran AS (
    SELECT c.type, sum(c.ms) / count(*) AS ms FROM (
      SELECT j.type, j.finished_at - j.started_at AS ms FROM {schema}.jobs j
      WHERE j.queue = of_queue AND j.state = 'completed' ORDER BY j.seq DESC LIMIT 1000
    ) c GROUP BY c.type
  )
  SELECT coalesce(jsonb_agg(jsonb_build_object('type', type, 'waiting', coalesce(w.n, 0),
      'scheduled', coalesce(o.scheduled, 0), 'active', coalesce(o.active, 0), 'groups', coalesce(w.groups, 0),
      'mostInGroup', coalesce(w.most, 0), 'ranMs', r.ms,
      'weights', CASE WHEN w.n > 0 THEN {schema}.waiting_weights(of_queue, type, now) ELSE '{}' END)), '[]'),
      coalesce(array_agg(type), '{}')
    INTO types, names
    FROM waiting w FULL JOIN others o USING (type) LEFT JOIN ran r USING (type);
  SELECT coalesce(jsonb_agg(to_jsonb(w)), '[]') INTO waiting FROM {schema}.waiting_jobs(NULL, now) w;
  SELECT coalesce(jsonb_agg(jsonb_build_object('stored', r.stored) || {schema}.seen_states(r.rule, NULL, now)), '[]')
    INTO kept FROM {schema}.rules r
    WHERE ((r.fields).queues IS NULL OR of_queue = ANY ((r.fields).queues))
      AND cardinality(names) > 0 AND ((r.fields).types IS NULL OR (r.fields).types && names);
  IF cardinality(names) > 0 THEN
    SELECT coalesce(jsonb_agg(jsonb_build_object('claim', c.value) || {schema}.seen_states(jsonb_build_object(
        'name', c.value ->> 'key', 'byGroup', false, 'quota', c.value), NULL, now) ORDER BY c.ordinality), '[]')
      INTO brought FROM {schema}.claims q, jsonb_array_elements(q.limits) WITH ORDINALITY c WHERE q.queue = of_queue;
  END IF;
  RETURN jsonb_build_object('types', types, 'waiting', waiting, 'limits', kept || brought,
    'pauses', (SELECT coalesce(jsonb_agg(p.type), '[]') FROM {schema}.pauses p WHERE p.queue = of_queue));
END
$$;
`,
  },
  {
    path: "jobs/recover.sql",
    text: `-- Jobs whose lease has run out go back into the queue, 500 at the most, unless that was their last attempt or they are not wanted.
-- They take their old place: what was not their fault is not to cost them an hour of backlog. The claim that started them is
-- forgotten, so that nobody mistakes this for the end that their worker had in mind.
--
-- names: limits to be locked beside those of the jobs; NULL: nobody else can be at any limit. stalled: how many. woken, everybody:
-- as all steps tell it. told: events were written.
CREATE OR REPLACE FUNCTION {schema}.recover(names text[], OUT stalled integer, OUT woken json, OUT everybody boolean,
  OUT told boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now float8 := {schema}.present();
  leases {schema}.ended_lease[];
  given {schema}.limit_given[];
  ats tid[] := ARRAY(SELECT j.ctid FROM {schema}.jobs j WHERE j.state = 'active' AND j.lease_until <= now
    ORDER BY j.lease_until LIMIT 500 FOR UPDATE SKIP LOCKED);
BEGIN
  stalled := cardinality(ats);
  everybody := false;
  told := false;
  IF stalled > 0 AND (EXISTS (SELECT FROM {schema}.rules)
    OR EXISTS (SELECT FROM {schema}.jobs j WHERE j.ctid = ANY (ats) AND j.limits IS NOT NULL)) THEN
    SELECT array_agg((j.token, j.queue, j.type, j.grp, j.started_at, j.limits, 'failed',
      '{StalledJobError,SLUICE_STALLED}', NULL, false)::{schema}.ended_lease ORDER BY j.lease_until, j.seq)
    INTO leases FROM {schema}.jobs j WHERE j.ctid = ANY (ats);
    IF names IS NOT NULL THEN
      names := names || {schema}.limits_of(leases);
    END IF;
  END IF;
  IF cardinality(names) > 0 THEN
    PERFORM {schema}.lock_limits(names);
  END IF;
  now := {schema}.moment();
  IF stalled = 0 THEN
    RETURN;
  END IF;
  IF leases IS NOT NULL THEN
    given := {schema}.give_back(leases, now);
  END IF;
  told := {schema}.events_wanted(now);
  WITH lost AS MATERIALIZED (
    SELECT j.ctid AS at, j.seq, j.id, j.queue, j.type, j.attempt, j.started_at, j.worker, e.error, CASE
      WHEN j.cancel_requested THEN 'cancelled' WHEN j.attempt >= j.max_attempts THEN 'dead'
      WHEN j.due_at <= now THEN 'waiting' ELSE 'scheduled' END AS state,
      row_number() OVER (ORDER BY j.lease_until, j.seq) AS no
    FROM {schema}.jobs j CROSS JOIN LATERAL (SELECT json_build_object('name', 'StalledJobError', 'code', 'SLUICE_STALLED',
      'message', 'the lease of worker ' || coalesce(j.worker, '') || ' ran out before it was done') AS error) e
    WHERE j.ctid = ANY (ats)
  ), failed AS (
    INSERT INTO {schema}.attempts (job, attempt, started_at, ended_at, worker, error)
    SELECT l.seq, l.attempt, coalesce(l.started_at, now), now, coalesce(l.worker, ''), l.error FROM lost l ORDER BY l.no
  ), trimmed AS (
    DELETE FROM {schema}.attempts a USING lost l WHERE a.job = l.seq AND a.seq <=
      (SELECT b.seq FROM {schema}.attempts b WHERE b.job = l.seq ORDER BY b.seq DESC OFFSET 99 LIMIT 1)
  ), recovered AS (
    UPDATE {schema}.jobs j SET state = l.state, lease_until = NULL, claim = NULL, error = l.error,
      worker = CASE WHEN l.state IN ('dead', 'cancelled') THEN j.worker END,
      finished_at = CASE WHEN l.state IN ('dead', 'cancelled') THEN now END,
      delete_at = CASE WHEN l.state IN ('dead', 'cancelled') THEN now + coalesce(j.keep_for, {schema}.kept_ms(l.state)) END
    FROM lost l WHERE j.ctid = l.at
    RETURNING j.seq, j.queue, j.type, j.priority, j.grp, j.state, j.due_at
  ), told_of AS (
    INSERT INTO {schema}.events (at, event)
    SELECT now, e.event FROM lost l CROSS JOIN LATERAL (VALUES
      (1, json_build_object('event', 'stalled', 'queue', l.queue, 'id', l.id, 'type', l.type, 'attempt', l.attempt,
        'worker', coalesce(l.worker, ''))),
      (2, CASE l.state WHEN 'cancelled' THEN json_build_object('event', 'cancelled', 'queue', l.queue, 'id', l.id, 'type', l.type)
        WHEN 'dead' THEN json_build_object('event', 'dead', 'queue', l.queue, 'id', l.id, 'type', l.type, 'attempt', l.attempt,
          'error', l.error) END)) AS e (no, event)
    WHERE told AND e.event IS NOT NULL ORDER BY l.no, e.no
  ), arrived AS (
    INSERT INTO {schema}.arrivals (queue, type, priority, grp, due_at, job)
    SELECT r.queue, r.type, r.priority, r.grp, min(r.due_at), (array_agg(r.seq ORDER BY r.due_at, r.seq))[1] FROM recovered r
    WHERE r.state = 'waiting' AND r.grp IS NOT NULL GROUP BY r.queue, r.type, r.priority, r.grp ORDER BY 5, 6
  ), kinds AS (
    SELECT r.queue, r.type, r.priority, r.grp, r.state, min(r.due_at) AS due_at
    FROM recovered r WHERE r.state IN ('waiting', 'scheduled') GROUP BY r.queue, r.type, r.priority, r.grp, r.state
  ), looked AS (
    SELECT k.queue, CASE WHEN k.state = 'waiting' THEN {schema}.lane_news(k.queue, k.type, k.priority, k.grp, now)
      ELSE {schema}.is_first_due(k.queue, k.type, k.due_at) END AS news
    FROM kinds k
  )
  SELECT json_agg(json_build_array(w.queue, w.news)) INTO woken FROM (
    SELECT l.queue, bool_or(l.news) AS news FROM looked l WHERE l.news IS NOT NULL GROUP BY l.queue) w;
  IF given IS NOT NULL THEN
    everybody := {schema}.is_news(given, now);
  END IF;
END
$$;
`,
  },
  {
    path: "jobs/refuse_impossible.sql",
    text: `-- Refuses jobs (by their ids) that could never start under the limits in force, for they weigh too much: SQLSTATE SL002, with
-- what is wrong in DETAIL. As storage/stored-rules.ts: refuseImpossible.
CREATE OR REPLACE FUNCTION {schema}.refuse_impossible(ids text[]) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  wrong json;
BEGIN
  SELECT json_build_object('why', 'weight', 'rule', of.name, 'weight', of.weight, 'said', of.said, 'most', of.most) INTO wrong
  FROM (
    SELECT i.no, r.name, r.rule ->> 'weight' AS weight, said.weight AS said, CASE
      WHEN (r.rule #> '{quota,max}') <> 'null' THEN
        CASE WHEN quota.max > 0 AND said.weight > quota.max THEN quota.max
          WHEN quota.concurrency > 0 AND 1 > quota.concurrency THEN quota.concurrency END
      WHEN quota.max > 0 AND 1 > quota.max THEN quota.max
      WHEN quota.concurrency > 0 AND said.weight > quota.concurrency THEN quota.concurrency END AS most
    FROM unnest(refuse_impossible.ids) WITH ORDINALITY AS i (id, no)
    JOIN {schema}.jobs j ON j.id = i.id
    CROSS JOIN {schema}.rules r
    CROSS JOIN LATERAL (SELECT coalesce(j.weights -> (r.rule ->> 'weight'), r.rule -> 'estimate')::float8 AS weight) said
    CROSS JOIN LATERAL (SELECT CASE
      WHEN (r.rule ->> 'byGroup')::boolean AND j.grp IS NOT NULL
        THEN (r.rule -> 'quota') || coalesce(r.rule -> 'groups' -> j.grp, '{}') ELSE r.rule -> 'quota' END AS q) own
    CROSS JOIN LATERAL (SELECT (own.q ->> 'max')::float8 AS max, (own.q ->> 'concurrency')::float8 AS concurrency) quota
    WHERE r.rule ->> 'weight' IS NOT NULL
      AND (r.rule -> 'queues' = 'null' OR (r.rule -> 'queues') ? j.queue)
      AND (r.rule -> 'types' = 'null' OR (r.rule -> 'types') ? j.type)
  ) of
  WHERE of.most IS NOT NULL ORDER BY of.no, of.name LIMIT 1;
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION 'the job can never start: it weighs % under the limit "%"', wrong ->> 'said', wrong ->> 'rule'
      USING ERRCODE = 'SL002', DETAIL = wrong::text;
  END IF;
END
$$;
`,
  },
  {
    path: "jobs/release_leases.sql",
    text: `-- Ends leases in every way but well: jobs are tried again, given back, dead or cancelled. One that was asked to stop does not come
-- back: nobody wants it any more.
--
-- As end_leases; outcomes that ended well are passed over.
CREATE OR REPLACE FUNCTION {schema}.release_leases(outcomes json, ats tid[], ns integer[], now float8,
  OUT woken json, OUT late boolean)
LANGUAGE plpgsql VOLATILE SET enable_hashjoin = on AS $$
BEGIN
  WITH outcome AS MATERIALIZED (
    SELECT l.at, o.* FROM unnest(ats, ns) AS l (at, n)
    JOIN json_to_recordset(outcomes)
      AS o (n integer, "to" text, in_ms float8, held boolean, error text) ON o.n = l.n
    WHERE o.to IS NOT NULL
  ), failed AS (
    INSERT INTO {schema}.attempts (job, attempt, started_at, ended_at, worker, error)
    SELECT j.seq, j.attempt, coalesce(j.started_at, now), now, coalesce(j.worker, ''), o.error
    FROM outcome o JOIN {schema}.jobs j ON j.ctid = o.at WHERE o.to <> 'back' AND o.error IS NOT NULL
    ORDER BY o.n
    RETURNING job
  ), trimmed AS (
    DELETE FROM {schema}.attempts a USING failed f WHERE a.job = f.job AND a.seq <=
      (SELECT b.seq FROM {schema}.attempts b WHERE b.job = f.job ORDER BY b.seq DESC OFFSET 99 LIMIT 1)
  ), released AS (
    UPDATE {schema}.jobs j SET
      state = CASE WHEN o.to IN ('dead', 'cancelled') THEN o.to WHEN j.cancel_requested THEN 'cancelled'
        WHEN due.at <= now THEN 'waiting' ELSE 'scheduled' END,
      due_at = CASE WHEN due.ends THEN j.due_at ELSE due.at END,
      finished_at = CASE WHEN due.ends THEN now END,
      delete_at = CASE WHEN due.ends THEN
        now + coalesce(j.keep_for, {schema}.kept_ms(CASE WHEN o.to = 'dead' THEN 'dead' ELSE 'cancelled' END)) END,
      worker = CASE WHEN due.ends THEN j.worker END,
      lease_until = NULL,
      attempt = j.attempt - CASE WHEN o.to = 'back' THEN 1 ELSE 0 END,
      holds = j.holds + CASE WHEN o.held THEN 1 ELSE 0 END,
      error = coalesce(o.error, j.error)
    FROM outcome o
    JOIN {schema}.jobs was ON was.ctid = o.at
    CROSS JOIN LATERAL (SELECT o.to IN ('dead', 'cancelled') OR was.cancel_requested AS ends,
      CASE WHEN o.to = 'retry' OR o.in_ms > 0 THEN now + o.in_ms ELSE was.due_at END AS at) due
    WHERE j.ctid = o.at
    RETURNING j.seq, j.queue, j.type, j.priority, j.grp, j.state, j.due_at, j.deadline
  ), arrived AS (
    INSERT INTO {schema}.arrivals (queue, type, priority, grp, due_at, job)
    SELECT r.queue, r.type, r.priority, r.grp, min(r.due_at), (array_agg(r.seq ORDER BY r.due_at, r.seq))[1] FROM released r
    WHERE r.state = 'waiting' AND r.grp IS NOT NULL GROUP BY r.queue, r.type, r.priority, r.grp ORDER BY 5, 6
  ), kinds AS (
    SELECT r.queue, r.type, r.priority, r.grp, r.state, min(r.due_at) AS due_at
    FROM released r WHERE r.state IN ('waiting', 'scheduled') GROUP BY r.queue, r.type, r.priority, r.grp, r.state
  ), looked AS (
    SELECT k.queue, CASE WHEN k.state = 'waiting' THEN {schema}.lane_news(k.queue, k.type, k.priority, k.grp, now)
      ELSE {schema}.is_first_due(k.queue, k.type, k.due_at) END AS news
    FROM kinds k
  )
  SELECT (SELECT json_agg(json_build_array(w.queue, w.news)) FROM (
      SELECT l.queue, bool_or(l.news) AS news FROM looked l WHERE l.news IS NOT NULL GROUP BY l.queue) w),
    (SELECT coalesce(bool_or(r.deadline <= now), false) FROM released r WHERE r.state IN ('waiting', 'scheduled'))
  INTO woken, late;
END
$$;
`,
  },
  {
    path: "jobs/remember_claim.sql",
    text: `-- Keeps the limits that a claim brings along, so that people can be told what jobs of its queue wait for. Once a day it is said
-- again, as long as there are claims. Where workers bring different ones along, the latest word of a second ago will do: nobody
-- waits for another because of it.
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
`,
  },
  {
    path: "jobs/report.sql",
    text: `-- Writes progress, log lines and real weights of running jobs.
--
-- reports: [{n, id, token, progress: its text, log: [text], weights: {name: weight}}]. Answer: {lost: [n], everybody, events}.
CREATE OR REPLACE FUNCTION {schema}.report(reports json) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
  SET enable_mergejoin = off AS $$
DECLARE
  now float8;
  alone boolean := {schema}.many_rules();
  ids text[];
  leased bigint[];
  ns integer[];
  tokens bigint[];
  taken jsonb[];
  one record;
  given {schema}.limit_given[] := '{}';
  told boolean;
BEGIN
  PERFORM {schema}.begin_step(alone);
  SELECT array_agg(o.id), array_agg(o.token) INTO ids, leased FROM json_to_recordset(reports) AS o (id text, token bigint);
  -- Each is looked up by its id (complete_plainly.sql).
  WITH locked AS MATERIALIZED (
    SELECT j.id, j.token, j.limits FROM {schema}.jobs j
    WHERE j.id = ANY (ids) AND j.token = ANY (leased) AND j.lease_until IS NOT NULL ORDER BY j.id FOR UPDATE
  )
  SELECT coalesce(array_agg(o.n), '{}'), array_agg(l.token) FILTER (WHERE o.weights IS NOT NULL),
    array_agg(l.limits) FILTER (WHERE o.weights IS NOT NULL)
  INTO ns, tokens, taken
  FROM locked l JOIN json_to_recordset(reports) AS o (n integer, id text, token bigint, weights json)
    ON o.token = l.token AND o.id = l.id;
  IF tokens IS NOT NULL AND NOT alone THEN
    PERFORM {schema}.lock_limits({schema}.limits_of_report(tokens, taken));
  END IF;
  now := {schema}.moment();
  told := {schema}.events_wanted(now);
  PERFORM {schema}.write_log(reports, ns, now);
  FOR one IN
    SELECT o.id, o.weights FROM json_to_recordset(reports) AS o (n integer, id text, weights jsonb)
    WHERE o.weights IS NOT NULL AND o.n = ANY (ns) ORDER BY o.n
  LOOP
    given := given || (SELECT {schema}.correct_weights(j.seq, j.token, j.started_at, j.limits, one.weights, now)
      FROM {schema}.jobs j WHERE j.id = one.id);
  END LOOP;
  WITH said AS (
    SELECT o.n, o.id, o.progress FROM json_to_recordset(reports) AS o (n integer, id text, progress text)
    WHERE o.progress IS NOT NULL AND o.n = ANY (ns)
  ), latest AS (
    SELECT DISTINCT ON (s.id) s.id, s.progress FROM said s ORDER BY s.id, s.n DESC
  ), written AS (
    UPDATE {schema}.jobs j SET progress = l.progress FROM latest l WHERE j.id = l.id RETURNING j.id, j.queue, j.type
  )
  INSERT INTO {schema}.events (at, event)
  SELECT now, json_build_object('event', 'progress', 'queue', w.queue, 'id', w.id, 'type', w.type, 'progress', s.progress::json)
  FROM said s JOIN written w ON w.id = s.id WHERE told ORDER BY s.n;
  told := FOUND;
  RETURN json_build_object('events', told, 'everybody', {schema}.is_news(given, now), 'lost', ARRAY(
    SELECT o.n FROM json_to_recordset(reports) AS o (n integer) WHERE o.n <> ALL (ns) ORDER BY o.n));
END
$$;
`,
  },
  {
    path: "jobs/set_paused.sql",
    text: `-- Nothing of the queue, or of one type in it, starts while it is paused. type: '' for the whole queue, ':' and the type for one.
-- Answer: {woken, everybody}. Whoever waited for a heavy job of those that are paused now does not any more.
CREATE OR REPLACE FUNCTION {schema}.set_paused(queue text, type text, paused boolean) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  everybody boolean := false;
BEGIN
  PERFORM {schema}.begin_step(true);
  IF paused THEN
    INSERT INTO {schema}.pauses VALUES (set_paused.queue, set_paused.type) ON CONFLICT DO NOTHING;
    everybody := {schema}.unblock_weighing();
  ELSE
    DELETE FROM {schema}.pauses p WHERE p.queue = set_paused.queue AND p.type = set_paused.type;
  END IF;
  RETURN json_build_object('everybody', everybody,
    'woken', CASE WHEN NOT paused THEN json_build_array(json_build_array(set_paused.queue, true)) END);
END
$$;
`,
  },
  {
    path: "jobs/settle.sql",
    text: `-- Ends leases, one for each job.
--
-- outcomes: a list, as lock_leases takes it; or, where all of them ended well, {ids, tokens, results}, as complete_plainly does.
-- again: as lock_leases. Answer: {stale: [numbers of outcomes whose lease was lost], woken, everybody, events}.
CREATE OR REPLACE FUNCTION {schema}.settle(outcomes json, again boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
  SET enable_indexscan = on SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
  SET enable_memoize = off AS $$
DECLARE
  now float8;
  alone boolean := {schema}.many_rules();
  begun boolean := {schema}.begin_step(alone) IS NULL;
  ruled boolean := EXISTS (SELECT FROM {schema}.rules);
  plain record;
  tokens bigint[] := '{}';
  limited boolean := false;
  names text[] := '{}';
  held record;
  leases {schema}.ended_lease[];
  given {schema}.limit_given[];
  done record;
  everybody boolean := false;
BEGIN
  now := {schema}.present();
  IF json_typeof(outcomes) = 'object' THEN
    SELECT * INTO plain FROM json_to_record(outcomes) AS r (ids text[], tokens bigint[], results jsonb);
    IF NOT {schema}.events_wanted(now) THEN
      tokens := {schema}.complete_plainly(plain.ids, plain.tokens, plain.results, now);
      limited := ruled AND cardinality(tokens) > 0;
      IF cardinality(tokens) = cardinality(plain.ids) AND NOT limited THEN
        RETURN '{"stale": []}';
      END IF;
    END IF;
    outcomes := {schema}.outcomes_of(plain.ids, plain.tokens, plain.results, tokens);
  END IF;
  SELECT * INTO held FROM {schema}.lock_leases(outcomes, again);
  IF cardinality(held.ats) = 0 AND NOT limited THEN
    RETURN json_build_object('stale', held.stale, 'woken', NULL, 'everybody', false, 'events', false);
  END IF;
  IF limited THEN
    tokens := ARRAY(SELECT t FROM unnest(tokens) AS t ORDER BY t);
    names := {schema}.limits_of_tokens(tokens);
  END IF;
  IF cardinality(held.ats) > 0 AND (held.took OR ruled) THEN
    leases := {schema}.ended_leases(outcomes, held.ats, held.ns);
    names := names || {schema}.limits_of(leases);
  END IF;
  IF NOT alone AND cardinality(names) > 0 THEN
    PERFORM {schema}.lock_limits(names);
  END IF;
  now := {schema}.moment();
  IF limited THEN
    given := {schema}.give_tokens(tokens, NULL, now);
  END IF;
  IF leases IS NOT NULL THEN
    given := given || {schema}.give_back(leases, now);
  END IF;
  SELECT * INTO done FROM {schema}.end_leases(outcomes, held.ats, held.ns, held.tos, held.results, now);
  IF given IS NOT NULL THEN
    everybody := {schema}.is_news(given, now);
  END IF;
  RETURN json_build_object('stale', held.stale, 'woken', done.woken, 'everybody', everybody, 'events', done.told);
END
$$;
`,
  },
  {
    path: "jobs/show_due.sql",
    text: `-- Jobs that have come due are shown as such, whether or not anybody has claimed since: called before the states of a queue are read.
-- Answers whether there were any.
CREATE OR REPLACE FUNCTION {schema}.show_due(queue text) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now float8 := {schema}.present();
BEGIN
  PERFORM FROM {schema}.jobs j WHERE j.queue = show_due.queue AND j.state = 'scheduled' AND j.due_at <= now
  ORDER BY j.due_at LIMIT 1;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM {schema}.begin_step();
  RETURN {schema}.promote_due(show_due.queue, {schema}.moment()) > 0;
END
$$;
`,
  },
  {
    path: "jobs/standing_of.sql",
    text: `-- How many jobs start before one that waits, or will, if nothing keeps them back (Standing in storage/limit-storage.ts): as if
-- all that have come due waited, and all that wait had a lane, though a claim opens it only when it has to. One that does not exist
-- yet would be where its unit is, behind those that do.
--
-- own: the job. at: now. Answers with \`ahead\`, and with its lane, if there is one: its id, the job that is too heavy for a
-- limit (\`heavy\`), for which (\`by\`), and since when.
CREATE OR REPLACE FUNCTION {schema}.standing_of(own {schema}.jobs, at float8) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  WITH due AS MATERIALIZED (
    SELECT * FROM {schema}.waiting_due(own.queue, own.priority, at)
  ), open AS MATERIALIZED (
    SELECT * FROM {schema}.waiting_open(own)
  ), places AS (
    SELECT g.type, g.grp, g.waiting, g.before, g.first FROM {schema}.waiting_grouped(own) g
    UNION ALL
    SELECT o.type, '', o.waiting, o.before, o.first FROM open o
    UNION ALL
    SELECT d.type, d.grp, count(*), count(*) FILTER (WHERE (d.due_at, d.seq) < (own.due_at, own.seq)), min(d.seq)
    FROM due d WHERE d.priority = own.priority GROUP BY d.type, d.grp
  ), present AS (
    SELECT p.type, p.grp, p.grp = coalesce(':' || own.grp, '') AS is_own, p.waiting, p.before,
      coalesce(l.turn, (SELECT max(u.turn) FROM {schema}.lanes u WHERE u.queue = own.queue AND u.priority = own.priority
        AND u.grp = p.grp), 0)::float8 AS turn,
      coalesce(l.id::float8, 'Infinity') AS id, coalesce(p.first, 0) AS first,
      l.blocked_until IS NULL OR l.blocked_until <= at AS free, l.heavy, l.blocked_by, l.heavy_since
    FROM (SELECT type, grp, sum(waiting) AS waiting, sum(before) AS before, min(first) AS first FROM places
      GROUP BY type, grp) p
    LEFT JOIN LATERAL (SELECT k.* FROM {schema}.lanes k WHERE k.queue = own.queue AND k.priority = own.priority
      AND k.grp = p.grp AND k.type = p.type LIMIT 1) l ON true
    WHERE p.waiting > 0
  ), speaker AS (
    -- The lane that was served the longest ago speaks for its group. Where there is none, all that never were come first.
    SELECT turn, id, first FROM (
      SELECT turn, id, first FROM present WHERE is_own
      UNION ALL SELECT 0, 'Infinity', 9223372036854775807 WHERE NOT EXISTS (SELECT FROM present WHERE is_own)
    ) s ORDER BY turn, id, first LIMIT 1
  ), mine AS (
    SELECT coalesce(sum(before), 0) AS unit, coalesce(sum(before) FILTER (WHERE type = own.type), 0) AS lane
    FROM present WHERE is_own
  ), others AS (
    -- Every other group has its turn as often as the job's own does before it; once more, if it is the other's turn first.
    SELECT least(sum(p.waiting),
      (SELECT unit FROM mine) + CASE WHEN bool_or((p.turn, p.id, p.first) < (s.turn, s.id, s.first)) THEN 1 ELSE 0 END) AS turns
    FROM present p, speaker s
    WHERE NOT p.is_own AND p.free
      AND NOT EXISTS (SELECT FROM {schema}.pauses u WHERE u.queue = own.queue AND u.type = ':' || p.type)
    GROUP BY p.grp
  ), higher AS (
    SELECT coalesce(sum(n), 0) AS n FROM (
      SELECT (SELECT count(*) FROM (SELECT FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = t.type
        AND j.state = 'waiting' AND j.grp IS NOT NULL AND j.priority > own.priority LIMIT 10000) w) AS n
      FROM unnest({schema}.waiting_types(own.queue)) AS t (type)
      UNION ALL SELECT o.higher FROM open o
      UNION ALL SELECT count(*) FROM due d WHERE d.priority > own.priority
    ) h
  )
  SELECT jsonb_build_object(
    'ahead', (SELECT jsonb_build_object('higher', least(10000, h.n), 'group', least(10000, m.unit), 'lane', least(10000, m.lane),
      'turns', least(10000, (SELECT coalesce(sum(turns), 0) FROM others))) FROM higher h, mine m),
    'lane', (SELECT jsonb_build_object('id', p.id, 'heavy', p.heavy, 'by', p.blocked_by, 'since', p.heavy_since)
      FROM present p WHERE p.is_own AND p.type = own.type AND p.id < 'Infinity'))
$$;
`,
  },
  {
    path: "jobs/start_jobs.sql",
    text: `-- Starts jobs that are locked, in this order: the first gets the token \`first\`, the next one the next number, and so on. limits:
-- what each of them took. heard: somebody wants to hear of it. Answers with the jobs, as job_json.
CREATE OR REPLACE FUNCTION {schema}.start_jobs(ats tid[], first bigint, worker text, claim text, lease_ms float8, limits jsonb,
  heard boolean, now float8) RETURNS json
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  jobs json;
BEGIN
  WITH started AS (
    UPDATE {schema}.jobs j SET state = 'active', attempt = j.attempt + 1, started_at = now, lease_until = now + lease_ms,
      worker = start_jobs.worker, claim = start_jobs.claim, limits = start_jobs.limits, token = first + p.no - 1
    FROM unnest(ats) WITH ORDINALITY AS p (at, no) WHERE j.ctid = p.at
    RETURNING j.token, {schema}.job_json(j) AS job
  )
  SELECT json_agg(s.job ORDER BY s.token) INTO jobs FROM started s;
  IF heard THEN
    INSERT INTO {schema}.events (at, event)
    SELECT now, json_build_object('event', 'started', 'queue', s.job -> 2, 'id', s.job -> 1, 'type', s.job -> 3,
      'attempt', s.job -> 7, 'worker', worker)
    FROM json_array_elements(jobs) WITH ORDINALITY AS s (job, no) ORDER BY s.no;
  END IF;
  RETURN jobs;
END
$$;
`,
  },
  {
    path: "jobs/sweep.sql",
    text: `-- Housekeeping, in small steps. Answer: {stalled, deleted, more, woken, everybody, events}.
CREATE OR REPLACE FUNCTION {schema}.sweep() RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET jit = off SET enable_seqscan = off AS $$
DECLARE
  alone boolean := {schema}.many_rules();
  now float8;
  lost record;
  late record;
  again record;
  weighing text[];
  limits {schema}.pruned;
  old record;
  lanes integer;
  arriving boolean;
  holds integer;
  everybody boolean;
BEGIN
  PERFORM {schema}.begin_step(alone);
  weighing := {schema}.weighing();
  SELECT * INTO late FROM {schema}.end_late({schema}.present());
  SELECT * INTO lost FROM {schema}.recover(CASE WHEN NOT alone THEN weighing END);
  everybody := lost.everybody;
  now := {schema}.moment();
  -- Those that have just come back may be too late for another attempt.
  SELECT * INTO again FROM {schema}.end_late(now);
  IF cardinality(late.gone || again.gone) > 0 AND cardinality(weighing) > 0 THEN
    everybody := {schema}.left_lane(late.gone || again.gone) OR everybody;
  END IF;
  limits := {schema}.prune_limits(now);
  holds := {schema}.prune_holds(now);
  arriving := {schema}.sweep_arrivals(now, weighing);
  lanes := {schema}.sweep_lanes(now, 500);
  SELECT * INTO old FROM {schema}.prune_rows(now);
  RETURN json_build_object('stalled', lost.stalled, 'deleted', old.deleted + limits.deleted + holds + lanes,
    'more', old.more OR limits.more OR holds = 500 OR lanes = 500 OR arriving OR lost.stalled = 500 OR late.ended = 1000 OR again.ended = 1000,
    'woken', lost.woken, 'everybody', everybody, 'events', lost.told OR late.told OR again.told);
END
$$;
`,
  },
  {
    path: "jobs/sweep_arrivals.sql",
    text: `-- Opens lanes for what has arrived in queues that nobody claims from, so that not ever more of it is kept: where there are more than a
-- thousand, as many as a claim would, in ten queues at the most. Those of queues where somebody claims at this moment are left
-- to him. Answers whether there is more.
--
-- now: the time. names: of limits that weigh: they are locked.
CREATE OR REPLACE FUNCTION {schema}.sweep_arrivals(now float8, names text[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  few CONSTANT integer := 1000;
  arrived text;
  more boolean := false;
BEGIN
  FOR arrived IN
    WITH RECURSIVE queues AS (
      (SELECT a.queue FROM {schema}.arrivals a ORDER BY a.queue LIMIT 1)
      UNION ALL
      SELECT n.queue FROM queues q CROSS JOIN LATERAL (SELECT a.queue FROM {schema}.arrivals a WHERE a.queue > q.queue
        ORDER BY a.queue LIMIT 1) n
    )
    SELECT q.queue FROM queues q
    WHERE EXISTS (SELECT FROM {schema}.arrivals a WHERE a.queue = q.queue OFFSET few) LIMIT 10
  LOOP
    IF pg_try_advisory_xact_lock({schema}.lock_key('queue', arrived)) THEN
      more := {schema}.let_in(arrived, '{}', {schema}.waiting_types(arrived), names, few, now) OR more;
    END IF;
  END LOOP;
  RETURN more;
END
$$;
`,
  },
  {
    path: "jobs/sweep_lanes.sql",
    text: `-- Deletes lanes that nobody has used for an hour: so long a lane remembers its turn after the last job has left it. Those of
-- queues where somebody claims at this moment are left for the next time. Answers how many.
--
-- now: the time. most: how many at most.
CREATE OR REPLACE FUNCTION {schema}.sweep_lanes(now float8, most integer) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  kept_ms CONSTANT float8 := 3600000;
  old bigint[];
  queues text[];
  deleted integer;
BEGIN
  SELECT array_agg(l.id), array_agg(DISTINCT l.queue) INTO old, queues FROM (
    SELECT a.id, a.queue FROM {schema}.lanes a WHERE NOT a.ready AND a.used_at <= now - kept_ms ORDER BY a.used_at LIMIT most
  ) l;
  IF old IS NULL THEN
    RETURN 0;
  END IF;
  SELECT array_agg(q.queue) INTO queues FROM unnest(queues) AS q (queue)
    WHERE pg_try_advisory_xact_lock({schema}.lock_key('queue', q.queue));
  DELETE FROM {schema}.lanes l WHERE l.id = ANY (old) AND l.queue = ANY (queues) AND NOT l.ready;
  GET DIAGNOSTICS deleted = ROW_COUNT;
  RETURN deleted;
END
$$;
`,
  },
  {
    path: "jobs/take_key.sql",
    text: `-- May a job be added that asks for this idempotency key? NULL: yes, and the key is its own now, for \`ttl\` ms. Else the id of the
-- job that there is already: the same one, or another that has the key. SQLSTATE SL002, with what is wrong in DETAIL, where
-- the key is taken and that is not to be. Whoever calls has locked the key, and the job that may have to give way (lock_holders).
--
-- gone: the job that has given way, as the limits want to hear of it; NULL: none has.
CREATE OR REPLACE FUNCTION {schema}.take_key(id text, queue text, key text, fingerprint text, ttl float8, on_duplicate text,
  now float8, OUT earlier text, OUT gone {schema}.gone_job)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  holder record;
  other record;
  why text;
BEGIN
  PERFORM FROM {schema}.jobs j WHERE j.id = take_key.id;
  IF FOUND THEN
    earlier := take_key.id;
    RETURN;
  END IF;
  SELECT k.fingerprint, k.job INTO holder FROM {schema}.keys k
  WHERE k.queue = take_key.queue AND k.key = take_key.key AND k.expires_at > now;
  IF FOUND THEN
    IF holder.job = take_key.id OR (on_duplicate = 'return' AND holder.fingerprint = take_key.fingerprint) THEN
      earlier := holder.job;
      RETURN;
    END IF;
    IF on_duplicate = 'replace' THEN
      -- One that runs is not locked: its worker would wait for us. One that has come back just now is.
      LOOP
        SELECT j.seq, j.state, j.queue, j.type, j.priority, j.grp INTO other FROM {schema}.jobs j WHERE j.id = holder.job;
        EXIT WHEN other.state IN ('waiting', 'scheduled', 'awaiting') IS NOT TRUE;
        PERFORM FROM {schema}.jobs j WHERE j.id = holder.job AND j.state COLLATE "POSIX" = other.state FOR UPDATE;
        EXIT WHEN FOUND;
      END LOOP;
      IF other.state = 'active' THEN
        why := 'it is active, and cannot be replaced';
      ELSIF other.state IN ('waiting', 'scheduled', 'awaiting') THEN
        PERFORM {schema}.delete_jobs(ARRAY[other.seq], ARRAY[holder.job]);
        IF other.state = 'waiting' THEN
          gone := (other.queue, other.type, other.priority, other.grp);
        END IF;
      END IF;
    ELSIF on_duplicate = 'reject' THEN
      why := 'duplicates are to be rejected';
    ELSE
      why := 'its payload is another one';
    END IF;
    IF why IS NOT NULL THEN
      RAISE EXCEPTION 'the idempotency key "%" belongs to job "%": %', take_key.key, holder.job, why USING ERRCODE = 'SL002',
        DETAIL = json_build_object('why', 'key', 'key', take_key.key, 'id', holder.job, 'because', why)::text;
    END IF;
  END IF;
  UPDATE {schema}.keys k SET fingerprint = take_key.fingerprint, job = take_key.id, expires_at = now + ttl
  WHERE k.queue = take_key.queue AND k.key = take_key.key;
END
$$;
`,
  },
  {
    path: "jobs/take_walked.sql",
    text: `-- Counts the starts of a walk under all of their limits. Answers with what is kept of that with each job, in order; NULL:
-- nothing.
--
-- walked: what the claim came to. first: the token of the first start; the others follow.
CREATE OR REPLACE FUNCTION {schema}.take_walked(walked {schema}.walked, first bigint) RETURNS jsonb[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  meter {schema}.limit_meter;
  saved record;
  -- Of each meter: its limit, where in the log its starts are, and whether something is held of it.
  ids bigint[] := '{}';
  entries bigint[] := '{}';
  holds boolean[] := '{}';
  pins boolean[] := '{}';
  kept record;
  answer jsonb[];
BEGIN
  IF walked.use_starts = '{}' THEN
    RETURN array_fill(NULL::jsonb, ARRAY[cardinality(walked.places)]);
  END IF;
  SELECT * INTO saved FROM {schema}.save_accounts(walked.accounts, walked.at);
  FOR i IN 1 .. cardinality(walked.meters) LOOP
    meter := walked.meters[i];
    ids[i] := saved.ids[meter.account];
    entries[i] := saved.entries[meter.account];
    holds[i] := meter.holds;
    pins[i] := meter.pins;
  END LOOP;
  INSERT INTO {schema}.holds (limit_id, token, slots, at)
    SELECT ids[u.meter], first + u.start - 1, CASE WHEN holds[u.meter] THEN u.slots ELSE 0 END, walked.at
    FROM unnest(walked.use_starts, walked.use_meters, walked.use_slots) AS u (start, meter, slots)
    WHERE holds[u.meter] OR pins[u.meter];
  answer := array_fill(NULL::jsonb, ARRAY[cardinality(walked.places)]);
  FOR kept IN
    -- Of limits that share a name the start counts once, for the most that any of them says.
    SELECT u.start, jsonb_agg(CASE WHEN u.weight <> 1 THEN jsonb_build_array(u.id, u.entry, u.weight)
      WHEN u.entry <> 0 THEN jsonb_build_array(u.id, u.entry) ELSE jsonb_build_array(u.id) END ORDER BY u.place) AS limits
    FROM (
      SELECT t.start, ids[t.meter] AS id, entries[t.meter] AS entry, max(t.weight) AS weight, min(t.place) AS place
      FROM unnest(walked.use_starts, walked.use_meters, walked.use_weights) WITH ORDINALITY AS t (start, meter, weight, place)
      GROUP BY 1, 2, 3
    ) u GROUP BY u.start
  LOOP
    answer[kept.start] := kept.limits;
  END LOOP;
  RETURN answer;
END
$$;
`,
  },
  {
    path: "jobs/tell_ended.sql",
    text: `-- Tells how leases ended, in the order of their outcomes. ats, ns: as lock_leases answers; the jobs are active still.
CREATE OR REPLACE FUNCTION {schema}.tell_ended(outcomes json, ats tid[], ns integer[], now float8) RETURNS void
LANGUAGE sql VOLATILE SET enable_hashjoin = on AS $$
  INSERT INTO {schema}.events (at, event)
  SELECT now, CASE
    WHEN o.to IS NULL THEN
      json_build_object('event', 'completed', 'queue', j.queue, 'id', j.id, 'type', j.type, 'attempt', j.attempt)
    WHEN o.to = 'dead' THEN
      json_build_object('event', 'dead', 'queue', j.queue, 'id', j.id, 'type', j.type, 'attempt', j.attempt,
        'error', o.error::json)
    WHEN o.to = 'cancelled' OR j.cancel_requested THEN
      json_build_object('event', 'cancelled', 'queue', j.queue, 'id', j.id, 'type', j.type)
    ELSE
      json_build_object('event', 'retried', 'queue', j.queue, 'id', j.id, 'type', j.type, 'attempt', j.attempt,
        'inMs', o.in_ms, 'error', o.error::json)
    END
  FROM unnest(ats, ns) AS l (at, n)
  JOIN json_to_recordset(outcomes) AS o (n integer, "to" text, in_ms float8, error text) ON o.n = l.n
  JOIN {schema}.jobs j ON j.ctid = l.at
  ORDER BY o.n
$$;
`,
  },
  {
    path: "jobs/waiting_due.sql",
    text: `-- Scheduled jobs of a queue, of this priority or a higher one, that have come due, and that nobody has put in their place yet. Up to
-- 10,000.
--
-- grp: as a lane says it. at: now.
CREATE OR REPLACE FUNCTION {schema}.waiting_due(of_queue text, least_priority float8, at float8)
RETURNS TABLE (type text, priority float8, grp text, due_at float8, seq bigint)
LANGUAGE sql STABLE AS $$
  SELECT d.type, d.priority, coalesce(':' || d.grp, ''), d.due_at, d.seq FROM (
    SELECT j.type, j.priority, j.grp, j.due_at, j.seq FROM {schema}.jobs j
    WHERE j.queue = of_queue AND j.state = 'scheduled' AND j.due_at <= at ORDER BY j.due_at LIMIT 10000
  ) d WHERE d.priority >= least_priority
$$;
`,
  },
  {
    path: "jobs/waiting_grouped.sql",
    text: `-- Jobs of groups that wait in the priority of a job, by type and group: how many; in its own group how many of them come before it;
-- and which is the first of them. Up to 10,000 of each, in up to 10,000 groups: from one group to the next along the index.
--
-- grp: as a lane says it.
CREATE OR REPLACE FUNCTION {schema}.waiting_grouped(own {schema}.jobs)
RETURNS TABLE (type text, grp text, waiting bigint, before bigint, first bigint)
LANGUAGE sql STABLE AS $$
  WITH RECURSIVE types AS MATERIALIZED (
    SELECT t.type FROM unnest({schema}.waiting_types(own.queue)) AS t (type)
  ), groups AS (
    SELECT t.type, n.grp FROM types t CROSS JOIN LATERAL (SELECT j.grp FROM {schema}.jobs j
      WHERE j.queue = own.queue AND j.type = t.type AND j.priority = own.priority AND j.state = 'waiting' AND j.grp IS NOT NULL
      ORDER BY j.grp LIMIT 1) n
    UNION ALL
    SELECT g.type, n.grp FROM groups g CROSS JOIN LATERAL (SELECT j.grp FROM {schema}.jobs j
      WHERE j.queue = own.queue AND j.type = g.type AND j.priority = own.priority AND j.state = 'waiting' AND j.grp IS NOT NULL
        AND j.grp > g.grp
      ORDER BY j.grp LIMIT 1) n
  ), known AS (
    SELECT t.type, own.grp AS grp FROM types t WHERE own.grp IS NOT NULL
    UNION
    SELECT f.type, f.grp FROM (SELECT g.type, g.grp FROM groups g LIMIT 10000) f
  )
  SELECT k.type, ':' || k.grp,
    (SELECT count(*) FROM (SELECT FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = k.type AND j.priority = own.priority
      AND j.state = 'waiting' AND j.grp IS NOT NULL AND j.grp = k.grp LIMIT 10000) w),
    CASE WHEN k.grp = own.grp THEN (SELECT count(*) FROM (SELECT FROM {schema}.jobs j
      WHERE j.queue = own.queue AND j.type = k.type AND j.priority = own.priority AND j.state = 'waiting' AND j.grp IS NOT NULL
        AND j.grp = k.grp AND (j.due_at, j.seq) < (own.due_at, own.seq) LIMIT 10000) b) ELSE 0 END,
    (SELECT j.seq FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = k.type AND j.priority = own.priority
      AND j.state = 'waiting' AND j.grp IS NOT NULL AND j.grp = k.grp ORDER BY j.due_at, j.seq LIMIT 1)
  FROM known k
$$;
`,
  },
  {
    path: "jobs/waiting_groups.sql",
    text: `-- How many jobs of a queue wait, by type and group, as a lane says it. Those that have come due are among them.
CREATE OR REPLACE FUNCTION {schema}.waiting_groups(of_queue text, at float8)
RETURNS TABLE (type text, grp text, waiting bigint)
LANGUAGE sql STABLE AS $$
  SELECT w.type, w.grp, sum(w.n)::bigint FROM (
    SELECT j.type, '' AS grp, count(*) AS n FROM {schema}.jobs j
      WHERE j.queue = of_queue AND j.state = 'waiting' AND j.grp IS NULL GROUP BY j.type
    UNION ALL
    SELECT j.type, ':' || j.grp, count(*) FROM {schema}.jobs j
      WHERE j.queue = of_queue AND j.state = 'waiting' AND j.grp IS NOT NULL GROUP BY j.type, j.grp
    UNION ALL
    SELECT j.type, coalesce(':' || j.grp, ''), count(*) FROM {schema}.jobs j
      WHERE j.queue = of_queue AND j.state = 'scheduled' AND j.due_at <= at GROUP BY j.type, j.grp
  ) w GROUP BY w.type, w.grp
$$;
`,
  },
  {
    path: "jobs/waiting_jobs.sql",
    text: `-- How many jobs wait, by queue and type, of one queue or of all (NULL). Those that have come due are among them, whether or
-- not anybody has claimed since. Along the indexes of what waits: what has ended costs nothing.
CREATE OR REPLACE FUNCTION {schema}.waiting_jobs(only_queue text, at float8)
RETURNS TABLE (queue text, type text, waiting bigint)
LANGUAGE sql STABLE AS $$
  SELECT w.queue, w.type, sum(w.n)::bigint FROM (
    SELECT j.queue, j.type, count(*) AS n FROM {schema}.jobs j
      WHERE j.state = 'waiting' AND j.grp IS NULL AND (only_queue IS NULL OR j.queue = only_queue)
      GROUP BY j.queue, j.type
    UNION ALL
    SELECT j.queue, j.type, count(*) FROM {schema}.jobs j
      WHERE j.state = 'waiting' AND j.grp IS NOT NULL AND (only_queue IS NULL OR j.queue = only_queue)
      GROUP BY j.queue, j.type
    UNION ALL
    SELECT j.queue, j.type, count(*) FROM {schema}.jobs j
      WHERE j.state = 'scheduled' AND j.due_at <= at AND (only_queue IS NULL OR j.queue = only_queue)
      GROUP BY j.queue, j.type
  ) w GROUP BY w.queue, w.type
$$;
`,
  },
  {
    path: "jobs/waiting_open.sql",
    text: `-- Jobs without a group that wait, by type: how many of a higher priority than a job; of its own; of these, how many come before
-- it; and which is the first of them. Up to 10,000 of each.
CREATE OR REPLACE FUNCTION {schema}.waiting_open(own {schema}.jobs)
RETURNS TABLE (type text, higher bigint, waiting bigint, before bigint, first bigint)
LANGUAGE sql STABLE AS $$
  SELECT t.type,
    (SELECT count(*) FROM (SELECT FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = t.type AND j.state = 'waiting'
      AND j.grp IS NULL AND j.priority > own.priority LIMIT 10000) h),
    (SELECT count(*) FROM (SELECT FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = t.type AND j.state = 'waiting'
      AND j.grp IS NULL AND j.priority = own.priority LIMIT 10000) w),
    (SELECT count(*) FROM (SELECT FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = t.type AND j.state = 'waiting'
      AND j.grp IS NULL AND j.priority = own.priority AND (j.due_at, j.seq) < (own.due_at, own.seq)
      LIMIT 10000) b),
    (SELECT j.seq FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = t.type AND j.state = 'waiting'
      AND j.grp IS NULL AND j.priority = own.priority ORDER BY j.due_at, j.seq LIMIT 1)
  FROM unnest({schema}.waiting_types(own.queue)) AS t (type)
$$;
`,
  },
  {
    path: "jobs/waiting_outside.sql",
    text: ``,
  },
  {
    path: "jobs/waiting_types.sql",
    text: `-- The types of a queue of which jobs may wait, in order. From one type to the next along each index, however many jobs or lanes
-- lie between them.
CREATE OR REPLACE FUNCTION {schema}.waiting_types(queue_name text) RETURNS text[]
LANGUAGE sql STABLE AS $$
  WITH RECURSIVE open AS (
    (SELECT type FROM {schema}.jobs WHERE queue = queue_name AND state = 'waiting' AND grp IS NULL
      ORDER BY type LIMIT 1)
    UNION ALL
    SELECT n.type FROM open o CROSS JOIN LATERAL (SELECT j.type FROM {schema}.jobs j
      WHERE j.queue = queue_name AND j.state = 'waiting' AND j.grp IS NULL AND j.type > o.type
      ORDER BY j.type LIMIT 1) n
  ), grouped AS (
    (SELECT type FROM {schema}.jobs WHERE queue = queue_name AND state = 'waiting' AND grp IS NOT NULL
      ORDER BY type LIMIT 1)
    UNION ALL
    SELECT n.type FROM grouped o CROSS JOIN LATERAL (SELECT j.type FROM {schema}.jobs j
      WHERE j.queue = queue_name AND j.state = 'waiting' AND j.grp IS NOT NULL AND j.type > o.type
      ORDER BY j.type LIMIT 1) n
  ), ready AS (
    (SELECT type FROM {schema}.lanes WHERE queue = queue_name AND ready AND blocked_until IS NULL ORDER BY type LIMIT 1)
    UNION ALL
    SELECT n.type FROM ready o CROSS JOIN LATERAL (SELECT l.type FROM {schema}.lanes l
      WHERE l.queue = queue_name AND l.ready AND l.blocked_until IS NULL AND l.type > o.type ORDER BY l.type LIMIT 1) n
  ), blocked AS (
    (SELECT type FROM {schema}.lanes WHERE queue = queue_name AND ready AND blocked_until IS NOT NULL ORDER BY type LIMIT 1)
    UNION ALL
    SELECT n.type FROM blocked o CROSS JOIN LATERAL (SELECT l.type FROM {schema}.lanes l
      WHERE l.queue = queue_name AND l.ready AND l.blocked_until IS NOT NULL AND l.type > o.type ORDER BY l.type LIMIT 1) n
  )
  SELECT coalesce(array_agg(w.type), '{}') FROM (
    SELECT type FROM open UNION SELECT type FROM grouped UNION SELECT type FROM ready UNION SELECT type FROM blocked
    ORDER BY type
  ) w
$$;
`,
  },
  {
    path: "jobs/waiting_weights.sql",
    text: `-- What waiting jobs of a type say that they weigh, by name: which part of them says so, and how much on average. Of the first
-- thousand that are found.
CREATE OR REPLACE FUNCTION {schema}.waiting_weights(of_queue text, of_type text, at float8) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  WITH seen AS MATERIALIZED (
    SELECT f.weights FROM (
      SELECT j.weights FROM {schema}.jobs j
        WHERE j.queue = of_queue AND j.type = of_type AND j.state = 'waiting' AND j.grp IS NULL
      UNION ALL
      SELECT j.weights FROM {schema}.jobs j
        WHERE j.queue = of_queue AND j.type = of_type AND j.state = 'waiting' AND j.grp IS NOT NULL
      UNION ALL
      SELECT j.weights FROM {schema}.jobs j
        WHERE j.queue = of_queue AND j.state = 'scheduled' AND j.due_at <= at AND j.type = of_type
    ) f LIMIT 1000
  ), said AS (
    SELECT w.key, w.value::text::float8 AS weight
    FROM seen s, jsonb_each(CASE WHEN jsonb_typeof(s.weights) = 'object' THEN s.weights END) w
    WHERE jsonb_typeof(w.value) = 'number'
  )
  SELECT coalesce(jsonb_object_agg(t.key, jsonb_build_object(
      'part', t.count / (SELECT count(*) FROM seen)::float8, 'mean', t.sum / t.count)), '{}')
    FROM (SELECT key, sum(weight) AS sum, count(*)::float8 AS count FROM said GROUP BY key) t
$$;
`,
  },
  {
    path: "jobs/walk.sql",
    text: `-- Which jobs a claim starts, and what is in the way of others: the walk of storage/walk.ts over lanes, asking as in
-- storage/under-limits.ts. By priority, then by turns, then as they came due, each with all of its limits or not at all; what a
-- limit keeps back is passed over whole. Lanes, first jobs and limits are read together, as many as may be needed, and walked
-- over in lists; nothing is written.
--
-- queue_name: of which queue. asked: the types that the claim asks for; NULL: any. types: those of them that may start.
-- all_rules: what they run under. want: how many may start. without: jobs that cannot be had. now_at: now.
CREATE OR REPLACE FUNCTION {schema}.walk(
  queue_name text, asked text[], types text[], all_rules {schema}.limit_rule[], want integer, without bigint[], now_at float8
) RETURNS {schema}.walked
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- So many lanes are blocked, and jobs refused for good, before a claim ends: then another one goes on.
  patience CONSTANT integer := 1000;
  page CONSTANT integer := 1000;
  -- Turns of this claim come after all others.
  later CONSTANT bigint := 4000000000000000000;
  forever CONSTANT float8 := 'Infinity';
  done {schema}.walked;
  now float8 := now_at;
  started integer := 0;
  vain integer := 0;
  -- Rules: those for all, then those by group. Which apply to which type; where they weigh, by what.
  for_all {schema}.limit_rule[] := '{}';
  by_group {schema}.limit_rule[] := '{}';
  rules {schema}.limit_rule[];
  rule {schema}.limit_rule;
  rule_count integer;
  all_count integer;
  group_count integer;
  applies boolean[] := '{}';
  weighs text[] := '{}';
  shares boolean := false;
  -- Types: may they be taken from? Of their lines: which part was read last, where it stands, and whether there is more.
  type_count integer := cardinality(types);
  t_open boolean[] := '{}';
  t_at integer[] := '{}';
  t_end integer[] := '{}';
  t_read integer[] := '{}';
  t_whole boolean[] := '{}';
  t_ready integer[] := '{}';
  t_blocked float8[] := '{}';
  t_blocked_by integer[] := '{}';
  t_closed float8[] := '{}';
  t_closed_by integer[] := '{}';
  closed integer[] := '{}';
  blocked integer[] := '{}';
  look integer[] := '{}';
  need integer[] := '{}';
  line integer[] := '{}';
  line_count integer := 0;
  -- Lanes, those of a unit side by side.
  lane_count integer := 0;
  l_id bigint[] := '{}';
  l_type integer[] := '{}';
  l_priority float8[] := '{}';
  l_grp text[] := '{}';
  l_turn bigint[] := '{}';
  l_ready boolean[] := '{}';
  l_moved boolean[] := '{}';
  l_unit integer[] := '{}';
  l_heavy bigint[] := '{}';
  l_by text[] := '{}';
  l_since float8[] := '{}';
  l_gave boolean[] := '{}';
  l_first integer[] := '{}';
  l_last integer[] := '{}';
  l_whole boolean[] := '{}';
  l_looked boolean[] := '{}';
  known integer := 0;
  unit_count integer := 0;
  u_from integer[] := '{}';
  u_to integer[] := '{}';
  u_served integer[] := '{}';
  u_turn integer[] := '{}';
  u_touched boolean[] := '{}';
  u_group integer[] := '{}';
  groups text[] := '{}';
  family integer[];
  new_groups text[];
  -- Lanes that had their turn in this claim, by priority, in order.
  served_count integer := 0;
  s_lane integer[] := '{}';
  s_turn bigint[] := '{}';
  s_next integer[] := '{}';
  level_count integer := 0;
  v_priority float8[] := '{}';
  v_first integer[] := '{}';
  v_last integer[] := '{}';
  v_at integer[] := '{}';
  -- Jobs that were read, those of a lane side by side.
  j_seq bigint[] := '{}';
  j_due float8[] := '{}';
  j_place tid[] := '{}';
  j_weights jsonb[] := '{}';
  job_count integer := 0;
  read_lane integer[];
  read_seq bigint[];
  read_due float8[];
  read_place tid[];
  read_weights jsonb[];
  batch integer[];
  batch_types text[];
  batch_priorities float8[];
  batch_grps text[];
  batch_due float8[];
  batch_seq bigint[];
  -- Limits, and the heavy ones that wait for them.
  meters {schema}.limit_meter[] := '{}';
  accounts {schema}.limit_account[] := '{}';
  opened record;
  m_closed float8[] := '{}';
  -- Where only numbers matter: how much fits, what is used and held of that.
  meter_count integer := 0;
  m_plain boolean[] := '{}';
  m_account integer[] := '{}';
  m_max float8[] := '{}';
  m_used float8[] := '{}';
  m_slots float8[] := '{}';
  a_taken float8[] := '{}';
  a_held float8[] := '{}';
  heavy_count integer := 0;
  m_heavy integer[] := '{}';
  h_next integer[] := '{}';
  h_lane bigint[] := '{}';
  h_priority float8[] := '{}';
  h_until float8[] := '{}';
  h_since float8[] := '{}';
  -- What comes of it (see the type).
  d_places tid[] := '{}';
  d_seqs bigint[] := '{}';
  d_use_starts integer[] := '{}';
  d_use_meters integer[] := '{}';
  d_use_weights float8[] := '{}';
  d_use_slots float8[] := '{}';
  d_lanes bigint[] := '{}';
  d_turns integer[] := '{}';
  d_served integer[] := '{}';
  d_gave boolean[] := '{}';
  d_emptied bigint[] := '{}';
  d_blocked bigint[] := '{}';
  d_blocked_waits float8[] := '{}';
  d_blocked_names text[] := '{}';
  d_blocked_heavy bigint[] := '{}';
  d_refused tid[] := '{}';
  d_refused_seqs bigint[] := '{}';
  d_refused_meters integer[] := '{}';
  d_refused_weights float8[] := '{}';
  d_freed_names text[] := '{}';
  d_freed_grps text[] := '{}';
  -- What is asked.
  closing integer := 0;
  first integer;
  lane integer;
  other integer;
  unit integer;
  head integer;
  kind integer;
  at integer;
  m integer;
  place integer;
  one record;
  meter {schema}.limit_meter;
  account {schema}.limit_account;
  weight float8;
  slots float8;
  c_weight float8[] := '{}';
  c_slots float8[] := '{}';
  own float8;
  since float8;
  longest float8;
  keeper integer;
  by_weight float8;
  by_slots float8;
  never boolean;
  share integer;
  room float8;
  still integer;
  count integer;
  best_wait float8;
  best_by integer;
BEGIN
  FOREACH rule IN ARRAY all_rules LOOP
    IF rule.by_group THEN
      by_group := by_group || rule;
      shares := shares OR rule.groups IS NOT NULL;
    ELSE
      for_all := for_all || rule;
    END IF;
  END LOOP;
  rules := for_all || by_group;
  all_count := cardinality(for_all);
  group_count := cardinality(by_group);
  rule_count := all_count + group_count;
  FOR k IN 1 .. type_count LOOP
    t_open[k] := true;
    t_at[k] := 1;
    t_end[k] := 0;
    t_read[k] := 0;
    t_whole[k] := false;
    t_ready[k] := 0;
    look := look || k;
    FOR r IN 1 .. rule_count LOOP
      applies[(k - 1) * rule_count + r] := (rules[r]).types IS NULL OR types[k] = ANY ((rules[r]).types);
    END LOOP;
  END LOOP;
  FOR r IN 1 .. rule_count LOOP
    weighs[r] := (rules[r]).weight;
  END LOOP;
  IF all_count > 0 THEN
    SELECT * INTO opened FROM {schema}.meters_for_all(for_all, now);
    now := opened.at;
    meters := opened.meters;
    accounts := opened.accounts;
    FOR r IN 1 .. all_count LOOP
      CONTINUE WHEN weighs[r] IS NULL;
      FOR one IN SELECT * FROM {schema}.heavy_heads((rules[r]).name, NULL, now) LOOP
        heavy_count := heavy_count + 1;
        h_next[heavy_count] := coalesce(m_heavy[r], 0);
        m_heavy[r] := heavy_count;
        h_lane[heavy_count] := one.lane;
        h_priority[heavy_count] := one.priority;
        h_until[heavy_count] := one.until;
        h_since[heavy_count] := one.since;
      END LOOP;
    END LOOP;
  END IF;
  best_wait := forever;

  <<walking>>
  LOOP
    -- More lanes, where those that were read are used up: one more than can start, to see whether anything is left; more, if
    -- those before have all been in vain.
    IF cardinality(need) > 0 THEN
      family := '{}';
      new_groups := '{}';
      at := unit_count;
      DECLARE
        page_types text[] := '{}';
        page_counts integer[] := '{}';
        page_places integer[] := '{}';
        page_at integer[] := '{}';
        p_id bigint[];
        p_type integer[];
        p_priority float8[];
        p_grp text[];
        p_turn bigint[];
        p_ready boolean[];
        p_unit integer[];
        p_heavy bigint[];
        p_by text[];
        p_since float8[];
        p_served integer[];
        p_family integer[];
        p_line integer[];
        p_rank integer[];
        known_groups jsonb := '{}';
      BEGIN
        FOR k IN 1 .. cardinality(need) LOOP
          kind := need[k];
          room := want - started;
          FOR r IN 1 .. all_count LOOP
            IF applies[(kind - 1) * rule_count + r] THEN
              room := least(room, {schema}.free_of(meters[r], accounts[(meters[r]).account], now));
            END IF;
          END LOOP;
          page_types[k] := types[kind];
          page_counts[k] := least(page, greatest(t_read[kind], ceil(room) + 1));
          page_places[k] := t_read[kind];
          page_at[k] := line_count;
          t_at[kind] := line_count + 1;
          t_end[kind] := line_count;
          line_count := line_count + page_counts[k];
        END LOOP;
        SELECT array_agg(p.id), array_agg(coalesce(array_position(types, p.type), 0)), array_agg(p.priority), array_agg(p.grp),
            array_agg(p.turn), array_agg(p.ready AND NOT p.blocked AND p.type = ANY (types)), array_agg((at + p.unit)::integer),
            array_agg(p.heavy), array_agg(p.heavy_by), array_agg(p.heavy_since), array_agg(p.served),
            array_agg(p.family::integer), array_agg(p.line), array_agg(p.rank::integer), count(p.unit), count(*)
          INTO p_id, p_type, p_priority, p_grp, p_turn, p_ready, p_unit, p_heavy, p_by, p_since, p_served, p_family, p_line,
            p_rank, count, place
          FROM {schema}.walk_page(queue_name, asked, page_types, page_counts, page_places, l_id) AS p;
        IF group_count > 0 AND at > 0 THEN
          SELECT jsonb_object_agg(g.grp, g.place) INTO known_groups FROM unnest(groups) WITH ORDINALITY AS g (grp, place);
        END IF;
        -- Those that were read before come last.
        l_id := l_id || p_id[1 : count];
        l_type := l_type || p_type[1 : count];
        l_priority := l_priority || p_priority[1 : count];
        l_grp := l_grp || p_grp[1 : count];
        l_turn := l_turn || p_turn[1 : count];
        l_ready := l_ready || p_ready[1 : count];
        l_unit := l_unit || p_unit[1 : count];
        l_heavy := l_heavy || p_heavy[1 : count];
        l_by := l_by || p_by[1 : count];
        l_since := l_since || p_since[1 : count];
        l_moved := l_moved || array_fill(false, ARRAY[count]);
        l_gave := l_gave || array_fill(false, ARRAY[count]);
        l_whole := l_whole || array_fill(false, ARRAY[count]);
        l_looked := l_looked || array_fill(false, ARRAY[count]);
        l_first := l_first || array_fill(1, ARRAY[count]);
        l_last := l_last || array_fill(0, ARRAY[count]);
        FOR k IN 1 .. place LOOP
          IF k > count THEN
            lane := array_position(l_id, p_id[k]);
          ELSE
            lane_count := lane_count + 1;
            lane := lane_count;
            unit := p_unit[k];
            IF unit > unit_count THEN
              unit_count := unit;
              u_from[unit] := lane;
              u_served[unit] := p_served[k];
              u_touched[unit] := false;
              u_turn[unit] := 0;
              IF group_count > 0 THEN
                other := family[p_family[k]];
                IF other IS NULL THEN
                  other := (known_groups ->> p_grp[k])::integer;
                  IF other IS NULL THEN
                    other := cardinality(groups) + 1;
                    groups[other] := p_grp[k];
                    new_groups := new_groups || p_grp[k];
                  END IF;
                  family[p_family[k]] := other;
                END IF;
                u_group[unit] := other;
              END IF;
            ELSIF p_served[k] > u_served[unit] THEN
              u_served[unit] := p_served[k];
            END IF;
            u_to[unit] := lane;
            IF p_ready[k] THEN
              known := known + 1;
              kind := p_type[k];
              t_ready[kind] := t_ready[kind] + 1;
            END IF;
          END IF;
          IF p_line[k] IS NOT NULL THEN
            other := p_line[k];
            line[page_at[other] + p_rank[k]] := lane;
            t_end[need[other]] := greatest(t_end[need[other]], page_at[other] + p_rank[k]);
          END IF;
        END LOOP;
        FOR k IN 1 .. cardinality(need) LOOP
          kind := need[k];
          t_read[kind] := t_read[kind] + t_end[kind] - page_at[k];
          t_whole[kind] := t_end[kind] - page_at[k] < page_counts[k];
        END LOOP;
      END;
      need := '{}';
      IF group_count > 0 AND cardinality(new_groups) > 0 THEN
        SELECT * INTO opened FROM {schema}.walk_meters(by_group, new_groups, now);
        now := opened.at;
        place := cardinality(accounts);
        FOR k IN 1 .. cardinality(opened.meters) LOOP
          meter := opened.meters[k];
          meter.account := meter.account + place;
          meters := meters || meter;
        END LOOP;
        accounts := accounts || opened.accounts;
        FOR r IN all_count + 1 .. rule_count LOOP
          CONTINUE WHEN weighs[r] IS NULL;
          FOR one IN SELECT * FROM {schema}.heavy_heads((rules[r]).name, new_groups, now) LOOP
            heavy_count := heavy_count + 1;
            m := r + (array_position(groups, one.grp) - 1) * group_count;
            h_next[heavy_count] := coalesce(m_heavy[m], 0);
            m_heavy[m] := heavy_count;
            h_lane[heavy_count] := one.lane;
            h_priority[heavy_count] := one.priority;
            h_until[heavy_count] := one.until;
            h_since[heavy_count] := one.since;
          END LOOP;
        END LOOP;
      END IF;
    END IF;

    FOR k IN meter_count + 1 .. cardinality(meters) LOOP
      meter := meters[k];
      account := accounts[meter.account];
      m_closed[k] := 0;
      m_account[k] := meter.account;
      m_used[k] := meter.used;
      m_max[k] := CASE WHEN meter.max IS NULL OR meter.window_ms IS NULL THEN forever WHEN meter.max = 0 THEN -1
        ELSE meter.max END;
      m_slots[k] := coalesce(meter.concurrency, forever);
      m_plain[k] := NOT meter.paused AND meter.every_ms IS NULL AND coalesce(meter.held_until <= now, true)
        AND coalesce(account.pause_until <= now, true) AND coalesce(account.told_until <= now, true)
        AND (meter.probes IS NULL OR account.open_until IS NULL) AND (meter.window_ms IS NULL OR (
          coalesce(meter.blind_until <= now, true) AND coalesce(now - account.forgotten_at >= meter.window_ms, true)));
      a_taken[meter.account] := account.taken;
      a_held[meter.account] := coalesce(account.held, 0);
    END LOOP;
    meter_count := cardinality(meters);

    -- The lane that speaks for the unit whose turn it is: the one that was served the longest ago.
    first := 0;
    IF vain < patience THEN
      FOREACH kind IN ARRAY look LOOP
        CONTINUE WHEN NOT t_open[kind];
        at := t_at[kind];
        WHILE at <= t_end[kind] LOOP
          lane := line[at];
          EXIT WHEN l_ready[lane] AND NOT l_moved[lane];
          at := at + 1;
        END LOOP;
        t_at[kind] := at;
        IF at > t_end[kind] THEN
          IF NOT t_whole[kind] THEN
            need := need || kind;
          ELSIF t_ready[kind] = 0 THEN
            t_open[kind] := false;
          END IF;
        ELSIF first = 0 OR l_priority[lane] > l_priority[first] OR (l_priority[lane] = l_priority[first]
          AND (l_turn[lane] < l_turn[first] OR (l_turn[lane] = l_turn[first] AND l_id[lane] < l_id[first]))) THEN
          first := lane;
        END IF;
      END LOOP;
      CONTINUE walking WHEN cardinality(need) > 0;
      FOR k IN 1 .. level_count LOOP
        at := v_at[k];
        WHILE at <> 0 LOOP
          lane := s_lane[at];
          EXIT WHEN l_ready[lane] AND l_turn[lane] = s_turn[at] AND t_open[l_type[lane]];
          at := s_next[at];
        END LOOP;
        v_at[k] := at;
        IF at <> 0 AND (first = 0 OR l_priority[lane] > l_priority[first] OR (l_priority[lane] = l_priority[first]
          AND (l_turn[lane] < l_turn[first] OR (l_turn[lane] = l_turn[first] AND l_id[lane] < l_id[first])))) THEN
          first := lane;
        END IF;
      END LOOP;
    END IF;

    -- Nothing starts any more: what was taken since a job was refused may keep it back for longer. So the first of each type
    -- that is closed is asked again.
    IF first = 0 THEN
      EXIT walking WHEN vain >= patience;
      closing := closing + 1;
      EXIT walking WHEN closing > cardinality(closed);
      t_open := array_fill(false, ARRAY[type_count]);
      t_open[closed[closing]] := true;
      look := ARRAY[closed[closing]];
      v_at := v_first;
      CONTINUE walking;
    END IF;

    -- Of the lanes of the unit the one whose first job came due first.
    lane := 0;
    unit := l_unit[first];
    FOR own_lane IN u_from[unit] .. u_to[unit] LOOP
      CONTINUE WHEN NOT l_ready[own_lane] OR NOT t_open[l_type[own_lane]];
      IF l_first[own_lane] > l_last[own_lane] AND NOT l_whole[own_lane] THEN
        -- Jobs of this lane are read; where many lanes will give one each, the first of all those.
        kind := l_type[own_lane];
        room := want - started;
        FOR r IN 1 .. all_count LOOP
          IF applies[(kind - 1) * rule_count + r] THEN
            room := least(room, {schema}.free_of(meters[r], accounts[(meters[r]).account], now));
          END IF;
        END LOOP;
        still := ceil(room) + 1;
        share := ceil(still / greatest(1, known)::float8);
        batch := ARRAY[own_lane];
        count := least(page, share + 1);
        IF l_grp[own_lane] = '' THEN
          SELECT array_agg(own_lane), array_agg(h.seq), array_agg(h.due_at), array_agg(h.place), array_agg(h.weights)
            INTO read_lane, read_seq, read_due, read_place, read_weights FROM (
              SELECT j.seq, j.due_at, j.ctid AS place, j.weights FROM {schema}.jobs j
              WHERE j.queue = queue_name AND j.type = types[kind] AND j.priority = l_priority[own_lane]
                AND j.state = 'waiting' AND j.grp IS NULL
                AND (j.due_at, j.seq) > (CASE WHEN l_last[own_lane] = 0 THEN '-Infinity' ELSE j_due[l_last[own_lane]] END,
                  CASE WHEN l_last[own_lane] = 0 THEN 0 ELSE j_seq[l_last[own_lane]] END)
                AND (j.deadline IS NULL OR j.deadline > now) AND j.seq <> ALL (without)
              ORDER BY j.due_at, j.seq LIMIT count FOR UPDATE SKIP LOCKED
            ) h;
        ELSE
          IF NOT l_looked[own_lane] AND share = 1 AND still > 1 THEN
            at := t_at[kind];
            WHILE at <= t_end[kind] AND cardinality(batch) < still LOOP
              FOR sibling IN u_from[l_unit[line[at]]] .. u_to[l_unit[line[at]]] LOOP
                IF l_ready[sibling] AND NOT l_looked[sibling] AND sibling <> own_lane AND l_grp[sibling] <> '' THEN
                  batch := batch || sibling;
                END IF;
              END LOOP;
              at := at + 1;
            END LOOP;
          END IF;
          batch_types := '{}';
          batch_priorities := '{}';
          batch_grps := '{}';
          batch_due := '{}';
          batch_seq := '{}';
          FOREACH other IN ARRAY batch LOOP
            batch_types := batch_types || types[l_type[other]];
            batch_priorities := batch_priorities || l_priority[other];
            batch_grps := batch_grps || substr(l_grp[other], 2);
            IF l_last[other] = 0 THEN
              batch_due := batch_due || '-Infinity'::float8;
              batch_seq := batch_seq || 0::bigint;
            ELSE
              batch_due := batch_due || j_due[l_last[other]];
              batch_seq := batch_seq || j_seq[l_last[other]];
            END IF;
          END LOOP;
          SELECT array_agg(h.lane), array_agg(h.seq), array_agg(h.due_at), array_agg(h.place), array_agg(h.weights)
            INTO read_lane, read_seq, read_due, read_place, read_weights FROM (
              SELECT b.lane, j.seq, j.due_at, j.place, j.weights
              FROM unnest(batch, batch_types, batch_priorities, batch_grps, batch_due, batch_seq) WITH ORDINALITY
                AS b (lane, type, priority, grp, due_at, seq, place)
              CROSS JOIN LATERAL (
                SELECT w.seq, w.due_at, w.ctid AS place, w.weights FROM {schema}.jobs w
                WHERE w.queue = queue_name AND w.type = b.type AND w.priority = b.priority AND w.state = 'waiting'
                  AND w.grp IS NOT NULL AND w.grp = b.grp AND (w.due_at, w.seq) > (b.due_at, b.seq)
                  AND (w.deadline IS NULL OR w.deadline > now) AND w.seq <> ALL (without)
                ORDER BY w.due_at, w.seq LIMIT count FOR UPDATE SKIP LOCKED
              ) j ORDER BY b.place, j.due_at, j.seq
            ) h;
        END IF;
        FOREACH other IN ARRAY batch LOOP
          l_looked[other] := true;
          l_first[other] := job_count + 1;
          l_last[other] := job_count;
        END LOOP;
        IF read_seq IS NOT NULL THEN
          FOR k IN 1 .. cardinality(read_seq) LOOP
            other := read_lane[k];
            IF l_last[other] < l_first[other] THEN
              l_first[other] := job_count + k;
            END IF;
            l_last[other] := job_count + k;
          END LOOP;
          j_seq := j_seq || read_seq;
          j_due := j_due || read_due;
          j_place := j_place || read_place;
          j_weights := j_weights || read_weights;
          job_count := job_count + cardinality(read_seq);
        END IF;
        FOREACH other IN ARRAY batch LOOP
          l_whole[other] := l_last[other] - l_first[other] + 1 < count;
          IF l_last[other] < l_first[other] THEN
            l_ready[other] := false;
            known := known - 1;
            t_ready[l_type[other]] := t_ready[l_type[other]] - 1;
            d_emptied := d_emptied || l_id[other];
          END IF;
        END LOOP;
      END IF;
      CONTINUE WHEN NOT l_ready[own_lane];
      IF lane = 0 OR j_due[l_first[own_lane]] < j_due[head]
        OR (j_due[l_first[own_lane]] = j_due[head] AND j_seq[l_first[own_lane]] < j_seq[head]) THEN
        lane := own_lane;
        head := l_first[own_lane];
      END IF;
    END LOOP;
    CONTINUE walking WHEN lane = 0;

    -- May it start? If not, what is in its way the longest.
    kind := l_type[lane];
    longest := 0;
    keeper := 0;
    never := false;
    FOR r IN 1 .. rule_count LOOP
      CONTINUE WHEN NOT applies[(kind - 1) * rule_count + r];
      m := CASE WHEN r <= all_count THEN r ELSE r + (u_group[unit] - 1) * group_count END;
      weight := 1;
      slots := 1;
      IF weighs[r] IS NOT NULL THEN
        own := coalesce((j_weights[head] ->> weighs[r])::float8, (rules[r]).estimate);
        IF (rules[r]).max IS NOT NULL THEN
          weight := own;
        ELSE
          slots := own;
        END IF;
      END IF;
      c_weight[r] := weight;
      c_slots[r] := slots;
      -- Whatever is not a matter of numbers is not in the way, and the numbers leave room: most questions end here.
      IF m_plain[m] AND m_used[m] + a_taken[m_account[m]] + weight <= m_max[m] AND a_held[m_account[m]] + slots <= m_slots[m] THEN
        own := 0;
      ELSE
        own := {schema}.limit_wait(meters[m], accounts[m_account[m]], weight, slots, now);
      END IF;
      IF own = -1 THEN
        keeper := m;
        by_weight := weight;
        by_slots := slots;
        never := true;
        EXIT;
      END IF;
      IF heavy_count > 0 AND weighs[r] IS NOT NULL THEN
        -- A light one would fit now and then for ever, while a heavy one waits.
        since := CASE WHEN j_seq[head] = l_heavy[lane] AND l_by[lane] = (rules[r]).name THEN coalesce(l_since[lane], 0)
          ELSE forever END;
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
      -- Types are closed as a whole; those of a group are met here.
      IF r > all_count THEN
        own := greatest(own, m_closed[m]);
      END IF;
      IF own > longest THEN
        longest := own;
        keeper := m;
        by_weight := weight;
        by_slots := slots;
      END IF;
    END LOOP;

    IF keeper = 0 AND (closing > 0 OR started >= want) THEN
      IF closing = 0 THEN
        done.more := true;
        EXIT walking;
      END IF;
      -- It could start, but for what closed its type.
      IF best_by IS NULL OR t_closed[kind] < best_wait THEN
        best_wait := t_closed[kind];
        best_by := t_closed_by[kind];
      END IF;
      t_open[kind] := false;
      CONTINUE walking;
    END IF;

    IF keeper = 0 OR never THEN
      -- It leaves its lane: it starts, or can never.
      l_first[lane] := head + 1;
      IF l_first[lane] > l_last[lane] AND l_whole[lane] THEN
        l_ready[lane] := false;
        known := known - 1;
        t_ready[kind] := t_ready[kind] - 1;
        d_emptied := d_emptied || l_id[lane];
      END IF;
      IF never THEN
        vain := vain + 1;
        d_refused := d_refused || j_place[head];
        d_refused_seqs := d_refused_seqs || j_seq[head];
        d_refused_meters := d_refused_meters || keeper;
        d_refused_weights := d_refused_weights || CASE WHEN (meters[keeper]).weighs_window THEN by_weight ELSE by_slots END;
        CONTINUE walking;
      END IF;
      started := started + 1;
      d_places := d_places || j_place[head];
      d_seqs := d_seqs || j_seq[head];
      IF j_seq[head] = l_heavy[lane] AND l_by[lane] IS NOT NULL THEN
        d_freed_names := d_freed_names || l_by[lane];
        d_freed_grps := d_freed_grps || l_grp[lane];
      END IF;
      share := 1;
      FOR r IN 1 .. rule_count LOOP
        CONTINUE WHEN NOT applies[(kind - 1) * rule_count + r];
        m := CASE WHEN r <= all_count THEN r ELSE r + (u_group[unit] - 1) * group_count END;
        meter := meters[m];
        at := meter.account;
        -- As in limits/account_take.sql.
        account := accounts[at];
        own := c_weight[r];
        IF account.latest = started THEN
          own := greatest(0, own - account.charged);
          account.charged := account.charged + own;
        ELSE
          account.latest := started;
          account.charged := own;
          account.starts := account.starts + 1;
        END IF;
        account.taken := account.taken + own;
        account.latest_at := greatest(account.latest_at, now);
        IF account.told_left IS NOT NULL THEN
          account.told_left := greatest(0, account.told_left - own);
        END IF;
        IF meter.holds THEN
          account.held := account.held + c_slots[r];
          account.probes := account.probes + 1;
          account.job_slots := account.job_slots + c_slots[r];
        END IF;
        accounts[at] := account;
        a_taken[at] := account.taken;
        a_held[at] := coalesce(account.held, 0);
        d_use_starts := d_use_starts || started;
        d_use_meters := d_use_meters || m;
        d_use_weights := d_use_weights || c_weight[r];
        d_use_slots := d_use_slots || c_slots[r];
        share := greatest(share, meter.share);
      END LOOP;
      l_gave[lane] := true;
      u_touched[unit] := true;
      u_served[unit] := u_served[unit] + 1;
      CONTINUE walking WHEN shares AND u_served[unit] < share;
      u_served[unit] := 0;
      u_turn[unit] := started;
      FOR own_lane IN u_from[unit] .. u_to[unit] LOOP
        l_turn[own_lane] := later + started;
        l_moved[own_lane] := true;
        CONTINUE WHEN NOT l_ready[own_lane];
        served_count := served_count + 1;
        s_lane[served_count] := own_lane;
        s_turn[served_count] := l_turn[own_lane];
        s_next[served_count] := 0;
        place := array_position(v_priority, l_priority[own_lane]);
        IF place IS NULL THEN
          level_count := level_count + 1;
          v_priority[level_count] := l_priority[own_lane];
          v_first[level_count] := served_count;
          v_at[level_count] := served_count;
        ELSE
          s_next[v_last[place]] := served_count;
          IF v_at[place] = 0 THEN
            v_at[place] := served_count;
          END IF;
        END IF;
        v_last[coalesce(place, level_count)] := served_count;
      END LOOP;
      CONTINUE walking;
    END IF;

    meter := meters[keeper];
    IF meter.by_group AND NOT meter.paused THEN
      vain := vain + 1;
    ELSIF closing > 0 THEN
      IF best_by IS NULL OR longest < best_wait THEN
        best_wait := longest;
        best_by := keeper;
      END IF;
      t_open[kind] := false;
      CONTINUE walking;
    END IF;
    -- The lane is blocked where only its group is in the way; and one that is too heavy is remembered, so that others who claim
    -- do not take what it waits for. Might a lighter one start before it? Who waits for something to be given back may wait
    -- for more than others do.
    IF (meter.by_group AND NOT meter.paused) OR (meter.weight IS NOT NULL AND NOT meter.paused AND (
      {schema}.limit_wait(meter, accounts[meter.account], 1, 1, now) <> longest
      OR (longest = forever AND greatest(by_weight, by_slots) > 1))) THEN
      l_ready[lane] := false;
      known := known - 1;
      t_ready[kind] := t_ready[kind] - 1;
      d_blocked := d_blocked || l_id[lane];
      d_blocked_waits := d_blocked_waits || longest;
      d_blocked_names := d_blocked_names || meter.name;
      -- Those who only wait behind a heavy one are not too heavy themselves.
      d_blocked_heavy := d_blocked_heavy || CASE WHEN meter.weight IS NOT NULL
        AND {schema}.limit_wait(meter, accounts[meter.account], by_weight, by_slots, now) > 0 THEN j_seq[head] END;
      m_closed[keeper] := longest;
      IF t_blocked[kind] IS NULL THEN
        blocked := blocked || kind;
      END IF;
      IF t_blocked[kind] IS NULL OR longest < t_blocked[kind] THEN
        t_blocked[kind] := longest;
        t_blocked_by[kind] := keeper;
      END IF;
    END IF;
    CONTINUE walking WHEN meter.by_group AND NOT meter.paused;
    rule := rules[CASE WHEN keeper <= all_count THEN keeper ELSE all_count + 1 + (keeper - all_count - 1) % group_count END];
    FOR k IN 1 .. type_count LOOP
      IF t_open[k] AND (rule.types IS NULL OR types[k] = ANY (rule.types)) THEN
        t_open[k] := false;
        t_closed[k] := longest;
        t_closed_by[k] := keeper;
        closed := closed || k;
      END IF;
    END LOOP;
  END LOOP walking;

  done.more := coalesce(done.more, vain >= patience);
  IF done.more AND vain < patience THEN
    -- Somebody could start at once: the first of all that keep others back is told as it was.
    FOREACH kind IN ARRAY closed LOOP
      IF best_by IS NULL OR t_closed[kind] < best_wait THEN
        best_wait := t_closed[kind];
        best_by := t_closed_by[kind];
      END IF;
    END LOOP;
  END IF;
  FOREACH kind IN ARRAY blocked LOOP
    own := t_blocked[kind];
    m := t_blocked_by[kind];
    IF NOT (done.more AND vain < patience) THEN
      FOR r IN 1 .. all_count LOOP
        CONTINUE WHEN NOT applies[(kind - 1) * rule_count + r];
        since := {schema}.limit_wait(meters[r], accounts[(meters[r]).account], 1, 1, now);
        IF since > own THEN
          own := since;
          m := r;
        END IF;
      END LOOP;
    END IF;
    IF best_by IS NULL OR own < best_wait THEN
      best_wait := own;
      best_by := m;
    END IF;
  END LOOP;
  done.at := now;
  done.next_in := best_wait;
  IF best_by IS NOT NULL THEN
    meter := meters[best_by];
    done.blocked_by := meter.name || CASE WHEN meter.by_group AND meter.grp IS NOT NULL THEN '[' || meter.grp || ']' ELSE '' END;
  END IF;
  done.meters := meters;
  done.accounts := accounts;
  FOR k IN 1 .. unit_count LOOP
    CONTINUE WHEN NOT u_touched[k];
    FOR own_lane IN u_from[k] .. u_to[k] LOOP
      d_lanes := d_lanes || l_id[own_lane];
      d_turns := d_turns || u_turn[k];
      d_served := d_served || u_served[k];
      d_gave := d_gave || l_gave[own_lane];
    END LOOP;
  END LOOP;
  done.places := d_places;
  done.seqs := d_seqs;
  done.use_starts := d_use_starts;
  done.use_meters := d_use_meters;
  done.use_weights := d_use_weights;
  done.use_slots := d_use_slots;
  done.lanes := d_lanes;
  done.turns := d_turns;
  done.served := d_served;
  done.gave := d_gave;
  done.emptied := d_emptied;
  done.blocked := d_blocked;
  done.blocked_waits := d_blocked_waits;
  done.blocked_names := d_blocked_names;
  done.blocked_heavy := d_blocked_heavy;
  done.refused := d_refused;
  done.refused_seqs := d_refused_seqs;
  done.refused_meters := d_refused_meters;
  done.refused_weights := d_refused_weights;
  done.freed_names := d_freed_names;
  done.freed_grps := d_freed_grps;
  RETURN done;
END
$$;
`,
  },
  {
    path: "jobs/walk_meters.sql",
    text: `-- The rules of a claim as they hold for these groups, and what is kept of them: for each group one meter of each rule, in order,
-- with an account of its own. All of them are read together. \`at\`: not before any start that is known.
--
-- rules: which, all by group. grps: of which groups, as lanes say it. at: now.
CREATE OR REPLACE FUNCTION {schema}.walk_meters(
  rules {schema}.limit_rule[], grps text[], INOUT at float8, OUT meters {schema}.limit_meter[],
  OUT accounts {schema}.limit_account[]
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  rule {schema}.limit_rule;
  meter {schema}.limit_meter;
  -- As it holds for groups of which nothing else is said.
  plain {schema}.limit_meter[] := '{}';
  names text[] := '{}';
  states text[] := '{}';
  windows float8[] := '{}';
  holding boolean[] := '{}';
  used float8[];
  latest float8;
  place integer := 0;
  grp text;
BEGIN
  meters := '{}';
  FOREACH rule IN ARRAY rules LOOP
    plain := plain || {schema}.meter_of(rule, NULL);
  END LOOP;
  FOREACH grp IN ARRAY grps LOOP
    FOR r IN 1 .. cardinality(rules) LOOP
      place := place + 1;
      meter := plain[r];
      IF grp <> '' THEN
        IF (rules[r]).groups ? substr(grp, 2) THEN
          meter := {schema}.meter_of(rules[r], substr(grp, 2));
        ELSE
          meter.grp := substr(grp, 2);
        END IF;
      END IF;
      meter.account := place;
      meters[place] := meter;
      names[place] := meter.name;
      states[place] := CASE WHEN grp = '' THEN '-' ELSE grp END;
      windows[place] := CASE WHEN meter.max IS NOT NULL THEN meter.window_ms END;
      holding[place] := meter.holds;
    END LOOP;
  END LOOP;
  LOOP
    SELECT array_agg(k.account ORDER BY k.place), array_agg(k.used ORDER BY k.place), max(k.latest)
      INTO accounts, used, latest FROM {schema}.kept_accounts(names, states, windows, holding, at) AS k;
    EXIT WHEN latest IS NULL OR latest <= at;
    at := latest;
  END LOOP;
  FOR i IN 1 .. place LOOP
    meter := meters[i];
    IF windows[i] IS NOT NULL THEN
      meter.used := used[i];
      meters[i] := meter;
      IF meter.max > 1000 OR (accounts[i]).longest < windows[i] THEN
        accounts[i] := {schema}.watch(accounts[i], meter, at, true);
      END IF;
    END IF;
  END LOOP;
END
$$;
`,
  },
  {
    path: "jobs/walk_page.sql",
    text: `-- The next ready lanes of each type in the order of their turns, so many of each from a place on, with all lanes that have their
-- turn with them: of one priority and group, of the types that are asked for, empty, blocked or paused as they may be.
--
-- queue_name: of which queue. asked: the types that have turns together; NULL: all. types, counts, places: what to read.
-- known: lanes that were read before. Answers lanes in the order of units, and which of them were asked for (\`line\`: of which
-- of the types, \`rank\`: its place there). \`unit\`: those of one priority and group; \`family\`: those of one group.
CREATE OR REPLACE FUNCTION {schema}.walk_page(
  queue_name text, asked text[], types text[], counts integer[], places integer[], known bigint[]
) RETURNS TABLE (
  id bigint, type text, priority float8, grp text, turn bigint, served integer, ready boolean, blocked boolean, heavy bigint,
  heavy_by text, heavy_since float8, unit bigint, family bigint, line integer, rank bigint
)
LANGUAGE sql STABLE AS $$
  WITH front AS MATERIALIZED (
    SELECT t.line::integer, l.id, l.priority, l.grp,
      row_number() OVER (PARTITION BY t.line ORDER BY l.priority DESC, l.turn, l.id) AS rank
    FROM unnest(types, counts, places) WITH ORDINALITY AS t (type, count, place, line) CROSS JOIN LATERAL (
      SELECT a.id, a.priority, a.grp, a.turn FROM {schema}.lanes a
      WHERE a.queue = queue_name AND a.type = t.type AND a.ready AND a.blocked_until IS NULL
      ORDER BY a.priority DESC, a.turn, a.id LIMIT t.count OFFSET t.place
    ) l
  )
  SELECT l.id, l.type, l.priority, l.grp, l.turn, l.served, l.ready, l.blocked_until IS NOT NULL, l.heavy, l.blocked_by,
    l.heavy_since, dense_rank() OVER (ORDER BY l.priority, l.grp), dense_rank() OVER (ORDER BY l.grp),
    u.lines[array_position(u.ids, l.id)], u.ranks[array_position(u.ids, l.id)]
  FROM (
      SELECT n.priority, n.grp, array_agg(n.id) AS ids, array_agg(n.line) AS lines, array_agg(n.rank) AS ranks
      FROM front n WHERE n.id <> ALL (known) GROUP BY n.priority, n.grp
    ) u
    CROSS JOIN LATERAL (
      SELECT a.* FROM {schema}.lanes a
      WHERE a.queue = queue_name AND a.priority = u.priority AND a.grp = u.grp AND (asked IS NULL OR a.type = ANY (asked))
      OFFSET 0
    ) l
  UNION ALL
  SELECT f.id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    f.line, f.rank FROM front f WHERE f.id = ANY (known)
  ORDER BY 12, 1
$$;
`,
  },
  {
    path: "jobs/way_of.sql",
    text: `-- Which way a claim goes under limits: what the jobs that it may take run under, and whether it has to walk over lanes, or all of
-- them run under the same limits and count for one under each.
--
-- Who asks for any type gets those of which jobs wait now, and what these run under: only they are taken then (\`decided\`). A job of
-- another type that comes meanwhile is as one that comes afterwards. Not so while a lane waits for a limit: when that has room is
-- for the walk to tell.
--
-- asked: the types; NULL: any. own: limits that the claim brings along. grouped: it walks in any case.
CREATE OR REPLACE FUNCTION {schema}.way_of(queue text, asked text[], own jsonb, grouped boolean,
  OUT rules {schema}.limit_rule[], OUT types text[], OUT decided boolean, OUT walks boolean)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  fewer {schema}.limit_rule[];
BEGIN
  types := asked;
  decided := false;
  rules := {schema}.rules_for(queue, asked, own);
  walks := grouped OR NOT {schema}.is_uniform(rules, asked);
  IF walks AND NOT grouped AND asked IS NULL
    AND NOT EXISTS (SELECT FROM {schema}.lanes l WHERE l.queue = way_of.queue AND l.ready AND l.blocked_until IS NOT NULL)
  THEN
    types := {schema}.open_types(queue, NULL);
    fewer := {schema}.rules_for(queue, types, own);
    IF {schema}.is_uniform(fewer, types) THEN
      rules := fewer;
      decided := true;
      walks := false;
    END IF;
  END IF;
END
$$;
`,
  },
  {
    path: "jobs/write_log.sql",
    text: `-- Writes the log lines of these reports (report.sql; only those of the numbers ns). The latest thousand of a job are kept.
CREATE OR REPLACE FUNCTION {schema}.write_log(reports json, ns integer[], now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  written bigint[];
BEGIN
  WITH lines AS (
    INSERT INTO {schema}.log (job, at, attempt, text)
    SELECT j.seq, now, j.attempt, line.text
    FROM json_to_recordset(reports) AS o (n integer, id text, log json)
    CROSS JOIN LATERAL json_array_elements_text(o.log) WITH ORDINALITY AS line (text, no)
    JOIN {schema}.jobs j ON j.id = o.id
    WHERE o.n = ANY (ns)
    ORDER BY o.n, line.no
    RETURNING job
  )
  SELECT array_agg(DISTINCT l.job) INTO written FROM lines l;
  IF written IS NOT NULL THEN
    DELETE FROM {schema}.log l USING unnest(written) AS w (job) WHERE l.job = w.job AND l.seq <=
      (SELECT k.seq FROM {schema}.log k WHERE k.job = w.job ORDER BY k.seq DESC OFFSET 1000 LIMIT 1);
  END IF;
END
$$;
`,
  },
  {
    path: "jobs/write_walk.sql",
    text: `-- Writes down what a walk came to. Its jobs are held. Answers with those that have started, in order; whether there is news for
-- everybody; whether this claim itself may find more now (\`others_may_look\`); and whether a lane that seemed empty has jobs which
-- somebody else has his hands on (\`taken\`); and whether events were written.
--
-- queue_name, worker_name, claim_name, lease_ms: who claims. types: which may start. walked: what it came to.
CREATE OR REPLACE FUNCTION {schema}.write_walk(
  queue_name text, worker_name text, claim_name text, lease_ms float8, types text[], walked {schema}.walked,
  OUT jobs json, OUT everybody boolean, OUT others_may_look boolean, OUT taken boolean,
  OUT told boolean
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now float8 := walked.at;
  wanted boolean := {schema}.events_wanted(walked.at);
  first bigint;
  kept jsonb[];
  freed record;
BEGIN
  jobs := '[]';
  everybody := false;
  others_may_look := false;
  taken := false;
  told := wanted AND (walked.places <> '{}' OR walked.refused <> '{}');
  IF walked.places <> '{}' THEN
    first := nextval('{schema}.numbers');
    kept := {schema}.take_walked(walked, first);
    WITH started AS (
      UPDATE {schema}.jobs j SET state = 'active', attempt = j.attempt + 1, started_at = now,
        lease_until = now + lease_ms, worker = worker_name, claim = claim_name, limits = p.limits, token = first + p.place - 1
      FROM unnest(walked.places, kept) WITH ORDINALITY AS p (job, limits, place)
      WHERE j.ctid = p.job
      RETURNING j.token, j.id, j.type, j.attempt, {schema}.job_json(j) AS answer
    ), said AS (
      INSERT INTO {schema}.events (at, event)
      SELECT now, json_build_object('event', 'started', 'queue', queue_name, 'id', s.id, 'type', s.type,
        'attempt', s.attempt, 'worker', worker_name)::text
      FROM started s WHERE wanted ORDER BY s.token
    )
    SELECT json_agg(s.answer ORDER BY s.token) INTO jobs FROM started s;
  END IF;
  IF walked.lanes <> '{}' OR walked.emptied <> '{}' THEN
    WITH written AS (
      UPDATE {schema}.lanes l SET
        turn = CASE WHEN w.turn > 0 THEN first + w.turn - 1 ELSE l.turn END,
        served = coalesce(w.served, l.served),
        used_at = CASE WHEN w.gave THEN now ELSE l.used_at END,
        ready = CASE WHEN w.emptied THEN {schema}.head_of(l) IS NOT NULL ELSE l.ready END
      FROM (
        SELECT coalesce(g.id, e.id) AS id, g.turn, g.served, g.gave, e.id IS NOT NULL AS emptied
        FROM unnest(walked.lanes, walked.turns, walked.served, walked.gave) AS g (id, turn, served, gave)
          FULL JOIN (SELECT DISTINCT u.id FROM unnest(walked.emptied) AS u (id)) e ON e.id = g.id
      ) w WHERE l.id = w.id
      RETURNING w.emptied AND l.ready AS taken
    ) SELECT coalesce(bool_or(w.taken), false) INTO taken FROM written w;
  END IF;
  IF walked.refused <> '{}' THEN
    everybody := {schema}.end_refused(queue_name, walked, wanted);
  END IF;
  -- Whoever waited only for what has started now is worth a look, and hears of it.
  FOR freed IN
    SELECT DISTINCT r.name, CASE WHEN (r.rule ->> 'byGroup')::boolean THEN f.grp END AS grp
    FROM unnest(walked.freed_names, walked.freed_grps) AS f (name, grp) JOIN {schema}.rules r ON r.name = f.name
  LOOP
    WITH behind AS (
      UPDATE {schema}.lanes l SET blocked_until = NULL
      WHERE l.blocked_by = freed.name AND l.blocked_until IS NOT NULL AND l.heavy IS NULL
        AND (freed.grp IS NULL OR l.grp = freed.grp)
      RETURNING l.queue, l.type
    ) SELECT everybody OR count(*) > 0,
        others_may_look OR coalesce(bool_or(b.queue = queue_name AND b.type = ANY (types)), false)
      INTO everybody, others_may_look FROM behind b;
  END LOOP;
  IF walked.blocked <> '{}' THEN
    -- Whoever waited already keeps his place.
    UPDATE {schema}.lanes l SET blocked_until = CASE WHEN b.wait = 'Infinity' THEN 1e18 ELSE now + b.wait END,
      blocked_by = b.name, heavy = b.heavy,
      heavy_since = CASE WHEN l.heavy IS NOT DISTINCT FROM b.heavy AND l.blocked_by IS NOT DISTINCT FROM b.name
        THEN l.heavy_since ELSE now END
    FROM unnest(walked.blocked, walked.blocked_waits, walked.blocked_names, walked.blocked_heavy) AS b (id, wait, name, heavy)
    WHERE l.id = b.id;
  END IF;
END
$$;
`,
  },
  {
    path: "jobs/wrong_option.sql",
    text: `-- Refuses an option or argument of add_job: what it is called, what was received, and what would have been right.
CREATE OR REPLACE FUNCTION {schema}.wrong_option(option text, value jsonb, expected text, hint text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  received text := CASE WHEN value IS NULL THEN 'NULL' WHEN length(value::text) > 60 THEN left(value::text, 60) || '…'
    ELSE value::text END;
BEGIN
  IF hint IS NULL THEN
    RAISE EXCEPTION 'add_job: expected "%" to be %, got %', option, expected, received USING ERRCODE = 'invalid_parameter_value';
  END IF;
  RAISE EXCEPTION 'add_job: expected "%" to be %, got %', option, expected, received
    USING ERRCODE = 'invalid_parameter_value', HINT = wrong_option.hint;
END
$$;
`,
  },
  {
    path: "limits/account_save.sql",
    text: `-- Writes down what the step has taken of a limit: on its row, and in its log. From then on it has an id, and says where in
-- the log the starts are. alone: it is the start of a permit, with a row of its own.
CREATE OR REPLACE FUNCTION {schema}.account_save(
  account {schema}.limit_account, alone boolean, now float8
) RETURNS {schema}.limit_account
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- A log that somebody looks at knows of every start, whatever the rule itself counts.
  counted float8 := coalesce(account.watch_ms, account.window_ms);
  kept {schema}.limits;
BEGIN
  IF account.id IS NULL THEN
    kept := {schema}.open_limit(account.name, coalesce(account.watch_ms, 0), account.grp, now);
    account.id := kept.id;
    account.longest := kept.longest;
  END IF;
  IF account.starts = 0 THEN
    RETURN account;
  END IF;
  IF account.before IS NULL AND counted IS NOT NULL THEN
    account.before := {schema}.window_used(
      account.id, account.window_ms, account.used, account.seen_at, counted, now);
    account.before_at := now;
  END IF;
  IF counted IS NOT NULL OR account.longest > 0 THEN
    account.entry := {schema}.enter_starts(
      account.id, account.newest, account.taken, CASE WHEN alone THEN -1 ELSE account.resolution END, now);
    account.newest := greatest(account.newest, now);
  END IF;
  UPDATE {schema}.limits AS l SET latest_at = account_save.now, told_left = account.told_left, window_ms = counted,
      used = CASE WHEN counted IS NULL THEN 0 ELSE account.before + account.taken END,
      seen_at = coalesce(account.before_at, account_save.now), newest = account.newest,
      held = CASE WHEN alone THEN l.held ELSE account.job_slots END
    WHERE l.id = account.id;
  RETURN account;
END
$$;
`,
  },
  {
    path: "limits/account_take.sql",
    text: `-- Start number \`start\` of the step takes so much: once, however many rules look at it, and what is more of it. Nothing is
-- written before \`account_save\`.
CREATE OR REPLACE FUNCTION {schema}.account_take(
  account {schema}.limit_account, meter {schema}.limit_meter, weight float8, slots float8, start bigint, now float8
) RETURNS {schema}.limit_account
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  before float8 := 0;
  more float8;
BEGIN
  IF account.latest = start THEN
    before := account.charged;
  ELSE
    account.starts := account.starts + 1;
  END IF;
  more := greatest(0, weight - before);
  account.latest := start;
  account.charged := before + more;
  account.taken := account.taken + more;
  account.latest_at := greatest(account.latest_at, now);
  IF account.told_left IS NOT NULL THEN
    account.told_left := greatest(0, account.told_left - more);
  END IF;
  IF meter.holds THEN
    account.held := account.held + slots;
    account.probes := account.probes + 1;
    account.job_slots := account.job_slots + slots;
  END IF;
  RETURN account;
END
$$;
`,
  },
  {
    path: "limits/adopt.sql",
    text: `-- A rule holds from now on: so do the jobs that run already, as if they had started under it. Those that hold something of it
-- go on as they are, but where it only kept the group in mind. before, after: rules as JSON; before is NULL where there was
-- none. Whoever calls it is alone.
CREATE OR REPLACE FUNCTION {schema}.adopt(before jsonb, after jsonb, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  was {schema}.limit_rule;
  rule {schema}.limit_rule := {schema}.read_rule(after);
  job record;
  meter {schema}.limit_meter;
  place bigint;
  amount float8;
BEGIN
  IF rule.probes IS NULL AND rule.concurrency IS NULL AND NOT EXISTS (
    SELECT FROM jsonb_each(coalesce(rule.groups, '{}')) AS own WHERE own.value ->> 'concurrency' IS NOT NULL)
  THEN
    RETURN;
  END IF;
  IF before IS NOT NULL THEN
    was := {schema}.read_rule(before);
  END IF;
  PERFORM {schema}.hold_singly(rule.name);
  -- Along the index of leases: every job that runs has one.
  FOR job IN
    SELECT j.token, j.grp, j.weights, j.started_at FROM {schema}.jobs AS j
      WHERE j.state = 'active' AND j.lease_until IS NOT NULL
        AND (rule.queues IS NULL OR j.queue = ANY (rule.queues)) AND (rule.types IS NULL OR j.type = ANY (rule.types))
      ORDER BY j.token
  LOOP
    meter := {schema}.meter_of(rule, job.grp);
    CONTINUE WHEN NOT meter.holds;
    place := ({schema}.open_limit(rule.name, 0, {schema}.state_grp(rule.by_group, job.grp), now)).id;
    amount := ({schema}.charge_of(meter, job.weights)).slots;
    INSERT INTO {schema}.holds AS h (limit_id, token, slots, at) VALUES (place, job.token, amount, job.started_at)
      ON CONFLICT DO NOTHING;
    IF NOT FOUND AND was.by_group = rule.by_group AND NOT ({schema}.meter_of(was, job.grp)).holds THEN
      UPDATE {schema}.holds AS h SET slots = amount WHERE h.limit_id = place AND h.token = job.token;
    END IF;
  END LOOP;
  UPDATE {schema}.limits AS l SET held = coalesce(
      (SELECT sum(h.slots) FROM {schema}.holds AS h WHERE h.limit_id = l.id AND h.until IS NULL), 0)
    WHERE l.name = rule.name;
END
$$;
`,
  },
  {
    path: "limits/any_awaited.sql",
    text: `-- Does a lane wait for one of the limits that weigh?
CREATE OR REPLACE FUNCTION {schema}.any_awaited() RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM {schema}.rules r WHERE r.rule ->> 'weight' IS NOT NULL
    AND EXISTS (SELECT FROM {schema}.lanes l WHERE l.blocked_by = r.name AND l.blocked_until IS NOT NULL))
$$;
`,
  },
  {
    path: "limits/block_of.sql",
    text: `-- What all that start with a token hold in one row is called by: the number that their claim drew, below zero. A claim draws
-- a number, and the 9,999 after it are its own as well.
CREATE OR REPLACE FUNCTION {schema}.block_of(token bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT (token - 1) % 10000 - token
$$;
`,
  },
  {
    path: "limits/blocks_of.sql",
    text: `-- What starts with these tokens, in their order, hold in one row each claim (block_of), and how many of them: two lists.
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
`,
  },
  {
    path: "limits/cancel_start.sql",
    text: `-- As if the start of this number had never been. False: there is none, or it was cancelled before. The lock of the name is
-- held; whoever calls tells those who wait for the window.
--
-- What was cancelled has been charged for more than anybody can ever settle for.
CREATE OR REPLACE FUNCTION {schema}.cancel_start(number bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  start {schema}.starts;
BEGIN
  SELECT * INTO start FROM {schema}.starts WHERE token = number;
  IF start.seq IS NULL OR start.spent = 1.7976931348623157e308::float8 THEN
    RETURN false;
  END IF;
  PERFORM {schema}.change_start(start, start.at, start.since, 0, 1.7976931348623157e308::float8);
  RETURN true;
END
$$;
`,
  },
  {
    path: "limits/cancel_taken.sql",
    text: `-- So many starts of this instant, each of which took the same, never were. What was cleared since has another id, and keeps
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
      PERFORM {schema}.change_entry(entry, -coalesce((taken ->> 2)::float8, 1) * times);
    END IF;
    PERFORM {schema}.gauge_cancel(kept.id, started_at);
    given := given || {schema}.window_freed(kept.name, kept.grp, now);
  END LOOP;
  RETURN given;
END
$$;
`,
  },
  {
    path: "limits/change_entry.sql",
    text: `-- The starts that share this place in the log count for so much more, or less, together.
CREATE OR REPLACE FUNCTION {schema}.change_entry(entry {schema}.starts, by float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  after float8 := greatest(0, entry.n + by);
BEGIN
  UPDATE {schema}.starts AS s SET n = after WHERE s.seq = entry.seq;
  PERFORM {schema}.shift_total(entry.limit_id, entry.at, after - entry.n);
END
$$;
`,
  },
  {
    path: "limits/change_start.sql",
    text: `-- A start in the log turns out to be another: when it was, what it counts for, what was charged for it before, and until
-- when it is kept. The lock of the name is held.
CREATE OR REPLACE FUNCTION {schema}.change_start(
  start {schema}.starts, to_at float8, to_since float8, to_n float8, to_spent float8
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  UPDATE {schema}.starts SET at = to_at, since = to_since, n = to_n, spent = to_spent WHERE seq = start.seq;
  IF to_at > start.at THEN
    UPDATE {schema}.limits SET newest = to_at WHERE id = start.limit_id AND (newest IS NULL OR newest < to_at);
  END IF;
  PERFORM {schema}.shift_total(start.limit_id, start.at, -start.n);
  PERFORM {schema}.shift_total(start.limit_id, to_at, to_n);
END
$$;
`,
  },
  {
    path: "limits/charge_more.sql",
    text: `-- A start under this limit turns out to have used so much more than was charged for it: so much less is left of what the
-- service said.
CREATE OR REPLACE FUNCTION {schema}.charge_more(id bigint, more float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF more > 0 THEN
    UPDATE {schema}.limits AS l SET told_left = greatest(0, l.told_left - more)
      WHERE l.id = charge_more.id AND l.told_left IS NOT NULL;
  END IF;
END
$$;
`,
  },
  {
    path: "limits/charge_of.sql",
    text: `-- What the start of a job with these weights takes. Where a rule has a window that is what is weighed, and concurrency
-- counts starts; else concurrency is. A job that says nothing counts for the estimate.
CREATE OR REPLACE FUNCTION {schema}.charge_of(meter {schema}.limit_meter, weights jsonb) RETURNS {schema}.limit_charge
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  said float8;
BEGIN
  IF meter.weight IS NULL THEN
    RETURN (1, 1)::{schema}.limit_charge;
  END IF;
  said := coalesce((weights ->> meter.weight)::float8, meter.estimate);
  IF meter.weighs_window THEN
    RETURN (said, 1)::{schema}.limit_charge;
  END IF;
  RETURN (1, said)::{schema}.limit_charge;
END
$$;
`,
  },
  {
    path: "limits/charge_start.sql",
    text: `-- So much was charged for a start and has left every window: what it used beyond that counts from now on. The lock of the
-- name is held.
--
-- used: all that it used. gone: what was charged. until: so long it is kept at least.
CREATE OR REPLACE FUNCTION {schema}.charge_start(
  start {schema}.starts, used float8, gone float8, until float8, now float8
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  moment float8;
BEGIN
  IF used <= gone THEN
    RETURN;
  END IF;
  SELECT greatest(now, newest) INTO moment FROM {schema}.limits WHERE id = start.limit_id;
  PERFORM {schema}.change_start(start, moment, greatest(moment, until), used - gone, gone);
  PERFORM {schema}.charge_more(start.limit_id, used - gone);
END
$$;
`,
  },
  {
    path: "limits/claim_room.sql",
    text: `-- What limits leave to a claim whose jobs are all alike to them: how many may start, when one more may, and what is in its way
-- until then: of several, the one that is so the longest. \`at\`: the instant for which that is so, not before any start that
-- is known. prepare: starts are kept long enough from now on; else nothing is written, and \`unprepared\` says whether
-- somebody has to.
--
-- Almost always nothing but numbers could be in the way, and they leave room. Where that is so for more than any claim asks
-- for, what has left the window is not looked up: it can only be less that is in use.
CREATE OR REPLACE FUNCTION {schema}.claim_room(
  rules {schema}.limit_rule[], now float8, prepare boolean DEFAULT true
) RETURNS {schema}.limit_room
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  room {schema}.limit_room;
  uses {schema}.limit_use[] := '{}';
  names text[] := '{}';
  rule {schema}.limit_rule;
  kept record;
  instant float8 := now;
  free float8 := 'Infinity';
  used float8;
  used_at float8;
BEGIN
  FOREACH rule IN ARRAY rules LOOP
    SELECT l.*, CASE WHEN rule.concurrency IS NOT NULL THEN l.held + coalesce(
        (SELECT sum(h.slots) FROM {schema}.holds AS h WHERE h.limit_id = l.id AND h.until > instant), 0) END AS slots
      INTO kept FROM {schema}.limits AS l WHERE l.name = rule.name AND l.grp = '';
    instant := greatest(instant, kept.newest, kept.latest_at);
    IF rule.paused OR rule.every_ms IS NOT NULL OR (rule.probes IS NOT NULL AND kept.open_until IS NOT NULL)
      OR greatest(rule.held_until, rule.blind_until, kept.pause_until, kept.told_until) > instant
      OR kept.longest < rule.window_ms OR instant - kept.forgotten_at < rule.window_ms OR rule.name = ANY (names)
    THEN
      RETURN {schema}.weigh_room(rules, now, prepare);
    END IF;
    used := kept.used;
    used_at := kept.seen_at;
    IF rule.max IS NOT NULL AND (kept.window_ms IS DISTINCT FROM rule.window_ms OR used + 10000 > rule.max
      OR (instant - used_at) * 8 > rule.window_ms)
    THEN
      used := {schema}.window_used(kept.id, kept.window_ms, used, used_at, rule.window_ms, instant);
      used_at := instant;
    END IF;
    free := least(free, rule.max - used, rule.concurrency - coalesce(kept.slots, 0));
    IF free < 1 THEN
      RETURN {schema}.weigh_room(rules, now, prepare);
    END IF;
    names := names || rule.name;
    uses := uses || (kept.id, rule.name, rule.concurrency IS NOT NULL OR rule.probes IS NOT NULL, rule.probes IS NOT NULL,
      coalesce(rule.window_ms, kept.window_ms), used, used_at,
      rule.window_ms IS NOT NULL OR kept.window_ms IS NOT NULL OR kept.longest > 0,
      CASE WHEN instant = kept.entry_since OR (rule.max > 1000 AND (instant - kept.entry_since) * 1000 < rule.window_ms)
        THEN kept.entry END)::{schema}.limit_use;
  END LOOP;
  room.at := instant;
  room.free := floor(free);
  room.wait := 0;
  room.unprepared := false;
  room.plain := true;
  room.rules := rules;
  room.uses := uses;
  RETURN room;
END
$$;
`,
  },
  {
    path: "limits/correct_taken.sql",
    text: `-- A start took this of a limit that weighs its window, and really used so much; the last word holds. Inside the window its
-- place in the log changes; what becomes known after it has expired is charged from now on, and what has expired is not given
-- back. \`taken\` is what it took then, \`given\` what is_news has to hear.
CREATE OR REPLACE FUNCTION {schema}.correct_taken(
  kept {schema}.limits, started_at float8, used float8, now float8, INOUT taken jsonb, OUT given {schema}.limit_given[]
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  place bigint := coalesce((taken ->> 1)::bigint, 0);
  weight float8 := coalesce((taken ->> 2)::float8, 1);
  spent float8 := coalesce((taken ->> 3)::float8, 0);
  entry {schema}.starts := {schema}.find_entry(kept.id, place, coalesce((taken ->> 4)::float8, started_at));
  again {schema}.start_place;
  after float8;
BEGIN
  given := '{}';
  IF now - entry.at < kept.longest THEN
    after := greatest(0, used - spent);
    IF after = weight THEN
      RETURN;
    END IF;
    PERFORM {schema}.change_entry(entry, after - weight);
    IF after < weight THEN
      given := {schema}.window_freed(kept.name, kept.grp, now);
    ELSE
      PERFORM {schema}.charge_more(kept.id, after - weight);
    END IF;
    taken := jsonb_build_array(kept.id, place, after, spent)
      || CASE WHEN taken -> 4 IS NULL THEN '[]' ELSE jsonb_build_array(taken -> 4) END;
    RETURN;
  END IF;
  spent := spent + weight;
  taken := jsonb_build_array(kept.id, 0, 0, spent);
  IF used > spent THEN
    PERFORM {schema}.charge_more(kept.id, used - spent);
    again := {schema}.record_starts(kept.id, used - spent, now);
    taken := jsonb_build_array(kept.id, again.seq, used - spent, spent, again.at);
  END IF;
END
$$;
`,
  },
  {
    path: "limits/correct_weights.sql",
    text: `-- What a job that runs really used: its start is corrected under every limit that weighs by one of these names. seq, token,
-- started_at, limits: of the job, whose row the step has locked. Answers with what was given back, for is_news.
CREATE OR REPLACE FUNCTION {schema}.correct_weights(
  seq bigint, token bigint, started_at float8, limits jsonb, weights jsonb, now float8
) RETURNS {schema}.limit_given[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  given {schema}.limit_given[] := '{}';
  one {schema}.limit_given;
  after jsonb := '[]';
  taken jsonb;
  corrected record;
  kept {schema}.limits;
  rule {schema}.limit_rule;
  held {schema}.holds;
  really float8;
BEGIN
  IF jsonb_typeof(limits) = 'array' THEN
    FOR taken IN SELECT jsonb_array_elements(limits) LOOP
      SELECT * INTO kept FROM {schema}.limits AS l WHERE l.id = (taken ->> 0)::bigint;
      IF FOUND THEN
        rule := {schema}.rule_named(kept.name);
        IF rule.max IS NOT NULL AND weights ? rule.weight THEN
          corrected := {schema}.correct_taken(
            kept, coalesce(started_at, 0), (weights ->> rule.weight)::float8, now, taken);
          taken := corrected.taken;
          given := given || corrected.given;
        END IF;
      END IF;
      after := after || jsonb_build_array(taken);
    END LOOP;
    IF after <> limits THEN
      UPDATE {schema}.jobs AS j SET limits = after WHERE j.seq = correct_weights.seq;
    END IF;
  END IF;
  FOR held IN SELECT * FROM {schema}.holds AS h WHERE h.token = correct_weights.token LOOP
    SELECT * INTO kept FROM {schema}.limits AS l WHERE l.id = held.limit_id;
    CONTINUE WHEN NOT FOUND;
    rule := {schema}.rule_named(kept.name);
    CONTINUE WHEN rule.name IS NULL OR rule.max IS NOT NULL OR (weights ? rule.weight) IS NOT TRUE;
    really := (weights ->> rule.weight)::float8;
    CONTINUE WHEN really = held.slots;
    UPDATE {schema}.holds AS h SET slots = really WHERE h.limit_id = held.limit_id AND h.token = held.token;
    UPDATE {schema}.limits AS l SET held = greatest(0, l.held + really - held.slots) WHERE l.id = kept.id
      RETURNING * INTO kept;
    IF really < held.slots THEN
      one := {schema}.release_hold(kept, rule, held.slots - really, ARRAY[held.at], now);
      IF one.id IS NOT NULL THEN
        given := given || one;
      END IF;
    END IF;
  END LOOP;
  RETURN given;
END
$$;
`,
  },
  {
    path: "limits/drop_idle.sql",
    text: `-- Forgets a group that is idle. Nobody's clock is before this any more: who comes later does not miss what was dropped. Where
-- somebody else writes down the time just now, it waits for another turn.
CREATE OR REPLACE FUNCTION {schema}.drop_idle(kept {schema}.limits, now float8) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  deleted integer;
BEGIN
  PERFORM FROM {schema}.meta FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN 0;
  END IF;
  UPDATE {schema}.meta SET last = drop_idle.now WHERE last < drop_idle.now;
  DELETE FROM {schema}.starts AS s WHERE s.limit_id = kept.id;
  GET DIAGNOSTICS deleted = ROW_COUNT;
  DELETE FROM {schema}.limits AS l WHERE l.id = kept.id;
  RETURN deleted + 1;
END
$$;
`,
  },
  {
    path: "limits/drop_limit.sql",
    text: `-- Forgets everything that is kept here, what is held as well.
CREATE OR REPLACE FUNCTION {schema}.drop_limit(id bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  DELETE FROM {schema}.starts AS s WHERE s.limit_id = drop_limit.id;
  DELETE FROM {schema}.holds AS h WHERE h.limit_id = drop_limit.id;
  DELETE FROM {schema}.limits AS l WHERE l.id = drop_limit.id;
END
$$;
`,
  },
  {
    path: "limits/end_start.sql",
    text: `-- The permit of this number has ended. Its start stays counted, and may be corrected while a window sees it; that it has
-- ended is told by the number below zero. The lock of the name is held.
--
-- id: the limit. started_at: when it was taken. until: until when it may be corrected, though it may have left every window.
CREATE OR REPLACE FUNCTION {schema}.end_start(id bigint, number bigint, started_at float8, until float8, now float8)
RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  UPDATE {schema}.starts SET token = -token, since = greatest(since, until) WHERE token = number;
  IF FOUND OR until <= now THEN
    RETURN;
  END IF;
  -- Its row is gone already, and it would pass for one that goes on.
  INSERT INTO {schema}.starts (limit_id, at, since, n, token) VALUES (id, started_at, until, 0, -number);
  UPDATE {schema}.limits l SET newest = started_at WHERE l.id = end_start.id AND (newest IS NULL OR newest < started_at);
END
$$;
`,
  },
  {
    path: "limits/enter_starts.sql",
    text: `-- Counts \`n\` starts in the log, and answers where. Those less than \`resolution\` apart share a row, stamped with the latest of
-- them: never over. Below 0 nobody shares. newest: when the newest start was; no start is stamped before it. Neither the
-- total nor the newest start of the limit is written.
CREATE OR REPLACE FUNCTION {schema}.enter_starts(
  id bigint, newest float8, n float8, resolution float8, now float8
) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  moment float8 := greatest(now, newest);
  place bigint;
BEGIN
  IF resolution >= 0 THEN
    place := {schema}.shared_entry(id, newest, resolution, moment);
  END IF;
  IF place IS NOT NULL THEN
    UPDATE {schema}.starts AS s SET at = moment, n = s.n + enter_starts.n WHERE s.seq = place;
  ELSE
    INSERT INTO {schema}.starts AS s (limit_id, at, since, n)
      VALUES (enter_starts.id, moment, moment, enter_starts.n) RETURNING s.seq INTO place;
  END IF;
  RETURN place;
END
$$;
`,
  },
  {
    path: "limits/find_entry.sql",
    text: `-- Where in the log a start of this instant was written down, that shares its place with others; NULL: it is not there any
-- more. The place may be somebody else's by now: then the time is another.
CREATE OR REPLACE FUNCTION {schema}.find_entry(limit_id bigint, entry bigint, at float8) RETURNS {schema}.starts
LANGUAGE plpgsql STABLE AS $$
DECLARE
  found {schema}.starts;
BEGIN
  IF entry <> 0 THEN
    SELECT * INTO found FROM {schema}.starts AS s
      WHERE s.seq = entry AND s.limit_id = find_entry.limit_id AND s.since <= find_entry.at AND s.at >= find_entry.at
        AND s.token IS NULL;
  END IF;
  RETURN found;
END
$$;
`,
  },
  {
    path: "limits/find_limit.sql",
    text: `-- What is kept under this name, for one group or for all. All of it is NULL where nothing is.
CREATE OR REPLACE FUNCTION {schema}.find_limit(name text, grp text DEFAULT '') RETURNS {schema}.limits
LANGUAGE plpgsql STABLE AS $$
DECLARE
  found {schema}.limits;
BEGIN
  SELECT * INTO found FROM {schema}.limits AS l WHERE l.name = find_limit.name AND l.grp = find_limit.grp;
  RETURN found;
END
$$;
`,
  },
  {
    path: "limits/forget_starts.sql",
    text: `-- Deletes starts that no window can see, a step of them; what a permit holds may still be corrected, and of others \`since\`
-- says until when. A little more than the longest window is kept: who comes to the very end of it finds it undisturbed.
CREATE OR REPLACE FUNCTION {schema}.forget_starts(
  kept {schema}.limits, now float8, OUT deleted integer, OUT newest float8
)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM {schema}.settle_total(kept, now);
  WITH old AS (
    SELECT s.seq FROM {schema}.starts AS s
      WHERE s.limit_id = kept.id AND s.at <= now - kept.longest - 1
        AND (s.token IS NULL OR (s.since <= now
          AND NOT EXISTS (SELECT FROM {schema}.holds AS h WHERE h.token = s.token)))
      ORDER BY s.at, s.seq LIMIT 500
  ), gone AS (
    DELETE FROM {schema}.starts AS s WHERE s.seq = ANY (ARRAY(SELECT old.seq FROM old)) RETURNING s.at
  )
  SELECT count(*), max(gone.at) INTO deleted, newest FROM gone;
END
$$;
`,
  },
  {
    path: "limits/free_of.sql",
    text: `-- How much could start at once: 0 if anything is in the way; 'Infinity': as much as anybody likes. What is weighed is told
-- by weight; what counts starts then leaves room for one at least.
CREATE OR REPLACE FUNCTION {schema}.free_of(
  meter {schema}.limit_meter, account {schema}.limit_account, now float8
) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
DECLARE
  weighs boolean := meter.weight IS NOT NULL;
  free float8 := 'Infinity';
BEGIN
  IF {schema}.limit_wait(meter, account, 1, 1, now) <> 0 THEN
    RETURN 0;
  END IF;
  IF meter.max IS NOT NULL THEN
    free := meter.max - (meter.used + account.taken);
  END IF;
  IF meter.concurrency IS NOT NULL AND NOT (weighs AND meter.max IS NOT NULL) THEN
    free := least(free, meter.concurrency - account.held);
  END IF;
  IF now < account.told_until AND NOT (weighs AND meter.max IS NULL) THEN
    free := least(free, coalesce(account.told_left, 0));
  END IF;
  IF NOT weighs AND meter.every_ms IS NOT NULL THEN
    free := least(free, 1);
  END IF;
  IF NOT weighs AND meter.probes IS NOT NULL AND account.open_until IS NOT NULL THEN
    free := least(free, meter.probes - account.probes);
  END IF;
  RETURN free;
END
$$;
`,
  },
  {
    path: "limits/gauge_cancel.sql",
    text: `-- The start of this instant never was. When it was granted, the time after the one before it was over.
CREATE OR REPLACE FUNCTION {schema}.gauge_cancel(id bigint, started_at float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  UPDATE {schema}.limits AS l SET latest_at = NULL WHERE l.id = gauge_cancel.id AND l.latest_at = started_at;
END
$$;
`,
  },
  {
    path: "limits/gauge_hold.sql",
    text: `-- Nothing starts under this limit, for one group or for all, until then. It only ever extends.
CREATE OR REPLACE FUNCTION {schema}.gauge_hold(name text, grp text, until float8, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  INSERT INTO {schema}.limits AS l (name, grp, longest, prune_at, pause_until)
    VALUES (gauge_hold.name, gauge_hold.grp, 0, gauge_hold.now, until)
    ON CONFLICT ON CONSTRAINT limits_name_grp_key DO UPDATE SET pause_until = greatest(l.pause_until, excluded.pause_until);
END
$$;
`,
  },
  {
    path: "limits/gauge_tell.sql",
    text: `-- A service says what is left until its window begins anew. Of what it says about the same window the least holds, for some
-- of what has started may not have reached it yet; a later window is another one. What is said about one window differs by
-- the time that its answers took, and by how the service rounds: a second. Is more left than it said before?
CREATE OR REPLACE FUNCTION {schema}.gauge_tell(
  name text, grp text, remaining float8, reset_ms float8, now float8
) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  kept {schema}.limits := {schema}.open_limit(name, 0, grp, now);
  until float8 := now + reset_ms;
  said float8 := remaining;
BEGIN
  IF now < kept.told_until AND until <= kept.told_until + 1500 THEN
    said := least(kept.told_left, remaining);
    until := greatest(kept.told_until, until);
  END IF;
  UPDATE {schema}.limits AS l SET told_left = said, told_until = until WHERE l.id = kept.id;
  RETURN coalesce(said > kept.told_left, false);
END
$$;
`,
  },
  {
    path: "limits/give_back.sql",
    text: `-- Leases have ended: what services said about their limits holds, starts that never were are taken back, what they held is
-- given back, and breakers hear how it went. Answers with what was given back, to be judged by \`is_news\` when all of the step
-- is done.
CREATE OR REPLACE FUNCTION {schema}.give_back(
  leases {schema}.ended_lease[], now float8
) RETURNS {schema}.limit_given[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  given {schema}.limit_given[] := '{}';
  tokens bigint[];
  special boolean;
  lease {schema}.ended_lease;
  cancelled record;
BEGIN
  SELECT array_agg(e.token ORDER BY e.token), bool_or(e.hold IS NOT NULL OR e.unstarted) INTO tokens, special
    FROM unnest(leases) AS e;
  IF special THEN
    FOREACH lease IN ARRAY leases LOOP
      IF lease.hold IS NOT NULL THEN
        PERFORM {schema}.hold_limits(lease, now);
      END IF;
    END LOOP;
    FOR cancelled IN
      SELECT e.limits, e.started_at, count(*) AS times FROM unnest(leases) AS e
        WHERE e.unstarted AND e.started_at IS NOT NULL GROUP BY e.limits, e.started_at
    LOOP
      given := given || {schema}.cancel_taken(cancelled.limits, cancelled.started_at, cancelled.times, now);
    END LOOP;
  END IF;
  RETURN given || {schema}.give_tokens(tokens, leases, now);
END
$$;
`,
  },
  {
    path: "limits/give_permit.sql",
    text: `-- Ends, takes back or corrects a permit, as its token tells it. One that is unknown, has ended or has expired changes nothing.
--
-- limit_id, number, reserved, taken_at, corrected_until: its token. how: 'released', 'cancelled' or 'used'. used: so much, of
-- the last of these.
CREATE OR REPLACE FUNCTION {schema}.give_permit(
  limit_id bigint, number bigint, reserved float8, taken_at float8, corrected_until float8, how text, used float8
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  limit_name text;
  now float8;
  held {schema}.holds;
  kept {schema}.limits;
  ended boolean;
  rule {schema}.limit_rule;
  given {schema}.limit_given[] := '{}';
BEGIN
  PERFORM {schema}.begin_step(false);
  -- After a reset what is held is kept elsewhere, under the same name.
  SELECT l.name INTO limit_name FROM {schema}.limits l
    WHERE l.id = give_permit.limit_id OR l.id IN (SELECT h.limit_id FROM {schema}.holds h WHERE h.token = number) LIMIT 1;
  IF limit_name IS NULL OR NOT {schema}.is_issued(number) THEN
    RETURN '{}';
  END IF;
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  now := {schema}.moment();
  SELECT * INTO held FROM {schema}.holds h WHERE h.token = number AND h.until > now;
  ended := held.token IS NULL AND EXISTS (SELECT FROM {schema}.starts s WHERE s.token = -number);
  IF held.token IS NULL AND NOT ended AND now >= corrected_until THEN
    RETURN '{}';
  END IF;
  IF ended AND how <> 'used' THEN
    RETURN '{}';
  END IF;
  kept := {schema}.limit_by_id(limit_id);
  IF how = 'used' THEN
    rule := {schema}.rule_named(limit_name);
    IF rule.max IS NOT NULL THEN
      IF kept.id IS NOT NULL AND {schema}.settle_permit(kept, number, reserved, corrected_until, used, now) THEN
        given := {schema}.window_freed(kept.name, kept.grp, now);
      END IF;
    ELSIF rule.name IS NOT NULL AND held.slots <> used THEN
      UPDATE {schema}.holds h SET slots = used WHERE h.limit_id = held.limit_id AND h.token = number;
      IF used < held.slots THEN
        given := {schema}.release_holds(ARRAY[held.limit_id], ARRAY[held.slots - used], ARRAY[held.at], now);
      END IF;
    END IF;
    RETURN json_build_object('everybody', {schema}.is_news(given, now));
  END IF;
  IF held.token IS NOT NULL THEN
    DELETE FROM {schema}.holds h WHERE h.limit_id = held.limit_id AND h.token = number;
    given := {schema}.release_holds(ARRAY[held.limit_id], ARRAY[held.slots], ARRAY[held.at], now);
  END IF;
  IF kept.id IS NOT NULL THEN
    IF how = 'cancelled' AND ({schema}.cancel_start(number) OR kept.window_ms IS NULL) THEN
      PERFORM {schema}.gauge_cancel(kept.id, taken_at);
      given := given || {schema}.window_freed(kept.name, kept.grp, now);
    END IF;
    PERFORM {schema}.end_start(kept.id, number, taken_at, corrected_until, now);
  END IF;
  RETURN json_build_object('everybody', {schema}.is_news(given, now));
END
$$;
`,
  },
  {
    path: "limits/give_slots.sql",
    text: `-- Jobs have given back so many slots of a limit: starts with these tokens (NULL: the breaker need not hear of it), that held
-- them since these instants. leases: how it went; NULL: well. Answers with what is_news has to hear.
CREATE OR REPLACE FUNCTION {schema}.give_slots(
  id bigint, slots float8, tokens bigint[], ats float8[], leases {schema}.ended_lease[], now float8
) RETURNS {schema}.limit_given[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  given {schema}.limit_given[] := '{}';
  one {schema}.limit_given;
  seen record;
BEGIN
  UPDATE {schema}.limits AS l SET held = greatest(0, l.held - slots) WHERE l.id = give_slots.id
    RETURNING l AS kept, (SELECT r.fields FROM {schema}.rules AS r WHERE r.name = l.name) AS rule,
      (SELECT sum(h.slots) FROM {schema}.holds AS h WHERE h.limit_id = l.id AND h.until > give_slots.now) AS permits
    INTO seen;
  IF NOT FOUND OR seen.rule IS NULL THEN
    RETURN given;
  END IF;
  -- Where there was room before, more of it is news for nobody but those who need more than one, or wait in a lane.
  IF (seen.rule).probes IS NULL AND (seen.rule).weight IS NULL AND NOT (seen.rule).by_group
    AND ((seen.rule).concurrency IS NULL
      OR (seen.kept).held + slots + coalesce(seen.permits, 0) + 1 <= (seen.rule).concurrency)
  THEN
    RETURN given;
  END IF;
  one := {schema}.release_hold(seen.kept, seen.rule, slots, ats, now);
  IF one.id IS NOT NULL THEN
    given := given || one;
  END IF;
  IF (seen.rule).probes IS NOT NULL AND tokens IS NOT NULL
    AND {schema}.tell_breaker(seen.kept, seen.rule, leases, tokens, ats, now)
  THEN
    given := given || {schema}.window_freed((seen.kept).name, (seen.kept).grp, now);
  END IF;
  RETURN given;
END
$$;
`,
  },
  {
    path: "limits/give_tokens.sql",
    text: `-- Starts with these tokens, in their order, have ended: what they held is given back, and breakers hear how it went: as the
-- leases say, or, if there are none, well. Answers with what was given back, to be judged by \`is_news\` when all of the step
-- is done.
CREATE OR REPLACE FUNCTION {schema}.give_tokens(
  tokens bigint[], leases {schema}.ended_lease[], now float8
) RETURNS {schema}.limit_given[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  given {schema}.limit_given[] := '{}';
  together record;
  ended record;
BEGIN
  IF coalesce(cardinality(tokens), 0) = 0 THEN
    RETURN given;
  END IF;
  together := {schema}.blocks_of(tokens);
  FOR i IN 1 .. cardinality(together.blocks) LOOP
    FOR ended IN
      UPDATE {schema}.holds AS h SET n = h.n - together.counts[i], slots = h.slots - together.counts[i]
        WHERE h.token = together.blocks[i] RETURNING h.limit_id, h.n, h.at
    LOOP
      IF ended.n <= 0 THEN
        DELETE FROM {schema}.holds AS h WHERE h.limit_id = ended.limit_id AND h.token = together.blocks[i];
      END IF;
      given := given
        || {schema}.give_slots(ended.limit_id, together.counts[i], NULL, ARRAY[ended.at], NULL, now);
    END LOOP;
  END LOOP;
  -- What each holds for itself.
  FOR ended IN
    WITH gone AS (
      DELETE FROM {schema}.holds AS h WHERE h.token = ANY (tokens) RETURNING h.limit_id, h.token, h.slots, h.at
    )
    SELECT gone.limit_id, sum(gone.slots) AS slots, array_agg(gone.token) AS tokens, array_agg(gone.at) AS ats
      FROM gone GROUP BY gone.limit_id
  LOOP
    given := given || {schema}.give_slots(ended.limit_id, ended.slots, ended.tokens, ended.ats, leases, now);
  END LOOP;
  RETURN given;
END
$$;
`,
  },
  {
    path: "limits/group_of.sql",
    text: `-- The name of the group that a lane or a state of a limit is for; NULL: of none.
CREATE OR REPLACE FUNCTION {schema}.group_of(grp text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN grp IN ('', '-') THEN NULL ELSE substr(grp, 2) END
$$;
`,
  },
  {
    path: "limits/heavy_heads.sql",
    text: `-- Jobs that are too heavy for what is left of a limit, and wait for it. One that is not there any more, or is paused, is waited
-- for by nobody. When its instant has come a heavy one is still waited for, for 100 ms: whoever claims it is on the way.
--
-- limit_name: which limit. lane_grps: of which groups, as lanes say it; NULL: of all. at: now.
CREATE OR REPLACE FUNCTION {schema}.heavy_heads(limit_name text, lane_grps text[], at float8)
RETURNS TABLE (lane bigint, grp text, priority float8, until float8, since float8)
LANGUAGE sql STABLE AS $$
  SELECT l.id, l.grp, l.priority, l.blocked_until, l.heavy_since FROM {schema}.lanes l
  WHERE l.blocked_by = limit_name AND l.blocked_until IS NOT NULL AND l.heavy IS NOT NULL AND l.blocked_until > at - 100
    AND (lane_grps IS NULL OR l.grp = ANY (lane_grps))
    AND EXISTS (SELECT FROM {schema}.jobs j WHERE j.queue COLLATE "POSIX" = l.queue AND j.state COLLATE "POSIX" = 'waiting'
      AND j.state COLLATE "POSIX" <> 'active' AND j.seq = l.heavy)
    AND NOT EXISTS (SELECT FROM {schema}.pauses p WHERE p.queue = l.queue AND p.type IN ('', ':' || l.type))
$$;
`,
  },
  {
    path: "limits/heavy_wait.sql",
    text: `-- How long somebody has to wait for the heavy jobs that wait for a limit; 0: not at all. Those of a lower priority are passed;
-- of the same priority those come first who have waited for longer.
--
-- limit_name, lane_grp: which limit, for which group, as lanes say it; NULL: for all. own_priority, own_lane, own_since: who
-- asks, and since when it waits for the limit itself ('Infinity': it does not). at: now. promptly: whoever claims them is there.
CREATE OR REPLACE FUNCTION {schema}.heavy_wait(
  limit_name text, lane_grp text, own_priority float8, own_lane bigint, own_since float8, at float8, promptly boolean
) RETURNS float8
LANGUAGE sql STABLE AS $$
  SELECT greatest(0, max(CASE
      WHEN h.until >= 1e18 THEN 'Infinity'
      WHEN h.until > at THEN h.until - at
      ELSE h.until + CASE WHEN promptly THEN 0 ELSE 100 END - at END))
  FROM {schema}.heavy_heads(limit_name, CASE WHEN lane_grp IS NOT NULL THEN ARRAY[lane_grp] END, at) h
  WHERE h.lane <> own_lane AND h.priority >= own_priority
    AND (h.priority > own_priority OR h.since < own_since OR (h.since = own_since AND h.lane < own_lane))
$$;
`,
  },
  {
    path: "limits/held_of.sql",
    text: `-- What is held of a limit: all slots together, how many starts since the breaker went half-open are under way, and when the
-- next of what is held runs out by itself ('Infinity': only somebody can give it back). job_slots: what jobs hold of it.
-- open_until: since when starts are probes; NULL: none is.
CREATE OR REPLACE FUNCTION {schema}.held_of(
  id bigint, job_slots float8, open_until float8, now float8, OUT slots float8, OUT probes float8, OUT expires_in float8
)
LANGUAGE plpgsql STABLE AS $$
BEGIN
  slots := job_slots;
  probes := 0;
  expires_in := 'Infinity';
  IF id IS NULL THEN
    slots := 0;
    RETURN;
  END IF;
  SELECT job_slots + coalesce(sum(h.slots), 0), coalesce(min(h.until) - now, 'Infinity') INTO slots, expires_in
    FROM {schema}.holds AS h WHERE h.limit_id = held_of.id AND h.until > now;
  IF open_until IS NOT NULL THEN
    SELECT count(*) INTO probes FROM {schema}.holds AS h
      WHERE h.limit_id = held_of.id AND h.at >= open_until AND (h.until IS NULL OR h.until > now);
  END IF;
END
$$;
`,
  },
  {
    path: "limits/hold_limit.sql",
    text: `-- Nothing starts under a limit for so long, in one group; of a limit that is not by group, at all. It only ever extends. What
-- holds all groups of a limit is kept with its rule: write_rules.
CREATE OR REPLACE FUNCTION {schema}.hold_limit(limit_name text, grp text, hold_ms float8) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  rule {schema}.limit_rule;
  now float8;
BEGIN
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  rule := {schema}.rule_named(limit_name);
  IF rule.name IS NULL THEN
    RETURN '{"missing":true}';
  END IF;
  IF rule.by_group AND grp IS NULL THEN
    RETURN '{"again":true}';
  END IF;
  now := {schema}.moment();
  PERFORM {schema}.gauge_hold(limit_name, {schema}.state_grp(rule.by_group, grp), now + hold_ms, now);
  RETURN '{}';
END
$$;
`,
  },
  {
    path: "limits/hold_limits.sql",
    text: `-- What a service said about its limits: nothing starts under them for a while; under those by group, in the group of the job.
CREATE OR REPLACE FUNCTION {schema}.hold_limits(lease {schema}.ended_lease, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  name text;
  by_group boolean;
BEGIN
  FOREACH name IN ARRAY {schema}.names_to_hold(lease) LOOP
    by_group := ({schema}.rule_named(name)).by_group;
    PERFORM {schema}.gauge_hold(name, {schema}.state_grp(coalesce(by_group, false), lease.grp),
      now + (lease.hold ->> 'forMs')::float8, now);
  END LOOP;
END
$$;
`,
  },
  {
    path: "limits/hold_singly.sql",
    text: `-- What jobs that were claimed together hold of a limit in one row, they hold each for itself from now on. Whoever calls it is
-- alone.
CREATE OR REPLACE FUNCTION {schema}.hold_singly(name text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  WITH block AS (
    DELETE FROM {schema}.holds AS h USING {schema}.limits AS l
      WHERE l.name = hold_singly.name AND h.limit_id = l.id AND h.token < 0 RETURNING h.limit_id, h.token, h.at
  )
  INSERT INTO {schema}.holds (limit_id, token, slots, at)
    SELECT block.limit_id, j.token, 1, block.at FROM block
      JOIN {schema}.jobs AS j ON j.state = 'active' AND {schema}.block_of(j.token) = block.token;
END
$$;
`,
  },
  {
    path: "limits/is_idle.sql",
    text: `-- Is nothing held of a limit, and nothing in its way?
CREATE OR REPLACE FUNCTION {schema}.is_idle(kept {schema}.limits, now float8) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
  rule {schema}.limit_rule;
  every_ms float8;
BEGIN
  IF kept.pause_until > now OR kept.told_until > now OR kept.failures <> 0 OR kept.open_until IS NOT NULL
    OR kept.held <> 0
  THEN
    RETURN false;
  END IF;
  rule := {schema}.rule_named(kept.name);
  every_ms := ({schema}.quota_of(rule, {schema}.group_of(kept.grp))).every_ms;
  IF now - kept.latest_at < coalesce(every_ms, 0) THEN
    RETURN false;
  END IF;
  RETURN NOT EXISTS (SELECT FROM {schema}.holds AS h WHERE h.limit_id = kept.id);
END
$$;
`,
  },
  {
    path: "limits/is_issued.sql",
    text: `-- Was this number ever given to a start or a permit?
CREATE OR REPLACE FUNCTION {schema}.is_issued(number bigint) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT number > 0 AND number <= last_value FROM {schema}.numbers
$$;
`,
  },
  {
    path: "limits/is_news.sql",
    text: `-- Does one more wait less, after all of the step, than it did before the step gave something back? Of what was given back
-- several times the first is how it was before. What the step has taken again is no news for anybody.
CREATE OR REPLACE FUNCTION {schema}.is_news(given {schema}.limit_given[], now float8) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  one {schema}.limit_given;
  rule {schema}.limit_rule;
  meter {schema}.limit_meter;
  account {schema}.limit_account;
  judged bigint[] := '{}';
  awaited boolean;
BEGIN
  IF coalesce(cardinality(given), 0) = 0 THEN
    RETURN false;
  END IF;
  FOREACH one IN ARRAY given LOOP
    IF one.id IS NULL THEN
      RETURN true;
    END IF;
  END LOOP;
  FOREACH one IN ARRAY given LOOP
    CONTINUE WHEN one.id = ANY (judged);
    judged := judged || one.id;
    rule := {schema}.rule_named(one.name);
    CONTINUE WHEN rule.name IS NULL;
    awaited := one.awaited OR EXISTS (SELECT FROM unnest(given) AS other WHERE other.id = one.id AND other.awaited);
    -- Of a group it matters to those who waited for it, and have not been told by anything else.
    CONTINUE WHEN rule.by_group AND NOT awaited;
    -- Whoever is heavier than others waits for more than one, and has to look after every change.
    IF rule.weight IS NOT NULL AND awaited THEN
      RETURN true;
    END IF;
    CONTINUE WHEN one.wait = 0 AND (rule.weight IS NULL OR rule.max IS NOT NULL);
    account := {schema}.open_account(one.name, one.grp);
    now := greatest(now, account.newest, account.latest_at);
    meter := {schema}.meter_of(rule, {schema}.group_of(one.grp));
    meter.holds := true;
    account := {schema}.watch(account, meter, now, false);
    IF rule.weight IS NOT NULL AND rule.max IS NULL AND account.held < one.slots THEN
      RETURN true;
    END IF;
    CONTINUE WHEN one.wait = 0;
    IF rule.probes IS NULL AND account.held >= meter.concurrency THEN
      IF account.expires_in < one.wait THEN
        RETURN true;
      END IF;
      CONTINUE;
    END IF;
    meter.used := {schema}.meter_used(account, meter, now);
    IF ({schema}.verdict(meter, account, 1, 1, now)).wait < one.wait THEN
      RETURN true;
    END IF;
  END LOOP;
  RETURN false;
END
$$;
`,
  },
  {
    path: "limits/is_uniform.sql",
    text: `-- Do all jobs that a claim may take run under the same limits, and count for one under each of them?
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
`,
  },
  {
    path: "limits/keep_total.sql",
    text: `-- Writes down what is in use now, of a window of this length.
CREATE OR REPLACE FUNCTION {schema}.keep_total(id bigint, window_ms float8, used float8, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  UPDATE {schema}.limits AS l SET window_ms = keep_total.window_ms, used = keep_total.used, seen_at = keep_total.now
    WHERE l.id = keep_total.id;
END
$$;
`,
  },
  {
    path: "limits/kept_accounts.sql",
    text: `-- What is kept of many limits, each for one group, as a step sees it that has taken nothing yet (limits/open_account.sql,
-- limits/watch.sql), all read together: the account, what is in use of its window, and when its latest start was.
--
-- names, states: which limits, for which groups, as \`limits\` says it. windows: the window of each, or NULL. holding: is what is
-- held of it asked for? now: the time.
CREATE OR REPLACE FUNCTION {schema}.kept_accounts(
  names text[], states text[], windows float8[], holding boolean[], now float8
) RETURNS TABLE (place bigint, account {schema}.limit_account, used float8, latest float8)
LANGUAGE sql STABLE AS $$
  SELECT a.place, ROW(l.id, a.name, a.grp, l.latest_at, l.pause_until, l.told_left, l.told_until, l.open_until, l.window_ms,
      l.used, l.seen_at, l.longest, l.newest, l.forgotten_at, coalesce(l.held, 0),
      CASE WHEN a.holding THEN coalesce(l.held, 0) + coalesce(h.slots, 0) END,
      CASE WHEN a.holding THEN coalesce(p.probes, 0) END,
      CASE WHEN a.holding THEN coalesce(h.until - now, 'Infinity') END,
      a.window_ms, 0, w.used, CASE WHEN a.window_ms IS NOT NULL THEN now END, 0, 0, 0, 0, 0)::{schema}.limit_account,
    w.used, greatest(l.newest, l.latest_at)
  FROM unnest(names, states, windows, holding) WITH ORDINALITY AS a (name, grp, window_ms, holding, place)
    LEFT JOIN LATERAL (SELECT k.* FROM {schema}.limits k WHERE k.name = a.name AND k.grp = a.grp LIMIT 1) l ON true
    LEFT JOIN LATERAL (
      SELECT sum(o.slots) AS slots, min(o.until) AS until FROM {schema}.holds o
      WHERE a.holding AND o.limit_id = l.id AND o.until > now
    ) h ON true
    LEFT JOIN LATERAL (
      SELECT count(*) AS probes FROM {schema}.holds o
      WHERE a.holding AND l.open_until IS NOT NULL AND o.limit_id = l.id AND o.at >= l.open_until
        AND (o.until IS NULL OR o.until > now)
    ) p ON true
    LEFT JOIN LATERAL (
      -- As in limits/window_used.sql.
      SELECT CASE WHEN a.window_ms IS NULL THEN NULL WHEN l.id IS NULL THEN 0
        WHEN l.window_ms IS DISTINCT FROM a.window_ms OR l.seen_at > now THEN (
          SELECT coalesce(sum(s.n), 0) FROM {schema}.starts s
          WHERE s.limit_id = l.id AND s.at > now - a.window_ms - 1 AND now - s.at < a.window_ms)
        WHEN l.used = 0 OR l.seen_at = now THEN l.used
        ELSE l.used - (
          SELECT coalesce(sum(s.n), 0) FROM {schema}.starts s
          WHERE s.limit_id = l.id AND s.at > l.seen_at - a.window_ms - 1 AND l.seen_at - s.at < a.window_ms
            AND s.at < now - a.window_ms + 1 AND now - s.at >= a.window_ms) END AS used
    ) w ON true
$$;
`,
  },
  {
    path: "limits/lane_grp.sql",
    text: `-- The lanes that a state by group is for: a lane says '' where there is no group.
CREATE OR REPLACE FUNCTION {schema}.lane_grp(grp text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN grp = '-' THEN '' ELSE grp END
$$;
`,
  },
  {
    path: "limits/limit_by_id.sql",
    text: `-- What is kept under this number. All of it is NULL where nothing is, or where it was cleared since.
CREATE OR REPLACE FUNCTION {schema}.limit_by_id(id bigint) RETURNS {schema}.limits
LANGUAGE plpgsql STABLE AS $$
DECLARE
  found {schema}.limits;
BEGIN
  SELECT * INTO found FROM {schema}.limits AS l WHERE l.id = limit_by_id.id;
  RETURN found;
END
$$;
`,
  },
  {
    path: "limits/limit_wait.sql",
    text: `-- The same, without a reason: where whatever is not a matter of numbers is not in the way, and the numbers leave room, the
-- question ends here. Most do.
CREATE OR REPLACE FUNCTION {schema}.limit_wait(
  meter {schema}.limit_meter, account {schema}.limit_account, weight float8, slots float8, now float8
) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF NOT meter.paused AND meter.every_ms IS NULL
    AND (meter.held_until IS NULL OR meter.held_until <= now)
    AND (account.pause_until IS NULL OR account.pause_until <= now)
    AND (account.told_until IS NULL OR account.told_until <= now)
    AND (meter.probes IS NULL OR account.open_until IS NULL)
    AND (meter.concurrency IS NULL OR account.held + slots <= meter.concurrency)
    AND (meter.max IS NULL OR meter.window_ms IS NULL OR (
      meter.max > 0 AND meter.used + account.taken + weight <= meter.max
      AND (meter.blind_until IS NULL OR meter.blind_until <= now)
      AND (account.forgotten_at IS NULL OR now - account.forgotten_at >= meter.window_ms)))
  THEN
    RETURN 0;
  END IF;
  RETURN ({schema}.verdict(meter, account, weight, slots, now)).wait;
END
$$;
`,
  },
  {
    path: "limits/limits_of.sql",
    text: `-- The names of the limits that \`give_back\` will write to for these leases: what they hold, what they took and never used, and
-- what they are to hold up. Read before the locks: under the rules lock nothing is held of other names than before.
CREATE OR REPLACE FUNCTION {schema}.limits_of(leases {schema}.ended_lease[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  names text[];
  tokens bigint[];
  cancels boolean;
  holds boolean;
  lease {schema}.ended_lease;
BEGIN
  SELECT array_agg(e.token ORDER BY e.token), bool_or(e.unstarted), bool_or(e.hold IS NOT NULL) INTO tokens, cancels, holds
    FROM unnest(leases) AS e;
  names := {schema}.limits_of_tokens(tokens);
  IF cancels THEN
    names := names || ARRAY(SELECT DISTINCT l.name
      FROM (SELECT DISTINCT e.limits FROM unnest(leases) AS e WHERE e.unstarted) AS cancelled
        CROSS JOIN LATERAL jsonb_array_elements(cancelled.limits) AS taken
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
`,
  },
  {
    path: "limits/limits_of_report.sql",
    text: `-- The names of the limits that \`correct_weights\` may write to for jobs that run: what they took (limits), and what they hold
-- each for itself.
CREATE OR REPLACE FUNCTION {schema}.limits_of_report(tokens bigint[], limits jsonb[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN ARRAY(
    SELECT l.name FROM {schema}.holds AS h JOIN {schema}.limits AS l ON l.id = h.limit_id WHERE h.token = ANY (tokens)
    UNION
    SELECT l.name FROM unnest(limits_of_report.limits) AS list, jsonb_array_elements(list) AS taken
      JOIN {schema}.limits AS l ON l.id = (taken ->> 0)::bigint);
END
$$;
`,
  },
  {
    path: "limits/limits_of_tokens.sql",
    text: `-- The names of the limits of which starts with these tokens, in their order, hold something.
CREATE OR REPLACE FUNCTION {schema}.limits_of_tokens(tokens bigint[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF coalesce(cardinality(tokens), 0) = 0 THEN
    RETURN '{}';
  END IF;
  RETURN ARRAY(SELECT DISTINCT l.name FROM {schema}.holds AS h JOIN {schema}.limits AS l ON l.id = h.limit_id
    WHERE h.token = ANY (tokens || ({schema}.blocks_of(tokens)).blocks));
END
$$;
`,
  },
  {
    path: "limits/meter_of.sql",
    text: `-- A rule as it holds for the group of a job, or for jobs without one. Nothing is looked up.
CREATE OR REPLACE FUNCTION {schema}.meter_of(rule {schema}.limit_rule, grp text) RETURNS {schema}.limit_meter
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  meter {schema}.limit_meter;
  quota {schema}.limit_quota;
BEGIN
  meter.name := rule.name;
  meter.by_group := rule.by_group;
  IF rule.by_group THEN
    quota := {schema}.quota_of(rule, grp);
    meter.grp := grp;
    meter.max := quota.max;
    meter.window_ms := quota.window_ms;
    meter.concurrency := quota.concurrency;
    meter.every_ms := quota.every_ms;
    meter.share := quota.share;
  ELSE
    meter.max := rule.max;
    meter.window_ms := rule.window_ms;
    meter.concurrency := rule.concurrency;
    meter.every_ms := rule.every_ms;
    meter.share := 1;
  END IF;
  meter.weight := rule.weight;
  meter.estimate := rule.estimate;
  meter.weighs_window := rule.max IS NOT NULL;
  meter.probes := rule.probes;
  meter.paused := rule.paused;
  meter.held_until := rule.held_until;
  meter.blind_until := rule.blind_until;
  meter.holds := rule.probes IS NOT NULL OR meter.concurrency IS NOT NULL;
  -- A start may be corrected when its group has long been idle: until its lease ends, the group is remembered.
  meter.pins := NOT meter.holds AND rule.by_group AND rule.weight IS NOT NULL AND rule.max IS NOT NULL;
  meter.used := 0;
  RETURN meter;
END
$$;
`,
  },
  {
    path: "limits/meter_used.sql",
    text: `-- How much of the window of a rule was in use before the step; 0 without one. After \`watch\`.
CREATE OR REPLACE FUNCTION {schema}.meter_used(
  account {schema}.limit_account, meter {schema}.limit_meter, now float8
) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF meter.max IS NULL OR meter.window_ms IS NULL THEN
    RETURN 0;
  END IF;
  IF meter.window_ms = account.watch_ms THEN
    RETURN account.before;
  END IF;
  RETURN {schema}.window_used(account.id, account.window_ms, account.used, account.seen_at, meter.window_ms, now);
END
$$;
`,
  },
  {
    path: "limits/names_of.sql",
    text: `-- Under which names these rules count.
CREATE OR REPLACE FUNCTION {schema}.names_of(rules {schema}.limit_rule[]) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  names text[] := '{}';
  rule {schema}.limit_rule;
BEGIN
  FOREACH rule IN ARRAY rules LOOP
    IF NOT rule.name = ANY (names) THEN
      names := names || rule.name;
    END IF;
  END LOOP;
  RETURN names;
END
$$;
`,
  },
  {
    path: "limits/names_to_hold.sql",
    text: `-- The names of the limits that a service holds up, by what a job said that got to hear of it: those that it named, and all
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
`,
  },
  {
    path: "limits/next_prune.sql",
    text: `-- When to look again at a name whose starts are kept for so long. Busy names are looked at now and then, not at every turn.
CREATE OR REPLACE FUNCTION {schema}.next_prune(now float8, oldest float8, longest float8) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT greatest(now + 1000 + longest / 10, oldest + longest + 1)
$$;
`,
  },
  {
    path: "limits/open_account.sql",
    text: `-- What is kept of one limit, for one group or for all, before the step has taken anything of it. Whoever decides about a
-- start decides no earlier than its newest and latest_at, whatever the clock says.
CREATE OR REPLACE FUNCTION {schema}.open_account(name text, grp text) RETURNS {schema}.limit_account
LANGUAGE plpgsql STABLE AS $$
DECLARE
  account {schema}.limit_account;
BEGIN
  SELECT l.id, open_account.name, open_account.grp, l.latest_at, l.pause_until, l.told_left, l.told_until, l.open_until,
      l.window_ms, l.used, l.seen_at, l.longest, l.newest, l.forgotten_at, l.held,
      NULL, NULL, NULL, NULL, 0, NULL, NULL, 0, 0, 0, 0, 0
    INTO account
    FROM {schema}.limits AS l WHERE l.name = open_account.name AND l.grp = open_account.grp;
  IF NOT FOUND THEN
    account.name := open_account.name;
    account.grp := open_account.grp;
    account.job_slots := 0;
    account.resolution := 0;
    account.latest := 0;
    account.charged := 0;
    account.taken := 0;
    account.starts := 0;
    account.entry := 0;
  END IF;
  RETURN account;
END
$$;
`,
  },
  {
    path: "limits/open_limit.sql",
    text: `-- What is kept under this name; from now on its starts are kept for at least so long.
CREATE OR REPLACE FUNCTION {schema}.open_limit(name text, longest float8, grp text, now float8) RETURNS {schema}.limits
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  kept {schema}.limits;
BEGIN
  SELECT * INTO kept FROM {schema}.limits AS l WHERE l.name = open_limit.name AND l.grp = open_limit.grp;
  IF kept.longest >= open_limit.longest THEN
    RETURN kept;
  END IF;
  INSERT INTO {schema}.limits AS l (name, grp, longest, prune_at)
    VALUES (open_limit.name, open_limit.grp, open_limit.longest, now + open_limit.longest)
    ON CONFLICT ON CONSTRAINT limits_name_grp_key DO UPDATE SET longest = greatest(l.longest, excluded.longest)
    RETURNING * INTO kept;
  RETURN kept;
END
$$;
`,
  },
  {
    path: "limits/prune_holds.sql",
    text: `-- Deletes permits that have run out, a step of them. Nobody counts them any more.
CREATE OR REPLACE FUNCTION {schema}.prune_holds(now float8) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  deleted integer;
BEGIN
  DELETE FROM {schema}.holds AS h USING (
    SELECT old.limit_id, old.token FROM {schema}.holds AS old WHERE old.until <= now
      ORDER BY old.until LIMIT 500 FOR UPDATE SKIP LOCKED
  ) AS gone WHERE h.limit_id = gone.limit_id AND h.token = gone.token;
  GET DIAGNOSTICS deleted = ROW_COUNT;
  RETURN deleted;
END
$$;
`,
  },
  {
    path: "limits/prune_limit.sql",
    text: `-- Deletes what need not be kept of one limit, and the limit itself where nobody uses it. Answers how many rows. There may be
-- very many groups: what does not count any more is dropped at once, and whole; a name is remembered for a day, for nobody
-- is likely to ask for a longer window then.
CREATE OR REPLACE FUNCTION {schema}.prune_limit(id bigint, now float8) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  kept {schema}.limits;
  deleted integer;
  forgotten float8;
  oldest float8;
  again float8;
BEGIN
  SELECT * INTO kept FROM {schema}.limits AS l WHERE l.id = prune_limit.id;
  IF NOT FOUND THEN
    RETURN 0;
  END IF;
  IF kept.grp <> '' AND (kept.newest IS NULL OR now - kept.newest >= kept.longest) AND {schema}.is_idle(kept, now) THEN
    RETURN {schema}.drop_idle(kept, now);
  END IF;
  SELECT f.deleted, f.newest INTO deleted, forgotten FROM {schema}.forget_starts(kept, now) AS f;
  SELECT s.at INTO oldest FROM {schema}.starts AS s WHERE s.limit_id = kept.id ORDER BY s.at, s.seq LIMIT 1;
  IF kept.grp <> '' THEN
    again := greatest({schema}.next_prune(now, NULL, kept.longest), kept.newest + kept.longest, kept.pause_until);
  ELSIF deleted > 0 THEN
    again := {schema}.next_prune(now, oldest, kept.longest);
  ELSIF oldest IS NOT NULL OR NOT {schema}.is_idle(kept, now) THEN
    again := greatest({schema}.next_prune(now, oldest, kept.longest), kept.pause_until);
  ELSE
    again := greatest(kept.forgotten_at, kept.pause_until, kept.latest_at, 0) + 86400000 + kept.longest;
    IF again <= now THEN
      DELETE FROM {schema}.limits AS l WHERE l.id = kept.id;
      RETURN 1;
    END IF;
  END IF;
  UPDATE {schema}.limits AS l
    SET prune_at = CASE WHEN deleted = 500 THEN prune_limit.now ELSE again END,
      forgotten_at = greatest(l.forgotten_at, forgotten)
    WHERE l.id = kept.id;
  RETURN deleted;
END
$$;
`,
  },
  {
    path: "limits/prune_limits.sql",
    text: `-- Deletes starts that no window can see, and names that nobody uses, a step of them. Names that somebody works under just now
-- are left for another time: this waits for nobody. It is the last thing that a step does, for it may write down the time.
CREATE OR REPLACE FUNCTION {schema}.prune_limits(now float8) RETURNS {schema}.pruned
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  ripe record;
  looked integer := 0;
  deleted integer := 0;
BEGIN
  FOR ripe IN SELECT l.id, l.name FROM {schema}.limits AS l WHERE l.prune_at <= now ORDER BY l.prune_at LIMIT 100 LOOP
    IF deleted >= 500 THEN
      RETURN (deleted, true)::{schema}.pruned;
    END IF;
    CONTINUE WHEN NOT pg_try_advisory_xact_lock({schema}.lock_key('limit', ripe.name));
    deleted := deleted + {schema}.prune_limit(ripe.id, now);
    looked := looked + 1;
  END LOOP;
  RETURN (deleted, looked = 100)::{schema}.pruned;
END
$$;
`,
  },
  {
    path: "limits/quota_of.sql",
    text: `-- What holds for a group of a rule: what is different for it, and else what holds for all.
CREATE OR REPLACE FUNCTION {schema}.quota_of(rule {schema}.limit_rule, grp text) RETURNS {schema}.limit_quota
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  quota {schema}.limit_quota := (rule.max, rule.window_ms, rule.concurrency, rule.every_ms, 1);
  own jsonb;
BEGIN
  IF rule.groups IS NULL OR NOT rule.by_group OR grp IS NULL THEN
    RETURN quota;
  END IF;
  own := rule.groups -> grp;
  IF own IS NULL THEN
    RETURN quota;
  END IF;
  -- What is said to be nothing is nothing.
  IF own ? 'max' THEN
    quota.max := (own ->> 'max')::float8;
  END IF;
  IF own ? 'windowMs' THEN
    quota.window_ms := (own ->> 'windowMs')::float8;
  END IF;
  IF own ? 'concurrency' THEN
    quota.concurrency := (own ->> 'concurrency')::float8;
  END IF;
  IF own ? 'everyMs' THEN
    quota.every_ms := (own ->> 'everyMs')::float8;
  END IF;
  quota.share := coalesce((own ->> 'share')::integer, 1);
  RETURN quota;
END
$$;
`,
  },
  {
    path: "limits/read_limits.sql",
    text: `-- What there is of limits, by name, and what waits in all queues (limits/reading.ts): one look, without any lock.
--
-- wanted: one limit, or NULL. asked: of limits by group this group, or NULL.
CREATE OR REPLACE FUNCTION {schema}.read_limits(wanted text, asked text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8 := {schema}.present();
  waiting jsonb;
  limits jsonb;
BEGIN
  SELECT coalesce(jsonb_agg(to_jsonb(w)), '[]') INTO waiting FROM {schema}.waiting_jobs(NULL, now) w;
  SELECT coalesce(jsonb_agg(jsonb_build_object('stored', r.stored) || {schema}.seen_states(r.rule, asked, now)
      ORDER BY r.name), '[]')
    INTO limits FROM {schema}.rules r WHERE wanted IS NULL OR r.name = wanted;
  RETURN jsonb_build_object('waiting', waiting, 'limits', limits)::text;
END
$$;
`,
  },
  {
    path: "limits/read_rule.sql",
    text: `-- A rule, taken out of its JSON (LimitRule in limits/rule.ts).
CREATE OR REPLACE FUNCTION {schema}.read_rule(rule jsonb) RETURNS {schema}.limit_rule
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  read {schema}.limit_rule;
  quota jsonb := rule -> 'quota';
  breaker jsonb := nullif(rule -> 'breaker', 'null');
BEGIN
  read.name := rule ->> 'name';
  read.by_group := coalesce((rule ->> 'byGroup')::boolean, false);
  read.types := {schema}.texts_of(rule -> 'types');
  read.queues := {schema}.texts_of(rule -> 'queues');
  read.max := (quota ->> 'max')::float8;
  read.window_ms := (quota ->> 'windowMs')::float8;
  read.concurrency := (quota ->> 'concurrency')::float8;
  read.every_ms := (quota ->> 'everyMs')::float8;
  read.groups := nullif(nullif(rule -> 'groups', '{}'), 'null');
  read.weight := rule ->> 'weight';
  read.estimate := coalesce((rule ->> 'estimate')::float8, 1);
  read.paused := coalesce((rule ->> 'paused')::boolean, false);
  read.held_until := (rule ->> 'heldUntil')::float8;
  read.blind_until := (rule ->> 'blindUntil')::float8;
  IF breaker IS NOT NULL THEN
    read.failures := (breaker ->> 'failures')::integer;
    read.open_ms := (breaker ->> 'openMs')::float8;
    read.probes := (breaker ->> 'probes')::integer;
    read.kinds := {schema}.texts_of(breaker -> 'kinds');
  END IF;
  RETURN read;
END
$$;
`,
  },
  {
    path: "limits/read_rules.sql",
    text: `-- All rules, as they are stored, and the number of the book they are in.
CREATE OR REPLACE FUNCTION {schema}.read_rules() RETURNS json
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT json_build_object('number', m.rules, 'stored',
    (SELECT coalesce(json_agg(json_build_array(r.name, r.stored)), '[]') FROM {schema}.rules r))
  FROM {schema}.meta m
$$;
`,
  },
  {
    path: "limits/record_named.sql",
    text: `-- Counts a start under a token of its own. spent: what was charged for it before, and has left every window. until: so long it
-- is kept at least.
CREATE OR REPLACE FUNCTION {schema}.record_named(
  id bigint, n float8, token bigint, spent float8, until float8, now float8
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  moment float8;
BEGIN
  UPDATE {schema}.limits AS l SET newest = greatest(l.newest, record_named.now) WHERE l.id = record_named.id
    RETURNING l.newest INTO moment;
  INSERT INTO {schema}.starts (limit_id, at, since, n, token, spent)
    VALUES (record_named.id, moment, greatest(moment, until), record_named.n, record_named.token, record_named.spent);
  PERFORM {schema}.shift_total(id, moment, n);
END
$$;
`,
  },
  {
    path: "limits/record_starts.sql",
    text: `-- Counts \`n\` starts that nobody can name, and answers where, and when.
CREATE OR REPLACE FUNCTION {schema}.record_starts(id bigint, n float8, now float8) RETURNS {schema}.start_place
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  newest float8;
  moment float8;
  place bigint;
BEGIN
  SELECT l.newest INTO newest FROM {schema}.limits AS l WHERE l.id = record_starts.id;
  moment := greatest(now, newest);
  place := {schema}.enter_starts(id, newest, n, 0, now);
  UPDATE {schema}.limits AS l SET newest = moment WHERE l.id = record_starts.id;
  PERFORM {schema}.shift_total(id, moment, n);
  RETURN (place, moment)::{schema}.start_place;
END
$$;
`,
  },
  {
    path: "limits/release_hold.sql",
    text: `-- So many slots of a limit have been given back, that were held since these instants: lanes that waited for them may look
-- again at once. Answers with how long one more had to wait for them before, for is_news; NULL: nobody need know. What jobs
-- hold is written already.
CREATE OR REPLACE FUNCTION {schema}.release_hold(
  kept {schema}.limits, rule {schema}.limit_rule, slots float8, ats float8[], now float8
) RETURNS {schema}.limit_given
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  given {schema}.limit_given;
  open_until float8 := CASE WHEN rule.probes IS NOT NULL THEN kept.open_until END;
  concurrency float8 := rule.concurrency;
  held record;
BEGIN
  -- What held nothing only kept a group in mind.
  IF rule.name IS NULL OR (slots = 0 AND rule.probes IS NULL) THEN
    RETURN NULL;
  END IF;
  given.awaited := false;
  IF rule.by_group THEN
    concurrency := ({schema}.quota_of(rule, {schema}.group_of(kept.grp))).concurrency;
    given.awaited := {schema}.unblock_lanes(rule.name, ARRAY[{schema}.lane_grp(kept.grp)], now);
  ELSIF rule.weight IS NOT NULL THEN
    given.awaited := {schema}.unblock_lanes(rule.name, NULL, now);
  END IF;
  held := {schema}.held_of(kept.id, kept.held, open_until, now);
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
  -- Where there was room, more of it is news only for those who need more than one.
  IF given.wait = 0 AND rule.weight IS NULL THEN
    RETURN NULL;
  END IF;
  RETURN given;
END
$$;
`,
  },
  {
    path: "limits/release_holds.sql",
    text: `-- Permits have given back so many slots of these limits each, that were held since these instants.
CREATE OR REPLACE FUNCTION {schema}.release_holds(
  ids bigint[], slots float8[], ats float8[], now float8
) RETURNS {schema}.limit_given[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  given {schema}.limit_given[] := '{}';
  one {schema}.limit_given;
  kept {schema}.limits;
BEGIN
  FOR i IN 1 .. coalesce(cardinality(ids), 0) LOOP
    SELECT * INTO kept FROM {schema}.limits AS l WHERE l.id = ids[i];
    CONTINUE WHEN NOT FOUND;
    one := {schema}.release_hold(kept, {schema}.rule_named(kept.name), release_holds.slots[i], ARRAY[ats[i]], now);
    IF one.id IS NOT NULL THEN
      given := given || one;
    END IF;
  END LOOP;
  RETURN given;
END
$$;
`,
  },
  {
    path: "limits/renew_permits.sql",
    text: `-- Keeps what permits hold, for so long from now at least. Answers with the numbers of those that hold something still: what
-- has expired is never revived.
--
-- numbers: a list of them.
CREATE OR REPLACE FUNCTION {schema}.renew_permits(numbers jsonb, ttl_ms float8) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  tokens bigint[] := ARRAY(SELECT value::bigint FROM jsonb_array_elements_text(numbers));
  names text[];
  now float8;
  kept jsonb;
BEGIN
  -- Whoever would need very many locks is alone instead.
  PERFORM {schema}.begin_step(cardinality(tokens) > 64);
  IF cardinality(tokens) <= 64 THEN
    SELECT array_agg(DISTINCT l.name) INTO names
      FROM {schema}.holds h JOIN {schema}.limits l ON l.id = h.limit_id WHERE h.token = ANY (tokens);
    PERFORM {schema}.lock_limits(names);
  END IF;
  now := {schema}.moment();
  WITH renewed AS (
    UPDATE {schema}.holds h SET until = greatest(h.until, now + ttl_ms) WHERE h.token = ANY (tokens) AND h.until > now
    RETURNING h.token
  )
  SELECT coalesce(jsonb_agg(token), '[]') INTO kept FROM renewed;
  RETURN jsonb_build_object('kept', kept);
END
$$;
`,
  },
  {
    path: "limits/reset_limit.sql",
    text: `-- Forgets what was counted. What is held stays held, under another id: whatever names the old one names nothing then.
CREATE OR REPLACE FUNCTION {schema}.reset_limit(id bigint, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  kept {schema}.limits;
  anew bigint;
BEGIN
  DELETE FROM {schema}.starts AS s WHERE s.limit_id = reset_limit.id;
  DELETE FROM {schema}.limits AS l WHERE l.id = reset_limit.id RETURNING * INTO kept;
  IF EXISTS (SELECT FROM {schema}.holds AS h WHERE h.limit_id = reset_limit.id) THEN
    INSERT INTO {schema}.limits AS l (name, grp, longest, prune_at, held)
      VALUES (kept.name, kept.grp, kept.longest, now + kept.longest, kept.held) RETURNING l.id INTO anew;
    UPDATE {schema}.holds AS h SET limit_id = anew WHERE h.limit_id = reset_limit.id;
  END IF;
END
$$;
`,
  },
  {
    path: "limits/rule_instants.sql",
    text: `-- Until when a rule holds everything, and until when its windows are full for want of knowledge: those of \`heldUntil\` and
-- \`blindUntil\` that there are, as limits/write_rules.sql is told.
--
-- before: the rule as it was kept, or NULL. change: what becomes of it.
CREATE OR REPLACE FUNCTION {schema}.rule_instants(before jsonb, change jsonb, now float8) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object(
    'heldUntil', CASE jsonb_typeof(change -> 'held')
      WHEN 'number' THEN to_jsonb(greatest(now + (change ->> 'held')::float8, (before ->> 'heldUntil')::float8))
      WHEN 'boolean' THEN before -> 'heldUntil' END,
    'blindUntil', CASE jsonb_typeof(change -> 'blind')
      WHEN 'number' THEN to_jsonb(greatest(now + (change ->> 'blind')::float8, (before ->> 'blindUntil')::float8))
      WHEN 'boolean' THEN before -> 'blindUntil' END))
$$;
`,
  },
  {
    path: "limits/rule_named.sql",
    text: `-- The rule in force under this name. Its name is NULL where there is none.
CREATE OR REPLACE FUNCTION {schema}.rule_named(name text) RETURNS {schema}.limit_rule
LANGUAGE plpgsql STABLE AS $$
DECLARE
  rule {schema}.limit_rule;
BEGIN
  SELECT (r.fields).* INTO rule FROM {schema}.rules AS r WHERE r.name = rule_named.name;
  RETURN rule;
END
$$;
`,
  },
  {
    path: "limits/rules_for.sql",
    text: `-- What the jobs that a claim may take run under: the rules in force, by name, and then what the claim brings along.
-- types: what it asks for; NULL: any. own: its list of { key, max, windowMs }, or NULL.
CREATE OR REPLACE FUNCTION {schema}.rules_for(queue text, types text[], own jsonb) RETURNS {schema}.limit_rule[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  rules {schema}.limit_rule[];
  brought {schema}.limit_rule;
  said jsonb;
BEGIN
  SELECT coalesce(array_agg(r.fields ORDER BY r.name), '{}') INTO rules FROM {schema}.rules AS r
    WHERE ((r.fields).queues IS NULL OR rules_for.queue = ANY ((r.fields).queues))
      AND (rules_for.types IS NULL OR (r.fields).types IS NULL OR (r.fields).types && rules_for.types);
  IF coalesce(jsonb_array_length(own), 0) = 0 THEN
    RETURN rules;
  END IF;
  brought.by_group := false;
  brought.estimate := 1;
  brought.paused := false;
  FOR said IN SELECT jsonb_array_elements(own) LOOP
    brought.name := said ->> 'key';
    brought.max := (said ->> 'max')::float8;
    brought.window_ms := (said ->> 'windowMs')::float8;
    rules := rules || brought;
  END LOOP;
  RETURN rules;
END
$$;
`,
  },
  {
    path: "limits/save_accounts.sql",
    text: `-- Writes down what a step has taken of many limits, together: as limits/account_save.sql does for one. Those of which nothing was
-- taken are left as they are.
--
-- accounts: all that the step looked at. now: the time. Answers their ids, and where in the log the starts are.
CREATE OR REPLACE FUNCTION {schema}.save_accounts(
  accounts {schema}.limit_account[], now float8, OUT ids bigint[], OUT entries bigint[]
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  account {schema}.limit_account;
  chosen boolean[] := '{}';
  any_chosen boolean := false;
  counted float8;
  one record;
BEGIN
  ids := '{}';
  entries := '{}';
  FOR i IN 1 .. cardinality(accounts) LOOP
    account := accounts[i];
    ids[i] := account.id;
    entries[i] := 0;
    chosen[i] := false;
    CONTINUE WHEN account.starts = 0;
    counted := coalesce(account.watch_ms, account.window_ms);
    -- Few share an entry with starts of before, or are looked at through another window than before.
    IF account.resolution > 0 OR account.newest >= now OR (account.before IS NULL AND counted IS NOT NULL) THEN
      account := {schema}.account_save(account, false, now);
      ids[i] := account.id;
      entries[i] := account.entry;
    ELSE
      chosen[i] := true;
      any_chosen := true;
    END IF;
  END LOOP;
  IF NOT any_chosen THEN
    RETURN;
  END IF;
  FOR one IN
    WITH fresh AS (
      SELECT a.ordinality AS place, a.name, a.grp, coalesce(a.watch_ms, 0) AS longest
      FROM unnest(accounts) WITH ORDINALITY AS a WHERE chosen[a.ordinality] AND a.id IS NULL
    ), opened AS (
      INSERT INTO {schema}.limits (name, grp, longest, prune_at)
      SELECT f.name, f.grp, f.longest, now + f.longest FROM fresh f RETURNING id, name, grp
    ) SELECT f.place, o.id FROM opened o JOIN fresh f ON f.name = o.name AND f.grp = o.grp
  LOOP
    ids[one.place] := one.id;
  END LOOP;
  FOR one IN
    WITH counting AS (
      SELECT a.ordinality AS place, ids[a.ordinality] AS id, a.taken AS n FROM unnest(accounts) WITH ORDINALITY AS a
      WHERE chosen[a.ordinality] AND (coalesce(a.watch_ms, a.window_ms) IS NOT NULL OR a.longest > 0)
    ), entered AS (
      INSERT INTO {schema}.starts (limit_id, at, since, n) SELECT c.id, now, now, c.n FROM counting c RETURNING limit_id, seq
    ) SELECT c.place, e.seq FROM entered e JOIN counting c ON c.id = e.limit_id
  LOOP
    entries[one.place] := one.seq;
  END LOOP;
  UPDATE {schema}.limits l SET latest_at = now, told_left = a.told_left, window_ms = coalesce(a.watch_ms, a.window_ms),
    used = CASE WHEN coalesce(a.watch_ms, a.window_ms) IS NULL THEN 0 ELSE a.before + a.taken END,
    seen_at = coalesce(a.before_at, now), newest = CASE WHEN entries[a.ordinality] > 0 THEN now ELSE l.newest END,
    held = a.job_slots
  FROM unnest(accounts) WITH ORDINALITY AS a WHERE chosen[a.ordinality] AND l.id = ids[a.ordinality];
END
$$;
`,
  },
  {
    path: "limits/seen_limit.sql",
    text: `-- What is kept of a limit, for one group or for all, as whoever only reads sees it (limits/meter.ts): its row, what is in use
-- of the window and what leaves it first, and what is held.
--
-- limit_name, state_grp: whose. window_ms, most: its window, or NULL. more: what is asked for, when \`ahead\` others have
-- started: as many of the starts that leave the window are told as decide about that. at: now.
CREATE OR REPLACE FUNCTION {schema}.seen_limit(
  limit_name text, state_grp text, window_ms float8, most float8, more float8, ahead float8, at float8
) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
  kept {schema}.limits;
  moment float8;
  in_use float8 := 0;
  needed float8;
  leaving jsonb := '[]';
  held record;
BEGIN
  SELECT * INTO kept FROM {schema}.limits l WHERE l.name = limit_name AND l.grp = state_grp;
  IF kept.id IS NULL THEN
    RETURN jsonb_build_object('now', at, 'row', NULL, 'used', 0, 'leaving', '[]'::jsonb,
      'slots', 0, 'probes', 0, 'until', NULL);
  END IF;
  -- Whatever is decided comes after all that is known.
  moment := greatest(at, kept.newest, kept.latest_at);
  IF window_ms IS NOT NULL AND most IS NOT NULL THEN
    SELECT coalesce(sum(s.n), 0) INTO in_use FROM {schema}.starts s
      WHERE s.limit_id = kept.id AND s.at > moment - window_ms - 1 AND moment - s.at < window_ms;
    needed := greatest(0, in_use + more - most) + ahead;
    IF needed > 0 THEN
      SELECT coalesce(jsonb_agg(jsonb_build_array(f.at, f.n) ORDER BY f.at, f.seq), '[]') INTO leaving FROM (
        SELECT s.at, s.seq, s.n, sum(s.n) OVER (ORDER BY s.at, s.seq) - s.n AS before FROM {schema}.starts s
        WHERE s.limit_id = kept.id AND s.at > moment - window_ms - 1 AND moment - s.at < window_ms AND s.n > 0
        ORDER BY s.at, s.seq LIMIT 10000
      ) f WHERE f.before < needed;
    END IF;
  END IF;
  SELECT coalesce(sum(h.slots), 0) AS slots, count(*) FILTER (WHERE h.at >= kept.open_until) AS probes, min(h.until) AS until
    INTO held FROM {schema}.holds h WHERE h.limit_id = kept.id AND (h.until IS NULL OR h.until > moment);
  RETURN jsonb_build_object('now', moment, 'row', to_jsonb(kept), 'used', in_use, 'leaving', leaving,
    'slots', held.slots, 'probes', held.probes, 'until', held.until);
END
$$;
`,
  },
  {
    path: "limits/seen_standing.sql",
    text: `-- What is kept of a limit for a job that waits (limits/seen_limit.sql), and how long those are waited for who wait for the
-- limit already and come before it (\`behind\`; NULL: until something is given back).
--
-- own: the job. lane: its lane, as jobs/standing_of.sql says it. first: what the first of the lane weighs. ahead: how many
-- of the lane come before it.
CREATE OR REPLACE FUNCTION {schema}.seen_standing(
  rule {schema}.limit_rule, own {schema}.jobs, lane jsonb, first jsonb, ahead float8, at float8
) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
  meter {schema}.limit_meter := {schema}.meter_of(rule, CASE WHEN rule.by_group THEN own.grp END);
  state_grp text := {schema}.state_grp(rule.by_group, own.grp);
  more float8 := greatest(({schema}.charge_of(meter, own.weights)).weight, ({schema}.charge_of(meter, first)).weight);
  seen jsonb := {schema}.seen_limit(rule.name, state_grp, meter.window_ms, meter.max, more, ahead, at);
  behind float8 := 0;
BEGIN
  IF rule.weight IS NOT NULL THEN
    behind := {schema}.heavy_wait(rule.name, CASE WHEN rule.by_group THEN {schema}.lane_grp(state_grp) END, own.priority,
      coalesce((lane ->> 'id')::bigint, 0),
      CASE WHEN lane ->> 'heavy' IS NOT NULL AND lane ->> 'by' = rule.name THEN (lane ->> 'since')::float8 ELSE 'Infinity' END,
      (seen ->> 'now')::float8, true);
  END IF;
  RETURN jsonb_build_object('seen', seen, 'behind', nullif(behind, 'Infinity'));
END
$$;
`,
  },
  {
    path: "limits/seen_states.sql",
    text: `-- What is kept of a limit, of how many groups, for people: of the group that is asked for, or of those that were used last,
-- a hundred at the most.
--
-- rule: as it is in force. asked: a group, or NULL. at: now.
CREATE OR REPLACE FUNCTION {schema}.seen_states(rule jsonb, asked text, at float8) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
  limit_name text := rule ->> 'name';
  by_group boolean := (rule ->> 'byGroup')::boolean;
  known bigint;
  grps text[];
  states jsonb;
BEGIN
  SELECT count(*) INTO known FROM {schema}.limits WHERE name = limit_name AND (grp <> '') = by_group;
  IF NOT by_group THEN
    grps := ARRAY[''];
  ELSIF asked IS NOT NULL THEN
    grps := ARRAY[':' || asked];
  ELSE
    SELECT array_agg(l.grp ORDER BY l.grp <> '-', l.latest_at DESC NULLS LAST, l.id DESC) INTO grps FROM (
      SELECT id, grp, latest_at FROM {schema}.limits WHERE name = limit_name AND grp <> ''
      ORDER BY grp <> '-', latest_at DESC NULLS LAST, id DESC LIMIT 100
    ) l;
  END IF;
  SELECT coalesce(jsonb_agg({schema}.seen_limit(limit_name, g.grp, (g.quota ->> 'windowMs')::float8,
      (g.quota ->> 'max')::float8, 1, 0, at) || jsonb_build_object('grp', g.grp) ORDER BY g.place), '[]')
    INTO states FROM (
      SELECT grp, place, (rule -> 'quota') || CASE WHEN left(grp, 1) = ':' THEN coalesce(rule -> 'groups' -> substr(grp, 2), '{}')
        ELSE '{}' END AS quota
      FROM unnest(grps) WITH ORDINALITY AS u (grp, place)
    ) g;
  RETURN jsonb_build_object('groups', known, 'states', states);
END
$$;
`,
  },
  {
    path: "limits/settle_permit.sql",
    text: `-- What a permit really used: as settle_start, but all that was charged for it is remembered for as long as it may be
-- corrected (until). True: there is more room. The lock of the name is held.
CREATE OR REPLACE FUNCTION {schema}.settle_permit(
  kept {schema}.limits, number bigint, reserved float8, until float8, used float8, now float8
) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  start {schema}.starts;
  counts float8;
BEGIN
  SELECT * INTO start FROM {schema}.starts WHERE token IN (number, -number) ORDER BY token DESC LIMIT 1;
  IF start.seq IS NULL THEN
    IF used > reserved THEN
      PERFORM {schema}.record_named(kept.id, used - reserved, number, reserved, until, now);
      PERFORM {schema}.charge_more(kept.id, used - reserved);
    END IF;
  ELSIF start.spent = 1.7976931348623157e308::float8 THEN
    RETURN false;
  ELSIF now - start.at < kept.longest THEN
    counts := greatest(0, used - start.spent);
    PERFORM {schema}.change_start(start, start.at, greatest(start.since, until), counts, start.spent);
    IF counts < start.n THEN
      RETURN true;
    END IF;
    PERFORM {schema}.charge_more(kept.id, counts - start.n);
  ELSIF start.token > 0 THEN
    PERFORM {schema}.charge_start(start, used, start.spent + start.n, until, now);
  END IF;
  RETURN false;
END
$$;
`,
  },
  {
    path: "limits/settle_start.sql",
    text: `-- What the start of this number really used: the last word holds. Inside the window its own entry changes; what becomes known
-- after it has expired is charged from now on, and what has expired is not given back. The lock of the name is held.
--
-- kept: the limit. reserved: what was charged at first.
CREATE OR REPLACE FUNCTION {schema}.settle_start(
  kept {schema}.limits, number bigint, reserved float8, used float8, now float8
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  start {schema}.starts;
  counts float8;
BEGIN
  SELECT * INTO start FROM {schema}.starts WHERE token = number;
  IF start.seq IS NULL THEN
    IF used > reserved THEN
      PERFORM {schema}.record_named(kept.id, used - reserved, number, reserved, 0, now);
      PERFORM {schema}.charge_more(kept.id, used - reserved);
    END IF;
  ELSIF now - start.at < kept.longest THEN
    counts := greatest(0, used - start.spent);
    PERFORM {schema}.change_start(start, start.at, start.since, counts, start.spent);
    PERFORM {schema}.charge_more(kept.id, counts - start.n);
  ELSE
    -- Of a start that has left the window only what it reserved is remembered, as if its row were gone already.
    PERFORM {schema}.charge_start(start, used, CASE WHEN start.spent = 0 THEN reserved ELSE start.spent + start.n END, 0, now);
  END IF;
END
$$;
`,
  },
  {
    path: "limits/settle_total.sql",
    text: `-- Before starts are deleted that have left the window: what is taken off later is only what is still there.
CREATE OR REPLACE FUNCTION {schema}.settle_total(kept {schema}.limits, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF kept.window_ms IS NOT NULL THEN
    PERFORM {schema}.keep_total(kept.id, kept.window_ms, {schema}.used_of(kept, kept.window_ms, now), now);
  END IF;
END
$$;
`,
  },
  {
    path: "limits/shared_entry.sql",
    text: `-- The place in the log that starts of this instant share with the newest ones, which are less than \`resolution\` apart; NULL:
-- they get one of their own.
CREATE OR REPLACE FUNCTION {schema}.shared_entry(id bigint, newest float8, resolution float8, now float8) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
  latest record;
BEGIN
  IF now = newest OR now - newest < resolution THEN
    SELECT s.seq, s.since, s.token INTO latest FROM {schema}.starts AS s
      WHERE s.limit_id = shared_entry.id ORDER BY s.at DESC, s.seq DESC LIMIT 1;
    IF latest.token IS NULL AND (now = latest.since OR now - latest.since < resolution) THEN
      RETURN latest.seq;
    END IF;
  END IF;
  RETURN NULL;
END
$$;
`,
  },
  {
    path: "limits/shift_total.sql",
    text: `-- A start of this instant counts for so much more, or less: so does what is in use, if the start was counted in that.
CREATE OR REPLACE FUNCTION {schema}.shift_total(id bigint, at float8, by float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF by <> 0 THEN
    UPDATE {schema}.limits AS l SET used = l.used + by
      WHERE l.id = shift_total.id AND l.window_ms IS NOT NULL AND l.seen_at - shift_total.at < l.window_ms;
  END IF;
END
$$;
`,
  },
  {
    path: "limits/state_grp.sql",
    text: `-- The group as the state of a limit says it: '' for all; where it is by group ':' and its name, and '-' for jobs without one.
CREATE OR REPLACE FUNCTION {schema}.state_grp(by_group boolean, grp text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN NOT by_group THEN '' WHEN grp IS NULL THEN '-' ELSE ':' || grp END
$$;
`,
  },
  {
    path: "limits/take_permit.sql",
    text: `-- Takes of a limit outside of any job, if it fits: checks and takes in one step.
--
-- limit_name, grp: of which limit, and for which group (NULL: none; not looked at where the limit is not by group).
-- asked: how much; NULL: what the rule estimates; 0: only whether what was taken fits. dry: only asks. ttl_ms: so long it is
-- held, unless it is renewed.
CREATE OR REPLACE FUNCTION {schema}.take_permit(limit_name text, grp text, asked float8, dry boolean, ttl_ms float8)
RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  rule {schema}.limit_rule;
  meter {schema}.limit_meter;
  account {schema}.limit_account;
  own text;
  now float8;
  says float8;
  weight float8;
  slots float8;
  wait float8;
  number bigint;
  until float8;
BEGIN
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  rule := {schema}.rule_named(limit_name);
  IF rule.name IS NULL THEN
    RETURN '{"missing":true}';
  END IF;
  own := CASE WHEN rule.by_group THEN grp END;
  meter := {schema}.meter_of(rule, own);
  account := {schema}.open_account(limit_name, {schema}.state_grp(rule.by_group, own));
  now := greatest({schema}.moment(), account.newest, account.latest_at);
  account := {schema}.watch(account, meter, now, true);
  meter.used := {schema}.meter_used(account, meter, now);
  says := coalesce(asked, rule.estimate);
  weight := CASE WHEN rule.max IS NULL THEN 1 ELSE says END;
  slots := CASE WHEN rule.max IS NULL THEN says ELSE 1 END;
  wait := {schema}.limit_wait(meter, account, weight, slots, now);
  -- Of all who wait for a limit, those outside of jobs come last.
  IF wait <> -1 AND rule.weight IS NOT NULL AND asked IS DISTINCT FROM 0 THEN
    wait := greatest(wait, {schema}.heavy_wait(limit_name,
      CASE WHEN rule.by_group THEN {schema}.lane_grp(account.grp) END, '-Infinity', 0, 'Infinity', now, false));
  END IF;
  IF wait <> 0 THEN
    RETURN json_build_object('granted', false,
      'retryInMs', CASE WHEN wait > 0 THEN nullif(wait, 'Infinity') END,
      'most', CASE
        WHEN meter.max > 0 AND weight > meter.max THEN meter.max
        WHEN meter.concurrency > 0 AND slots > meter.concurrency THEN meter.concurrency END);
  END IF;
  IF dry OR asked = 0 THEN
    RETURN '{"granted":true,"held":false}';
  END IF;
  number := nextval('{schema}.numbers');
  account := {schema}.account_take(account, meter, weight, slots, 1, now);
  account := {schema}.account_save(account, true, now);
  IF account.entry > 0 THEN
    UPDATE {schema}.starts SET token = number WHERE seq = account.entry;
  END IF;
  -- What is only counted may be corrected for ten minutes at least.
  until := CASE WHEN meter.holds THEN 0 ELSE now + greatest(ttl_ms, meter.window_ms, 600000) END;
  IF meter.holds THEN
    INSERT INTO {schema}.holds (limit_id, token, slots, at, until)
      VALUES (account.id, number, slots, now, now + ttl_ms);
  ELSIF rule.by_group AND account.entry > 0 THEN
    -- A group that is idle would be forgotten before.
    INSERT INTO {schema}.holds (limit_id, token, slots, at, until) VALUES (account.id, number, 0, now, until);
  END IF;
  -- Old starts are deleted by whoever takes one: there may be nobody who sweeps.
  IF (number / 10000) % 64 = 63 THEN
    PERFORM {schema}.prune_limit(account.id, now);
  END IF;
  RETURN json_build_object('granted', true, 'held', meter.holds,
    'token', json_build_array(account.id, number, weight, now, until));
END
$$;
`,
  },
  {
    path: "limits/take_uniform.sql",
    text: `-- Counts \`count\` starts under each of the limits of a claim, with tokens from \`first\` on, at the instant of the room. \`taken\`
-- is what is kept with each job then; \`wait\` and \`blocked_by\` are those of one more.
CREATE OR REPLACE FUNCTION {schema}.take_uniform(
  room {schema}.limit_room, count integer, first bigint
) RETURNS {schema}.limit_room
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  use {schema}.limit_use;
  place bigint;
  list text := '';
  after {schema}.limit_room;
BEGIN
  FOREACH use IN ARRAY room.uses LOOP
    place := NULL;
    IF use.id IS NULL THEN
      use.id := ({schema}.open_limit(use.name, coalesce(use.counted, 0), '', room.at)).id;
    END IF;
    IF use.entry IS NOT NULL THEN
      UPDATE {schema}.starts AS s SET at = room.at, n = s.n + count WHERE s.seq = use.entry RETURNING s.seq INTO place;
    END IF;
    IF use.logged AND place IS NULL THEN
      use.entry := NULL;
      INSERT INTO {schema}.starts AS s (limit_id, at, since, n) VALUES (use.id, room.at, room.at, count)
        RETURNING s.seq INTO place;
    END IF;
    UPDATE {schema}.limits AS l SET latest_at = room.at,
        told_left = CASE WHEN l.told_left IS NOT NULL THEN greatest(0, l.told_left - count) END,
        window_ms = use.counted, used = CASE WHEN use.counted IS NULL THEN 0 ELSE use.before + count END,
        seen_at = coalesce(use.before_at, room.at),
        newest = CASE WHEN use.logged THEN room.at ELSE l.newest END,
        entry = coalesce(place, l.entry), entry_since = CASE WHEN use.entry IS NULL THEN room.at ELSE l.entry_since END,
        held = CASE WHEN use.holds THEN l.held + count ELSE l.held END
      WHERE l.id = use.id;
    IF use.holds AND NOT use.singly THEN
      INSERT INTO {schema}.holds (limit_id, token, slots, at, n) VALUES (use.id, -first, count, room.at, count);
    ELSIF use.holds THEN
      INSERT INTO {schema}.holds (limit_id, token, slots, at)
        SELECT use.id, token, 1, room.at FROM generate_series(first, first + count - 1) AS token;
    END IF;
    list := concat(list, ',[', use.id, ',' || place, ']');
  END LOOP;
  room.taken := concat('[', substr(list, 2), ']');
  room.free := room.free - count;
  IF NOT room.plain OR room.free < 1 THEN
    after := {schema}.weigh_room(room.rules, room.at, false);
    room.wait := after.wait;
    room.blocked_by := after.blocked_by;
  END IF;
  RETURN room;
END
$$;
`,
  },
  {
    path: "limits/tell_breaker.sql",
    text: `-- The breaker of a limit hears how leases have ended that held it, in their order: tokens and ats are of what they held;
-- leases is NULL where all of them went well. Does it close with that? It opens after so many failures in a row, and when a
-- probe fails; a probe that goes well closes it.
CREATE OR REPLACE FUNCTION {schema}.tell_breaker(
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
`,
  },
  {
    path: "limits/tell_limit.sql",
    text: `-- The service says how much is left of a limit until its window begins anew; of a limit by group: to this group, or to jobs
-- without one (NULL).
CREATE OR REPLACE FUNCTION {schema}.tell_limit(limit_name text, grp text, remaining float8, reset_ms float8) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  rule {schema}.limit_rule;
  now float8;
  state_grp text;
  news boolean := false;
BEGIN
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  rule := {schema}.rule_named(limit_name);
  IF rule.name IS NULL THEN
    RETURN '{"missing":true}';
  END IF;
  now := {schema}.moment();
  state_grp := {schema}.state_grp(rule.by_group, grp);
  IF {schema}.gauge_tell(limit_name, state_grp, remaining, reset_ms, now) THEN
    news := {schema}.is_news({schema}.window_freed(limit_name, state_grp, now), now);
  END IF;
  RETURN json_build_object('everybody', news);
END
$$;
`,
  },
  {
    path: "limits/texts_of.sql",
    text: `-- A list of texts; NULL for what is no list.
CREATE OR REPLACE FUNCTION {schema}.texts_of(list jsonb) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  IF list IS NULL OR jsonb_typeof(list) <> 'array' THEN
    RETURN NULL;
  END IF;
  RETURN ARRAY(SELECT jsonb_array_elements_text(list));
END
$$;
`,
  },
  {
    path: "limits/unblock_all.sql",
    text: `-- The limit itself has changed: no lane is blocked by it any more.
CREATE OR REPLACE FUNCTION {schema}.unblock_all(limit_name text) RETURNS void
LANGUAGE sql VOLATILE AS $$
  UPDATE {schema}.lanes SET blocked_until = NULL WHERE blocked_by = limit_name AND blocked_until IS NOT NULL
$$;
`,
  },
  {
    path: "limits/unblock_lanes.sql",
    text: `-- Something of a limit was given back: whatever waits for it may look again. Was anything waiting? Lanes are known to wait until
-- a claim looks at them: what was given back may be taken by somebody else before.
--
-- limit_name: which. lane_grps: of which groups, as lanes say it; NULL: of all. at: now.
CREATE OR REPLACE FUNCTION {schema}.unblock_lanes(limit_name text, lane_grps text[], at float8) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF lane_grps IS NULL THEN
    UPDATE {schema}.lanes SET blocked_until = least(blocked_until, at)
      WHERE blocked_by = limit_name AND blocked_until IS NOT NULL;
  ELSE
    UPDATE {schema}.lanes SET blocked_until = least(blocked_until, at)
      WHERE blocked_by = limit_name AND blocked_until IS NOT NULL AND grp = ANY (lane_grps);
  END IF;
  RETURN FOUND;
END
$$;
`,
  },
  {
    path: "limits/unblock_like.sql",
    text: `-- Lanes that wait for the same limit as one of this group did may look again: where it is by group, those of the group.
CREATE OR REPLACE FUNCTION {schema}.unblock_like(limit_name text, lane_grp text, at float8) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT {schema}.unblock_lanes(limit_name,
    CASE WHEN (SELECT (r.rule ->> 'byGroup')::boolean FROM {schema}.rules r WHERE r.name = limit_name)
      THEN ARRAY[lane_grp] END, at)
$$;
`,
  },
  {
    path: "limits/unblock_ripe.sql",
    text: `-- Lanes of these types whose instant has come are ready again, a thousand at the most in one step.
CREATE OR REPLACE FUNCTION {schema}.unblock_ripe(queue_name text, types text[], at float8) RETURNS void
LANGUAGE sql VOLATILE AS $$
  WITH ripe AS (
    SELECT r.id FROM unnest(types) AS t (type) CROSS JOIN LATERAL (
      SELECT l.id FROM {schema}.lanes l
      WHERE l.queue = queue_name AND l.type = t.type AND l.ready AND l.blocked_until IS NOT NULL AND l.blocked_until <= at
      ORDER BY l.blocked_until LIMIT 1000) r
    LIMIT 1000
  )
  UPDATE {schema}.lanes l SET blocked_until = NULL FROM ripe WHERE l.id = ripe.id
$$;
`,
  },
  {
    path: "limits/unblock_weighing.sql",
    text: `-- Something is paused: whoever waited for a heavy job of it does not any more. Answers whether limits weigh at all.
CREATE OR REPLACE FUNCTION {schema}.unblock_weighing() RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  names text[] := {schema}.weighing();
  name text;
BEGIN
  FOREACH name IN ARRAY names LOOP
    PERFORM {schema}.unblock_lanes(name, NULL, {schema}.present());
  END LOOP;
  RETURN names <> '{}';
END
$$;
`,
  },
  {
    path: "limits/use_of.sql",
    text: `-- What is going to be written under a limit that is looked at, with starts of this instant.
CREATE OR REPLACE FUNCTION {schema}.use_of(
  use {schema}.limit_use, account {schema}.limit_account, now float8
) RETURNS {schema}.limit_use
LANGUAGE plpgsql STABLE AS $$
BEGIN
  -- A log that somebody looks at knows of every start, whatever the rule itself counts.
  use.counted := coalesce(account.watch_ms, account.window_ms);
  use.before := CASE WHEN account.watch_ms IS NOT NULL THEN account.before
    WHEN account.window_ms IS NOT NULL THEN
      {schema}.window_used(account.id, account.window_ms, account.used, account.seen_at, account.window_ms, now) END;
  use.before_at := now;
  use.logged := use.counted IS NOT NULL OR coalesce(account.longest > 0, false);
  use.entry := {schema}.shared_entry(account.id, account.newest, account.resolution, now);
  RETURN use;
END
$$;
`,
  },
  {
    path: "limits/used_of.sql",
    text: `-- How much of a window is in use under what is kept here; nothing, where nothing is.
CREATE OR REPLACE FUNCTION {schema}.used_of(kept {schema}.limits, window_ms float8, now float8) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN {schema}.window_used(kept.id, kept.window_ms, kept.used, kept.seen_at, used_of.window_ms, now);
END
$$;
`,
  },
  {
    path: "limits/verdict.sql",
    text: `-- When may a start happen that takes so much of the window and so many slots, and what is in its way the longest? It is
-- gaugeWait in limits/gauge.ts, to the last bit; what the step has taken so far counts.
CREATE OR REPLACE FUNCTION {schema}.verdict(
  meter {schema}.limit_meter, account {schema}.limit_account, weight float8, slots float8, now float8
) RETURNS {schema}.limit_verdict
LANGUAGE plpgsql STABLE AS $$
DECLARE
  longest float8 := 0;
  reason text;
  own float8;
  held float8 := 0;
  probes float8 := 0;
  expires_in float8 := 'Infinity';
BEGIN
  IF (meter.max > 0 AND weight > meter.max) OR (meter.concurrency > 0 AND slots > meter.concurrency) THEN
    RETURN (-1, 'window')::{schema}.limit_verdict;
  END IF;
  IF meter.holds AND account.held IS NOT NULL THEN
    held := account.held;
    probes := account.probes;
    expires_in := account.expires_in;
  END IF;
  IF meter.paused THEN
    longest := 'Infinity';
    reason := 'paused';
  END IF;
  own := greatest(account.pause_until - now, meter.held_until - now);
  IF own > longest THEN
    longest := own;
    reason := 'held';
  END IF;
  IF meter.max IS NOT NULL AND meter.window_ms IS NOT NULL THEN
    own := CASE WHEN meter.max = 0 THEN 'Infinity' ELSE
      {schema}.window_wait(account.id, account.forgotten_at, meter.max, meter.window_ms, weight,
        meter.used + account.taken, now) END;
    own := greatest(own, meter.blind_until - now);
    IF own > longest THEN
      longest := own;
      reason := 'window';
    END IF;
  END IF;
  own := meter.every_ms - (now - CASE WHEN account.starts > 0 THEN now ELSE account.latest_at END);
  IF own > longest THEN
    longest := own;
    reason := 'spacing';
  END IF;
  IF held + slots > meter.concurrency THEN
    own := CASE WHEN meter.concurrency = 0 THEN 'Infinity' ELSE expires_in END;
    IF own > longest THEN
      longest := own;
      reason := 'concurrency';
    END IF;
  END IF;
  IF now < account.told_until AND weight > coalesce(account.told_left, 0) THEN
    own := account.told_until - now;
    IF own > longest THEN
      longest := own;
      reason := 'told';
    END IF;
  END IF;
  IF meter.probes IS NOT NULL AND account.open_until IS NOT NULL THEN
    own := CASE WHEN now < account.open_until THEN account.open_until - now
      WHEN probes < meter.probes THEN 0 ELSE expires_in END;
    IF own > longest THEN
      longest := own;
      reason := 'breaker';
    END IF;
  END IF;
  RETURN (longest, reason)::{schema}.limit_verdict;
END
$$;
`,
  },
  {
    path: "limits/watch.sql",
    text: `-- A rule looks at what is kept: starts are counted in its window, and what is held is read where it holds anything.
-- prepare: starts are kept long enough for the window from now on.
CREATE OR REPLACE FUNCTION {schema}.watch(
  account {schema}.limit_account, meter {schema}.limit_meter, now float8, prepare boolean
) RETURNS {schema}.limit_account
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- From a thousand on starts share rows: by a thousandth of the window at the most, which nobody will notice.
  resolution float8 := CASE WHEN meter.max > 1000 THEN meter.window_ms / 1000 ELSE 0 END;
BEGIN
  IF meter.max IS NOT NULL AND meter.window_ms IS NOT NULL THEN
    IF account.watch_ms IS NULL THEN
      account.watch_ms := meter.window_ms;
      account.resolution := resolution;
      account.before := {schema}.window_used(
        account.id, account.window_ms, account.used, account.seen_at, meter.window_ms, now);
      account.before_at := now;
    ELSE
      account.resolution := least(account.resolution, resolution);
    END IF;
    IF prepare AND account.longest < meter.window_ms THEN
      UPDATE {schema}.limits AS l SET longest = meter.window_ms WHERE l.id = account.id;
      account.longest := meter.window_ms;
    END IF;
  END IF;
  IF meter.holds AND account.held IS NULL THEN
    SELECT h.slots, h.probes, h.expires_in INTO account.held, account.probes, account.expires_in
      FROM {schema}.held_of(account.id, account.job_slots, account.open_until, now) AS h;
  END IF;
  RETURN account;
END
$$;
`,
  },
  {
    path: "limits/weigh_room.sql",
    text: `-- As \`claim_room\`, whatever is in the way: of each rule by its verdict, and where several rules share what is kept. \`wait\` and
-- \`blocked_by\` are those of the limit that is in the way of one more the longest.
CREATE OR REPLACE FUNCTION {schema}.weigh_room(
  rules {schema}.limit_rule[], now float8, prepare boolean
) RETURNS {schema}.limit_room
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  room {schema}.limit_room;
  rule {schema}.limit_rule;
  meter {schema}.limit_meter;
  account {schema}.limit_account;
  accounts {schema}.limit_account[] := '{}';
  uses {schema}.limit_use[] := '{}';
  names text[] := '{}';
  place integer;
  own float8;
BEGIN
  room.free := 'Infinity';
  room.wait := 0;
  room.unprepared := false;
  room.plain := false;
  room.rules := rules;
  FOREACH rule IN ARRAY rules LOOP
    CONTINUE WHEN rule.name = ANY (names);
    account := {schema}.open_account(rule.name, '');
    now := greatest(now, account.newest, account.latest_at);
    names := names || rule.name;
    accounts := accounts || account;
    uses := uses || (account.id, rule.name, false, false, NULL, NULL, NULL, NULL, NULL)::{schema}.limit_use;
  END LOOP;
  room.at := now;
  FOREACH rule IN ARRAY rules LOOP
    place := array_position(names, rule.name);
    meter := {schema}.meter_of(rule, NULL);
    account := {schema}.watch(accounts[place], meter, now, prepare);
    accounts[place] := account;
    uses[place].holds := uses[place].holds OR meter.holds;
    uses[place].singly := uses[place].singly OR meter.probes IS NOT NULL;
    meter.used := {schema}.meter_used(account, meter, now);
    room.unprepared := room.unprepared OR coalesce(meter.max IS NOT NULL AND account.longest < meter.window_ms, false);
    room.free := least(room.free, floor({schema}.free_of(meter, account, now)));
    own := {schema}.limit_wait(meter, account, 1, 1, now);
    IF own > room.wait THEN
      room.wait := own;
      room.blocked_by := rule.name;
    END IF;
  END LOOP;
  FOR i IN 1 .. cardinality(accounts) LOOP
    uses[i] := {schema}.use_of(uses[i], accounts[i], now);
  END LOOP;
  room.uses := uses;
  RETURN room;
END
$$;
`,
  },
  {
    path: "limits/weighing.sql",
    text: `-- The names of the limits for which it matters how heavy jobs are.
CREATE OR REPLACE FUNCTION {schema}.weighing() RETURNS text[]
LANGUAGE sql STABLE AS $$
  SELECT coalesce(array_agg(name ORDER BY name), '{}') FROM {schema}.rules WHERE rule ->> 'weight' IS NOT NULL
$$;
`,
  },
  {
    path: "limits/window_freed.sql",
    text: `-- There is more room in a window of a limit, or no pause any more: lanes that waited for it may look again, and it is news for
-- everybody. grp: as the state of the limit says it.
CREATE OR REPLACE FUNCTION {schema}.window_freed(name text, grp text, now float8) RETURNS {schema}.limit_given[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  rule {schema}.limit_rule := {schema}.rule_named(name);
BEGIN
  IF rule.by_group THEN
    PERFORM {schema}.unblock_lanes(name, ARRAY[{schema}.lane_grp(grp)], now);
  ELSIF rule.weight IS NOT NULL THEN
    PERFORM {schema}.unblock_lanes(name, NULL, now);
  END IF;
  RETURN ARRAY[(NULL, name, grp, 0, 0, false)]::{schema}.limit_given[];
END
$$;
`,
  },
  {
    path: "limits/window_used.sql",
    text: `-- How much of a window is in use, without adding up the whole window every time: kept_used was in use at seen_at, in a window
-- of kept_ms. Whoever looks later takes off what has left since, along the index. Weights are whole numbers, so the sums are
-- exact. The first bounds find the place in the index; the ages, by subtraction, are exact.
CREATE OR REPLACE FUNCTION {schema}.window_used(
  id bigint, kept_ms float8, kept_used float8, seen_at float8, window_ms float8, now float8
) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
DECLARE
  n float8;
BEGIN
  IF id IS NULL THEN
    RETURN 0;
  END IF;
  IF kept_ms IS DISTINCT FROM window_ms OR seen_at > now THEN
    SELECT sum(s.n) INTO n FROM {schema}.starts AS s
      WHERE s.limit_id = window_used.id AND s.at > now - window_ms - 1 AND now - s.at < window_ms;
    RETURN coalesce(n, 0);
  END IF;
  -- Nothing has left that was not there, and nothing at all at the same instant.
  IF kept_used = 0 OR seen_at = now THEN
    RETURN kept_used;
  END IF;
  SELECT sum(s.n) INTO n FROM {schema}.starts AS s
    WHERE s.limit_id = window_used.id AND s.at > seen_at - window_ms - 1 AND seen_at - s.at < window_ms
      AND s.at < now - window_ms + 1 AND now - s.at >= window_ms;
  RETURN kept_used - coalesce(n, 0);
END
$$;
`,
  },
  {
    path: "limits/window_wait.sql",
    text: `-- When does \`weight\` more fit under \`max\` in any \`window_ms\`, beside what is used? -1: never. \`used\` may count starts that are
-- not written down yet: they happen now. id: NULL where nothing is kept. forgotten_at: the newest start that was not kept;
-- until it has left the window, that counts as full.
CREATE OR REPLACE FUNCTION {schema}.window_wait(
  id bigint, forgotten_at float8, max float8, window_ms float8, weight float8, used float8, now float8
) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
DECLARE
  excess float8 := used + weight - max;
  blind float8;
  start record;
BEGIN
  IF weight > max THEN
    RETURN -1;
  END IF;
  IF id IS NULL THEN
    RETURN CASE WHEN excess <= 0 THEN 0 ELSE window_ms END;
  END IF;
  blind := greatest(0, window_ms - (now - forgotten_at));
  IF excess <= 0 THEN
    RETURN blind;
  END IF;
  -- Every row counts for one at least: no more of them need be looked at.
  FOR start IN
    SELECT s.at, s.n FROM {schema}.starts AS s
      WHERE s.limit_id = window_wait.id AND s.at > now - window_ms - 1 AND now - s.at < window_ms AND s.n > 0
      ORDER BY s.at, s.seq LIMIT ceil(excess)
  LOOP
    excess := excess - start.n;
    IF excess <= 0 THEN
      RETURN greatest(blind, window_ms - (now - start.at));
    END IF;
  END LOOP;
  RETURN greatest(blind, window_ms);
END
$$;
`,
  },
  {
    path: "limits/write_rules.sql",
    text: `-- Writes down what becomes of rules (limits/changing.ts), all of it or nothing, alone: what was decided holds only as long as
-- the rules are those that it was decided on.
--
-- expected: their number then. If it is another by now, nothing is changed, and the answer says so.
-- changes: a list; of each \`name\`, and what there is of
--   stored, rule      what is kept from now on; without the instants, which only the clock of the storage can tell:
--   held, blind       until when, as of a rule: a number: for so long from now, and not shorter than before; true: as before
--   removed           the rule, and all that was counted
--   adopts            jobs that run already hold of it what they would hold if they had started under it
--   resumed           nothing is in its way any more, whoever it was that held it
--   reset             what was counted is forgotten: of one state (\`grp\`), or of all (null)
--   loosened          whatever waited for it looks again
CREATE OR REPLACE FUNCTION {schema}.write_rules(expected bigint, changes jsonb) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8;
  change jsonb;
  before {schema}.rules;
  first_grp text;
  instants jsonb;
  given {schema}.limit_given[] := '{}';
  news boolean := false;
BEGIN
  PERFORM {schema}.begin_step(true);
  IF (SELECT rules FROM {schema}.meta) <> expected THEN
    RETURN '{"again":true}';
  END IF;
  now := {schema}.moment();
  FOR change IN SELECT value FROM jsonb_array_elements(changes) LOOP
    SELECT * INTO before FROM {schema}.rules WHERE name = change ->> 'name';
    -- Of a limit by group nothing but what is kept for groups: the bare name is somebody else's.
    first_grp := CASE WHEN (before.rule ->> 'byGroup')::boolean THEN '-' ELSE '' END;
    IF change ? 'stored' THEN
      instants := {schema}.rule_instants(before.stored, change, now);
      INSERT INTO {schema}.rules (name, stored, rule, fields)
        VALUES (change ->> 'name', (change -> 'stored') || instants, (change -> 'rule') || instants,
          {schema}.read_rule((change -> 'rule') || instants))
        ON CONFLICT (name) DO UPDATE SET stored = excluded.stored, rule = excluded.rule, fields = excluded.fields;
    ELSIF change ? 'removed' THEN
      DELETE FROM {schema}.rules WHERE name = before.name;
      PERFORM {schema}.drop_limit(id) FROM {schema}.limits WHERE name = before.name AND grp >= first_grp;
    END IF;
    IF change ? 'resumed' THEN
      UPDATE {schema}.limits SET pause_until = NULL, told_left = NULL, told_until = NULL, failures = 0, open_until = NULL
        WHERE name = before.name AND grp >= first_grp;
    END IF;
    IF change ? 'reset' THEN
      PERFORM {schema}.reset_limit(id, now) FROM {schema}.limits
        WHERE name = before.name AND grp >= first_grp AND (change ->> 'reset' IS NULL OR grp = change ->> 'reset');
      IF change ->> 'reset' IS NOT NULL THEN
        given := given || {schema}.window_freed(before.name, change ->> 'reset', now);
      END IF;
    END IF;
    IF change ? 'loosened' THEN
      PERFORM {schema}.unblock_all(before.name);
      news := true;
    END IF;
    IF change ? 'adopts' THEN
      PERFORM {schema}.adopt(before.rule, (change -> 'rule') || instants, now);
    END IF;
  END LOOP;
  IF jsonb_path_exists(changes, '$[*] ? (exists (@.stored) || exists (@.removed))') THEN
    UPDATE {schema}.meta SET rules = rules + 1;
  END IF;
  RETURN json_build_object('everybody', news OR {schema}.is_news(given, now));
END
$$;
`,
  },
  {
    path: "rates/rate_cancel.sql",
    text: `-- As if a start had never been, as its token tells it: what was given under another name, or before the name was cleared,
-- changes nothing.
CREATE OR REPLACE FUNCTION {schema}.rate_cancel(limit_name text, limit_id bigint, number bigint) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8;
  kept {schema}.limits;
BEGIN
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  now := {schema}.moment();
  kept := {schema}.find_limit(limit_name, '');
  IF kept.id IS DISTINCT FROM limit_id OR NOT {schema}.is_issued(number) OR NOT {schema}.cancel_start(number) THEN
    RETURN '{}';
  END IF;
  RETURN json_build_object('everybody', {schema}.is_news({schema}.window_freed(limit_name, '', now), now));
END
$$;
`,
  },
  {
    path: "rates/rate_clear.sql",
    text: `-- Forgets everything under a name; what is held of a limit of that name stays held.
CREATE OR REPLACE FUNCTION {schema}.rate_clear(limit_name text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8;
  kept {schema}.limits;
BEGIN
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  now := {schema}.moment();
  kept := {schema}.find_limit(limit_name, '');
  IF kept.id IS NULL THEN
    RETURN '{}';
  END IF;
  PERFORM {schema}.reset_limit(kept.id, now);
  RETURN json_build_object('everybody', {schema}.is_news({schema}.window_freed(limit_name, '', now), now));
END
$$;
`,
  },
  {
    path: "rates/rate_count.sql",
    text: `-- How many starts under a name lie after an instant. What is asked for is kept from now on, for two months at the most.
CREATE OR REPLACE FUNCTION {schema}.rate_count(limit_name text, after float8) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8 := {schema}.present();
  kept record;
  age float8 := least(4294967296, now - after);
BEGIN
  SELECT l.longest, (SELECT coalesce(sum(s.n), 0) FROM {schema}.starts s WHERE s.limit_id = l.id AND s.at > after) AS count
    INTO kept FROM {schema}.limits l WHERE l.name = limit_name AND l.grp = '';
  IF kept.longest < age THEN
    PERFORM {schema}.begin_step(false);
    PERFORM {schema}.lock_limits(ARRAY[limit_name]);
    now := {schema}.moment();
    PERFORM {schema}.open_limit(limit_name,
      least(4294967296, power(2, ceil(log(2, greatest(3600000, age)::numeric))))::float8, '', now);
  END IF;
  RETURN coalesce(kept.count, 0);
END
$$;
`,
  },
  {
    path: "rates/rate_oldest.sql",
    text: `-- When the oldest start but so many was, of those that are kept under this name; NULL: there are no more than that.
CREATE OR REPLACE FUNCTION {schema}.rate_oldest(name text, skipped bigint) RETURNS float8
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT kept.at FROM (
    SELECT s.at, s.seq, sum(s.n) OVER (ORDER BY s.at, s.seq) AS place
    FROM {schema}.limits l JOIN {schema}.starts s ON s.limit_id = l.id
    WHERE l.name = rate_oldest.name AND l.grp = '' AND s.n > 0 ORDER BY s.at, s.seq LIMIT skipped + 1
  ) kept WHERE kept.place > skipped ORDER BY kept.at, kept.seq LIMIT 1
$$;
`,
  },
  {
    path: "rates/rate_pause.sql",
    text: `-- Nothing starts under a name for so long from now, whoever asks. It only ever moves later.
CREATE OR REPLACE FUNCTION {schema}.rate_pause(limit_name text, pause_ms float8) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8;
BEGIN
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  now := {schema}.moment();
  PERFORM {schema}.gauge_hold(limit_name, '', now + pause_ms, now);
  RETURN '{}';
END
$$;
`,
  },
  {
    path: "rates/rate_paused.sql",
    text: `-- For how long nothing starts under this name; NULL: nobody said so.
CREATE OR REPLACE FUNCTION {schema}.rate_paused(name text) RETURNS float8
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT l.pause_until - {schema}.present() FROM {schema}.limits l
  WHERE l.name = rate_paused.name AND l.grp = '' AND l.pause_until IS NOT NULL
$$;
`,
  },
  {
    path: "rates/rate_record.sql",
    text: `-- Writes a start under a name, whether or not there is room. One that nobody has counted with a window yet is kept for an hour.
CREATE OR REPLACE FUNCTION {schema}.rate_record(limit_name text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8;
  kept {schema}.limits;
BEGIN
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  now := {schema}.moment();
  kept := {schema}.open_limit(limit_name, 3600000, '', now);
  PERFORM {schema}.record_starts(kept.id, 1, now);
  RETURN '{}';
END
$$;
`,
  },
  {
    path: "rates/rate_settle.sql",
    text: `-- What a start really used, as its token tells it: less gives room back at once, more is charged at once.
--
-- limit_id, number, reserved: its token.
CREATE OR REPLACE FUNCTION {schema}.rate_settle(
  limit_name text, limit_id bigint, number bigint, reserved float8, used float8
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8;
  kept {schema}.limits;
BEGIN
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  now := {schema}.moment();
  kept := {schema}.find_limit(limit_name, '');
  IF kept.id IS DISTINCT FROM limit_id OR NOT {schema}.is_issued(number) THEN
    RETURN '{}';
  END IF;
  PERFORM {schema}.settle_start(kept, number, reserved, used, now);
  RETURN json_build_object('everybody', {schema}.is_news({schema}.window_freed(limit_name, '', now), now));
END
$$;
`,
  },
  {
    path: "rates/rate_try.sql",
    text: `-- Records a start under a name if it fits into the window, and the instant set from outside has come; else changes nothing.
--
-- most, window_ms: at most so much in any window of this length. weight: what the start counts for; 0: only asks.
CREATE OR REPLACE FUNCTION {schema}.rate_try(limit_name text, most float8, window_ms float8, weight float8) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8;
  kept {schema}.limits;
  in_use float8;
  wait float8;
  number bigint;
BEGIN
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  now := {schema}.moment();
  kept := {schema}.find_limit(limit_name, '');
  IF kept.id IS NULL AND weight = 0 THEN
    RETURN '{"granted":true,"retryInMs":0}';
  END IF;
  IF kept.id IS NULL OR kept.longest < window_ms THEN
    kept := {schema}.open_limit(limit_name, window_ms, '', now);
  END IF;
  now := greatest(now, kept.newest);
  in_use := {schema}.used_of(kept, window_ms, now);
  wait := {schema}.window_wait(kept.id, kept.forgotten_at, most, window_ms, weight, in_use, now);
  wait := greatest(0, wait, kept.pause_until - now);
  IF wait > 0 OR weight = 0 THEN
    RETURN json_build_object('granted', wait = 0, 'retryInMs', wait);
  END IF;
  number := nextval('{schema}.numbers');
  IF kept.window_ms IS DISTINCT FROM rate_try.window_ms THEN
    PERFORM {schema}.keep_total(kept.id, rate_try.window_ms, in_use, now);
  END IF;
  PERFORM {schema}.record_named(kept.id, weight, number, 0, 0, now);
  -- Old starts are deleted by whoever takes one: there may be nobody who sweeps.
  IF (number / 10000) % 64 = 63 THEN
    PERFORM {schema}.prune_limit(kept.id, now);
  END IF;
  RETURN json_build_object('granted', true, 'retryInMs', 0, 'token', json_build_array(kept.id, number, weight));
END
$$;
`,
  },
  {
    path: "step/begin_step.sql",
    text: `-- Every step begins with it. Decisions are made on what was committed before the locks were taken: only READ COMMITTED
-- looks again after a lock. No step waits for a lock for longer than a few seconds.
--
-- The rules lock is shared by all steps; whoever changes rules has it for himself, and all of the storage with it. Who waits to be
-- alone keeps everybody waiting who comes behind him: he gives up soon (55P03), and the client lets them pass before it tries
-- again. The setting sluice.tries says how often it has: where every step takes long, he has to be more stubborn in the end. But
-- where there are so many limits that all are alone, one after the other, he keeps his place like everybody.
CREATE OR REPLACE FUNCTION {schema}.begin_step(alone boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- Expressions cost less than statements.
  done boolean;
  tries integer;
  -- The client says for how long, with every call.
  bound text := CASE current_setting('lock_timeout') WHEN '0' THEN '2s' ELSE current_setting('lock_timeout') END;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'this has to run in a transaction that is READ COMMITTED' USING ERRCODE = 'SL001';
  END IF;
  IF alone AND NOT {schema}.many_rules() THEN
    tries := coalesce(nullif(current_setting('sluice.tries', true), '')::integer, 0);
    done := set_config('lock_timeout', least(2000, 200 * 2 ^ greatest(0, tries - 4))::integer::text, true) IS NULL;
  ELSE
    done := set_config('lock_timeout', bound, true) IS NULL;
  END IF;
  IF alone THEN
    done := pg_advisory_xact_lock({schema}.lock_key('rules', '')) IS NULL;
    done := set_config('lock_timeout', bound, true) IS NULL;
  ELSE
    done := pg_advisory_xact_lock_shared({schema}.lock_key('rules', '')) IS NULL;
  END IF;
END
$$;
`,
  },
  {
    path: "step/events_wanted.sql",
    text: `-- Does anybody want to hear what happens?
CREATE OR REPLACE FUNCTION {schema}.events_wanted(now float8) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM {schema}.listeners WHERE events AND until > now)
$$;
`,
  },
  {
    path: "step/lock_key.sql",
    text: `-- What an advisory lock of this kind is called, for this name. Two names that share a number only wait for each other.
CREATE OR REPLACE FUNCTION {schema}.lock_key(kind text, name text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT hashtextextended(kind || ':' || name, hashtextextended('{schema}', 7309453))
$$;
`,
  },
  {
    path: "step/lock_limits.sql",
    text: `-- What is counted under these names is ours until the end of the transaction, for all of their groups. Taken last, all at once
-- and sorted: whoever has them waits for nobody.
CREATE OR REPLACE FUNCTION {schema}.lock_limits(names text[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  key bigint;
BEGIN
  FOR key IN SELECT DISTINCT {schema}.lock_key('limit', name) AS k FROM unnest(names) AS name ORDER BY k LOOP
    PERFORM pg_advisory_xact_lock(key);
  END LOOP;
END
$$;
`,
  },
  {
    path: "step/lock_queue.sql",
    text: `-- One claim at a time walks over the lanes of a queue, and no other takes jobs of it meanwhile: it would take them from under the
-- walk. Those that need no lanes share the lock. Taken before any limit. Answers whether it may have had to wait.
CREATE OR REPLACE FUNCTION {schema}.lock_queue(queue text, shared boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  key bigint := {schema}.lock_key('queue', queue);
BEGIN
  IF NOT shared THEN
    PERFORM pg_advisory_xact_lock(key);
  ELSIF pg_try_advisory_xact_lock_shared(key) THEN
    RETURN false;
  ELSE
    PERFORM pg_advisory_xact_lock_shared(key);
  END IF;
  RETURN true;
END
$$;
`,
  },
  {
    path: "step/moment.sql",
    text: `-- The time of the storage. It does not run backwards: where the clock of the server was set back, all of the storage goes on
-- from the time that was seen last, and stays ahead of the clock by the difference.
--
-- The last time seen is written down once in a while (every 100 ms at most), by whoever comes and need not wait for it. So
-- a step back that is smaller than that is not seen here; no log of starts goes backwards all the same (limits.newest).
--
-- The clock is read after what it is compared with, and again after a wait: else the time that passed in between would look like
-- a clock that was set back.
CREATE OR REPLACE FUNCTION {schema}.moment() RETURNS float8
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  seen record;
  now float8;
BEGIN
  SELECT last, skew INTO seen FROM {schema}.meta;
  now := {schema}.wall();
  IF now + seen.skew < seen.last THEN
    SELECT last, skew INTO seen FROM {schema}.meta FOR UPDATE;
    now := {schema}.wall();
    IF now + seen.skew < seen.last THEN
      UPDATE {schema}.meta SET skew = last - now RETURNING last, skew INTO seen;
    END IF;
  ELSIF now + seen.skew >= seen.last + 100 THEN
    PERFORM FROM {schema}.meta FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      UPDATE {schema}.meta SET last = greatest(last, now + seen.skew);
    END IF;
  END IF;
  RETURN now + seen.skew;
END
$$;
`,
  },
  {
    path: "step/present.sql",
    text: `-- The time of the storage for whoever only reads: what step/moment.sql would say, without writing anything down.
CREATE OR REPLACE FUNCTION {schema}.present() RETURNS float8
LANGUAGE sql STABLE AS $$
  SELECT greatest(last, {schema}.wall() + skew) FROM {schema}.meta
$$;
`,
  },
  {
    path: "step/wall.sql",
    text: `-- The clock of the server, in milliseconds since 1970. Nothing else reads it: tests put another one in its place.
CREATE OR REPLACE FUNCTION {schema}.wall() RETURNS float8
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8
$$;
`,
  },
];
