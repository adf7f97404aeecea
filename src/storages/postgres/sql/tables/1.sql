-- Version 1 of the tables: released, so it never changes. What came later is in 2.sql and those after it. Its types and functions are not
-- here: each version makes its own anew (types.sql).
--
-- Instants are milliseconds since 1970 by the clock of the storage, with fractions: doubles,
-- so that what is decided here is decided by the same arithmetic as everywhere else, to the last bit.
--
-- A CHECK holds a job's state and the columns that belong to it together: a statement that breaks the state machine fails, whatever tool
-- sends it. Every index answers one question, which stands above it, and is partial: finished jobs cost a claim nothing.

-- One row: the clock (steps.sql: moment), and a number that grows with every change of rules.
CREATE TABLE {schema}.meta (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  last float8 NOT NULL DEFAULT 0,
  skew float8 NOT NULL DEFAULT 0,
  rules bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
INSERT INTO {schema}.meta DEFAULT VALUES;

-- Tokens and turns, which only ever grow. A step that draws a number owns those up to the next one: a claim draws once, however many
-- jobs it starts.
CREATE SEQUENCE {schema}.numbers INCREMENT BY 10000;

-- Columns that stay as they are come first, then those that change: where the old and the new version of a row are on one page, the
-- server writes only the part that differs to its log.
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
  -- The log may have lines of it.
  logged boolean NOT NULL DEFAULT false,
  state text COLLATE "C" NOT NULL,
  started_at float8,
  lease_until float8,
  worker text COLLATE "C",
  -- The claim that started it: a repeated claim is answered with the same jobs.
  claim text COLLATE "C",
  -- What its latest start was charged under limits.
  limits jsonb,
  finished_at float8,
  delete_at float8,
  progress text,
  result text,
  error text,
  PRIMARY KEY (id) WITH (fillfactor = 70),
  -- The state machine: for each state, how many of lease_until, of finished_at and delete_at, and of result are set. It is short because
  -- the server parses it again for every statement that writes jobs.
  CHECK (attempt >= 0 AND (lease_until IS NULL OR (num_nulls(worker, started_at) = 0 AND token > 0))
    AND concat(state, num_nonnulls(lease_until), num_nonnulls(finished_at, delete_at), num_nonnulls(result))
      = ANY ('{waiting000,scheduled000,awaiting000,active100,completed020,completed021,dead020,cancelled020}'))
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
  autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 1);
-- Which job of a type is next, where no lanes are needed?
CREATE INDEX jobs_open ON {schema}.jobs (queue, type, priority DESC, due_at, seq)
  WHERE state = 'waiting' AND grp IS NULL;
-- Which job is next in the lane of a group?
CREATE INDEX jobs_grouped ON {schema}.jobs (queue, type, priority DESC, grp, due_at, seq)
  WHERE state = 'waiting' AND grp IS NOT NULL;
-- Which jobs come due?
CREATE INDEX jobs_scheduled ON {schema}.jobs (queue, due_at) WHERE state = 'scheduled';
-- Which leases have expired?
CREATE INDEX jobs_leases ON {schema}.jobs (lease_until) WHERE state = 'active';
-- Which active jobs are to be cancelled?
CREATE INDEX jobs_stopping ON {schema}.jobs (queue) WHERE state = 'active' AND cancel_requested;
-- Which jobs are too late to start?
CREATE INDEX jobs_deadlines ON {schema}.jobs (deadline) WHERE deadline IS NOT NULL AND state IN ('waiting', 'scheduled');
-- Which finished jobs have been kept long enough?
CREATE INDEX jobs_kept ON {schema}.jobs (delete_at) WHERE delete_at IS NOT NULL;
-- Lists and counts of all jobs but active ones, which are few. The collation is another one, with the same order: only a query that names
-- it uses this index. Otherwise the planner would look for the next job in it, right after many jobs were added.
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

-- Lanes: the waiting jobs of one queue, type, priority and group, where turns, or limits by group or weight, need them.
-- grp: '' without a group, ':' and its name with one. served: how many jobs have started in the present turn. blocked_until:
-- the limit blocked_by refuses the group until then, or the job heavy, which is too heavy for what is available, since heavy_since.
CREATE TABLE {schema}.lanes (
  id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  queue text COLLATE "C" NOT NULL,
  type text COLLATE "C" NOT NULL,
  priority float8 NOT NULL,
  grp text COLLATE "C" NOT NULL,
  -- Jobs may wait in it. A claim that finds none sets it to false.
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
-- Which lane has its turn?
CREATE INDEX lanes_ready ON {schema}.lanes (queue, type, priority DESC, turn, id) WHERE ready AND blocked_until IS NULL;
-- Which lanes may look at their limit again?
CREATE INDEX lanes_blocked ON {schema}.lanes (queue, type, blocked_until) WHERE ready AND blocked_until IS NOT NULL;
-- Which lanes wait for this limit, of this group?
CREATE INDEX lanes_group ON {schema}.lanes (blocked_by, grp) WHERE blocked_until IS NOT NULL;
-- Which lanes were not used for long?
CREATE INDEX lanes_empty ON {schema}.lanes (used_at) WHERE NOT ready;

-- Arrivals: jobs have come to wait in this group. An add inserts one row for all jobs of the group that it adds, in its transaction, and
-- waits for no lock. A claim that needs lanes reads the row and makes the lane ready (lanes.sql: fold_arrivals). So where a job of a group
-- waits, a lane is ready, or there is an arrival. due_at, job: the first of the jobs.
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
-- Which arrivals does a claim read first?
CREATE INDEX arrivals_type ON {schema}.arrivals (queue, type, priority DESC, seq);

-- type: '' for the whole queue, ':' and the type for one.
CREATE TABLE {schema}.pauses (
  queue text COLLATE "C" NOT NULL,
  type text COLLATE "C" NOT NULL,
  PRIMARY KEY (queue, type)
);

-- Scan cursors: of the jobs without a group and of this priority, none waits before this position, except those that came back since. There
-- are cursors only while the index is full of entries of jobs that are gone: the server cannot remove what an old snapshot may still
-- see, and a scan that passes all of these takes longer and longer (decision 0018). look_at: when the next scan passes them once more.
CREATE TABLE {schema}.marks (
  queue text COLLATE "C" NOT NULL,
  type text COLLATE "C" NOT NULL,
  priority float8 NOT NULL,
  due_at float8 NOT NULL,
  seq bigint NOT NULL,
  look_at float8 NOT NULL,
  PRIMARY KEY (queue, type, priority)
);

-- The job of each idempotency key. A key outlives its job.
CREATE TABLE {schema}.keys (
  queue text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  fingerprint text NOT NULL,
  job text COLLATE "C" NOT NULL,
  expires_at float8 NOT NULL,
  PRIMARY KEY (queue, key)
);
CREATE INDEX keys_expired ON {schema}.keys (expires_at);

-- A rule as columns, read from its JSON once (limits/rule.ts). groups: NULL where none is different. probes: NULL without a breaker.
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

-- The rules as they are stored (storage/stored-rules.ts), and the part in force, as JSON and as columns. The other columns are for claims,
-- which look at all rules first. plain: the rule counts starts, and only numbers decide. whole: all jobs of its queues count under it, each
-- for one.
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

-- The state of a limit, for one group or for all. When it is cleared it gets another id, which tokens and starts from before do not name.
-- Columns that change with every start are in no index.
CREATE TABLE {schema}.limits (
  id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  name text COLLATE "C" NOT NULL,
  grp text COLLATE "C" NOT NULL DEFAULT '',
  -- The numbers beside the window (limits/key-state.ts).
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
  -- How much was in use at seen_at, in a window of this length.
  window_ms float8,
  used float8 NOT NULL DEFAULT 0,
  seen_at float8 NOT NULL DEFAULT 0,
  -- How many slots jobs have, all together.
  held float8 NOT NULL DEFAULT 0,
  -- The longest window so far, for which starts are kept. The newest start; the newest one that was not kept.
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

-- Slots in use, by the token of a job's start or of a permit. A job has them until its lease ends. Where all jobs of a claim have the same
-- slots, one row stands for all of them: its token is the number that the claim drew, negated, and n of them have not ended yet.
CREATE TABLE {schema}.holds (
  limit_id bigint NOT NULL,
  token bigint NOT NULL,
  slots float8 NOT NULL,
  at float8 NOT NULL,
  until float8,
  n integer NOT NULL DEFAULT 1,
  PRIMARY KEY (limit_id, token)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
-- Which slots has this start?
CREATE INDEX holds_token ON {schema}.holds (token);
-- Which permits have slots of this limit?
CREATE INDEX holds_permits ON {schema}.holds (limit_id, until) WHERE until IS NOT NULL;
-- Which permits have expired?
CREATE INDEX holds_expired ON {schema}.holds (until) WHERE until IS NOT NULL;

-- Starts from `since` to `at`, which count for n together, or one start that a token names. `spent`: what was charged before and has left
-- every window. There is no CHECK: the server would parse it again for every statement that writes here.
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
-- Which starts does this grant have?
CREATE INDEX starts_claim ON {schema}.starts (claim) WHERE claim IS NOT NULL;
-- Which starts of a window are not confirmed?
CREATE INDEX starts_unconfirmed ON {schema}.starts (limit_id, at) WHERE claim IS NOT NULL;

-- Events for processes that listen; and these processes.
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
