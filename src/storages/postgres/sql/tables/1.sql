-- Version 1 of the tables: released, so it never changes. What came later is in 2.sql and those after it. Its types and functions are not
-- here: each version makes its own anew (types.sql).
--
-- Instants are milliseconds since 1970 by the clock of the storage, with fractions: doubles,
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

-- What stays as it is comes first, then what changes: where the old and the new version of a row are on one page, as a rule, only
-- what is different between them is written to the log of the server.
CREATE TABLE {schema}.jobs (
  -- The order of adding.
  seq bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  priority float8 NOT NULL,
  max_attempts bigint NOT NULL,
  created_at float8 NOT NULL,
  id text COLLATE "C" NOT NULL,
  queue text COLLATE "C" NOT NULL,
  type text COLLATE "C" NOT NULL,
  data text NOT NULL,
  backoff text NOT NULL,
  grp text COLLATE "C",
  weights jsonb,
  timeout float8,
  deadline float8,
  keep_for float8,
  idempotency_key text COLLATE "C",
  due_at float8 NOT NULL,
  token bigint NOT NULL DEFAULT 0,
  attempt integer NOT NULL DEFAULT 0,
  holds integer NOT NULL DEFAULT 0,
  cancel_requested boolean NOT NULL DEFAULT false,
  -- It may have lines in the log.
  logged boolean NOT NULL DEFAULT false,
  state text COLLATE "C" NOT NULL,
  started_at float8,
  lease_until float8,
  worker text COLLATE "C",
  -- Which claim started it: an answer that got lost can be asked for again.
  claim text COLLATE "C",
  -- What its latest start took of limits.
  limits jsonb,
  finished_at float8,
  delete_at float8,
  progress text,
  result text,
  error text,
  PRIMARY KEY (id) WITH (fillfactor = 70),
  -- The state machine: which states there are, and for each how many there are of lease_until, of finished_at and delete_at, and of
  -- result. In few words, for every statement that writes jobs reads it anew.
  CHECK (attempt >= 0 AND (lease_until IS NULL OR (num_nulls(worker, started_at) = 0 AND token > 0))
    AND concat(state, num_nonnulls(lease_until), num_nonnulls(finished_at, delete_at), num_nonnulls(result))
      = ANY ('{waiting000,scheduled000,awaiting000,active100,completed020,completed021,dead020,cancelled020}'))
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
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

-- Of jobs without a group, of this priority, nobody waits before this place, but for who has come back there since. It is known where
-- the index is full of jobs that are gone: the server may clean up nothing that an old snapshot could still want to see, and to
-- pass them all takes ever longer (decision 0018). look_at: then they are passed once more.
CREATE TABLE {schema}.marks (
  queue text COLLATE "C" NOT NULL,
  type text COLLATE "C" NOT NULL,
  priority float8 NOT NULL,
  due_at float8 NOT NULL,
  seq bigint NOT NULL,
  look_at float8 NOT NULL,
  PRIMARY KEY (queue, type, priority)
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

-- The rules as they are kept (storage/stored-rules.ts), and what is in force of them, as JSON and taken out of it. The rest is for
-- claims that look at all of them first. plain: it counts starts, and nothing but numbers is in their way, as far as the rule
-- goes. whole: all jobs of its queues count under it, and for one.
CREATE TABLE {schema}.rules (
  name text COLLATE "C" PRIMARY KEY,
  stored jsonb NOT NULL,
  rule jsonb NOT NULL,
  fields {schema}.limit_rule NOT NULL,
  queues text[] GENERATED ALWAYS AS ((fields).queues) STORED,
  types text[] GENERATED ALWAYS AS ((fields).types) STORED,
  plain boolean GENERATED ALWAYS AS (NOT (fields).by_group AND NOT (fields).paused
    AND num_nonnulls((fields).weight, (fields).every_ms, (fields).probes) = 0) STORED,
  whole boolean GENERATED ALWAYS AS (NOT (fields).by_group AND num_nonnulls((fields).weight, (fields).types) = 0) STORED
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
  -- The latest instant at which the latest start can have been called, and the number of the grant that may lower it (NULL: none).
  -- How long the latest call took that was confirmed, from its request on.
  called_at float8,
  called_by bigint,
  called_in float8 NOT NULL DEFAULT 0,
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

-- Starts from `since` to `at` that count for n together, or one that a token names. `spent`: what was charged before, and
-- has left every window. No CHECK: every statement that writes here would read it anew.
--
-- Starts that are to be confirmed (storage/grants.ts) have a row of their own, of which `at` is the latest instant at which they can
-- have been called. claim: the number of the grant, until it is confirmed. began: when its request arrived; stays. A limit
-- that has no window and only keeps starts apart has such a row as well, with n = 0, until it is confirmed.
CREATE TABLE {schema}.starts (
  seq bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  limit_id bigint NOT NULL,
  at float8 NOT NULL,
  since float8 NOT NULL,
  n float8 NOT NULL,
  token bigint,
  spent float8 NOT NULL DEFAULT 0,
  claim bigint,
  began float8
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
CREATE INDEX starts_window ON {schema}.starts (limit_id, at, seq) INCLUDE (n);
CREATE UNIQUE INDEX starts_token ON {schema}.starts (token) WHERE token IS NOT NULL;
-- What does this grant count under?
CREATE INDEX starts_claim ON {schema}.starts (claim) WHERE claim IS NOT NULL;
-- Which starts of a window are not confirmed?
CREATE INDEX starts_unconfirmed ON {schema}.starts (limit_id, at) WHERE claim IS NOT NULL;

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
