-- The first version of the tables. Instants are milliseconds since 1970 by the clock of the storage, with fractions: doubles,
-- so that what is decided here is decided by the same arithmetic as everywhere else, to the last bit.
--
-- A job's state and the columns that belong to it are held together by a CHECK: whoever breaks the state machine, with
-- whatever tool, is refused. Every index is there for one question, named beside it, and partial: finished jobs cost
-- a claim nothing.

-- One row: the clock (moment), and a number that grows with every change of rules.
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
  -- While it backs off: the due_at that it takes again when that is over.
  first_due_at float8,
  -- Instants as people gave them, by the clock of the server: of a scheduled job when it is due, and its deadline. due_at and
  -- deadline are the same by the clock of the storage as that was then (skew); what seems to have passed is compared with these.
  due_wall float8,
  deadline_wall float8,
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
  -- Which claim started it: an answer that got lost can be asked for again. Below zero: its lease has run out since.
  claim bigint,
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
-- Whose lease of this claim has run out, and was not followed by another?
CREATE INDEX jobs_stalled ON {schema}.jobs (claim) WHERE claim < 0;
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

-- The highest version that each owner of rules has declared; owners that gave none are not in it.
CREATE TABLE {schema}.limit_owners (
  name text COLLATE "C" PRIMARY KEY,
  version bigint NOT NULL
);

-- What was changed about rules (storage/limit-history.ts): the latest.
CREATE TABLE {schema}.limit_changes (
  seq bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  name text COLLATE "C" NOT NULL,
  -- By the clock of the server.
  at_wall float8 NOT NULL,
  change jsonb NOT NULL
);
CREATE INDEX limit_changes_name ON {schema}.limit_changes (name, seq);

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

-- What is known of steps by their numbers (begin_attempt): which attempt was the latest of those that another one came before;
-- and what was answered, where nothing else tells whether the step was done.
CREATE TABLE {schema}.steps (
  number bigint PRIMARY KEY,
  nth integer NOT NULL,
  answer text,
  until float8 NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);
-- Which of them need not be known any more? They come in that order, more or less, so the pages tell.
CREATE INDEX steps_old ON {schema}.steps USING brin (until) WITH (pages_per_range = 8);

-- What happened, for processes that listen; and which those are.
CREATE TABLE {schema}.events (
  seq bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  at float8 NOT NULL,
  event text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);
CREATE TABLE {schema}.listeners (
  origin text COLLATE "C" PRIMARY KEY,
  until float8 NOT NULL,
  events boolean NOT NULL,
  ends boolean NOT NULL
) WITH (fillfactor = 50);

-- Workers that have registered: live until then. info: what else they say of themselves (storage/workers.ts), as JSON.
CREATE TABLE {schema}.workers (
  id text COLLATE "C" PRIMARY KEY,
  queue text COLLATE "C" NOT NULL,
  info text NOT NULL,
  since float8 NOT NULL,
  seen_at float8 NOT NULL,
  until float8 NOT NULL
) WITH (fillfactor = 50);

-- A lease that has ended, as the limits want to know about it. how: 'well', 'failed' (with these kinds of error), 'gone'. settled:
-- a service refused the start, and the weights that it took come back, but for these; NULL: it was not refused.
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
  unstarted boolean,
  settled text[]
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
  entry bigint,
  -- As in `limits`. The shortest spacing of the rules that look at it. How soon the starts of the step are called; NULL: at once.
  called_at float8,
  called_by bigint,
  called_in float8,
  every_ms float8,
  grant_ttl float8
);

-- What a claim whose jobs are all alike to its limits is going to write under one of them. id: NULL where nothing is kept yet.
-- counted: the window that is kept a total of, before: what was in use of it at before_at. logged: starts are written down;
-- entry: in a row that is there already. singly: what is held of it is written down for each job. spaced: it keeps starts apart.
CREATE TYPE {schema}.limit_use AS (
  id bigint,
  name text,
  holds boolean,
  singly boolean,
  counted float8,
  before float8,
  before_at float8,
  logged boolean,
  entry bigint,
  spaced boolean
);

-- What limits leave to such a claim. plain: nothing but numbers is in its way. taken: what is kept of a start with its job.
-- shortest: of the windows and the spacing that its starts count under. confirm_in: when it is to be confirmed; NULL: never.
CREATE TYPE {schema}.limit_room AS (
  at float8,
  free float8,
  wait float8,
  blocked_by text,
  unprepared boolean,
  plain boolean,
  taken jsonb,
  rules {schema}.limit_rule[],
  uses {schema}.limit_use[],
  shortest float8,
  confirm_in float8
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

-- How a lease ends that does not end well (release_leases): the row of its job, retry, back, dead or cancelled, when it is tried again
-- (NULL: at once), whether a service refused its start, and the error as JSON.
CREATE TYPE {schema}.lease_end AS (at tid, "to" text, in_ms float8, held boolean, error text);

-- What jobs that are added have in common (add), by its number from 1: columns of jobs.
CREATE TYPE {schema}.job_kind AS (
  no bigint,
  queue text,
  type text,
  state text,
  priority float8,
  grp text,
  weights jsonb,
  max_attempts bigint,
  backoff text,
  timeout float8,
  deadline float8,
  deadline_wall float8,
  keep_for float8,
  due_at float8,
  due_wall float8
);

-- A job that has come to wait, or is scheduled (wake_ups, insert_arrivals): columns of jobs.
CREATE TYPE {schema}.arrival AS (seq bigint, queue text, type text, priority float8, grp text, state text, due_at float8);

-- A job that waited and does not any more, though it has not started: what decides which lane that was.
CREATE TYPE {schema}.gone_job AS (queue text, type text, priority float8, grp text);

-- What a claim is asked for (jobs/claim.sql). many: there are so many limits that it has the storage for itself. arrived: when it
-- came, by the clock of the server. overtaken: a later attempt at the same claim is under way. plan: what is to be taken, as
-- claim_plan says it; NULL: the claim walks over lanes by itself.
CREATE TYPE {schema}.claim_request AS (
  claim bigint,
  queue text,
  worker text,
  max integer,
  ahead integer,
  bytes float8,
  types text[],
  lease_ms float8,
  limits jsonb,
  settle json,
  ids text[],
  tokens bigint[],
  results jsonb,
  grant_ttl float8,
  grants bigint[],
  called float8[],
  plan json,
  many boolean,
  arrived float8,
  overtaken boolean
);

-- What a claim proposes to take (jobs/take.sql), made from a snapshot (jobs/snapshot.sql). epoch: the number of the rules that it was
-- made with; NULL: none are known. page: so many lanes of each type belong to the next snapshot. number: of an earlier grant of the
-- same claim, which this one continues.
CREATE TYPE {schema}.claim_plan AS (
  epoch bigint,
  page integer,
  number bigint,
  -- Of which types lanes are taken from.
  types text[],
  -- How many lanes of each type the plan has looked at, in their order, and all lanes that it knew. NULL: whether others come first
  -- now is not asked.
  seen_types text[],
  seen_counts integer[],
  known bigint[],
  -- Lanes that have their turns with others, and their heads: where another job is first now, that precedes the plan.
  front_lanes bigint[],
  front_dues float8[],
  front_seqs bigint[],
  -- Lanes, and what is proposed for their heads, in order: each names a lane by its place, and what becomes of the head: 1, it
  -- starts; 2, it never can; 3, its lane is blocked. seqs: which job it has to be; NULL: whichever is first. passes: is the turn of
  -- its group over with this start? NULL: always.
  lanes bigint[],
  places integer[],
  kinds integer[],
  dues float8[],
  seqs bigint[],
  passes boolean[],
  -- Of how many jobs of each lane it is; and which of the lanes have their turns together: those with the same number.
  counts integer[],
  units integer[],
  -- Lanes that are left empty.
  emptied bigint[]
);

-- What a claim looks at first: the clock, and whether there is anything special. due_at, deadline: the first that comes. lanes:
-- somebody waits in a group. keeps: the first of those that ended is kept. head_*: the first who waits without a group, of the
-- first type (of one after it, if the claim asks for one of which nobody waits). last_type: the last of such types, where none was
-- asked for. marked: there are marks; then these five are not looked for. overtaken: a later attempt at the same claim came before.
CREATE TYPE {schema}.claim_signs AS (
  last float8,
  now float8,
  ruled boolean,
  heard boolean,
  paused boolean,
  remembered boolean,
  due_at float8,
  deadline float8,
  lanes boolean,
  keeps boolean,
  marked boolean,
  last_type text,
  head_type text,
  head_priority float8,
  head_due_at float8,
  head_seq bigint,
  overtaken boolean
);

-- Jobs that have started (jobs/start_jobs.sql), how many, and where the last of them stood.
CREATE TYPE {schema}.started_jobs AS (jobs json, count integer, due_at float8, seq bigint);

-- Which way a claim goes (jobs/way_of.sql), under which rules. decided: only these types are taken.
CREATE TYPE {schema}.claim_way AS (
  rules {schema}.limit_rule[],
  types text[],
  decided boolean,
  walks boolean
);

-- What comes of a claim that needs no lanes (jobs/claim_open.sql). at: what next_in is counted from. granted: its number and when
-- it is to be confirmed; NULL: there is nothing to confirm.
CREATE TYPE {schema}.opened_claim AS (
  jobs json,
  more boolean,
  next_in float8,
  blocked_by text,
  told boolean,
  at float8,
  granted json
);

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

-- Keys of limits as one claim sees them (limits/open_keys.sql), side by side. at: the instant that it is about; latest: the newest start
-- that is known; unprepared: a window is longer than starts were kept for.
CREATE TYPE {schema}.claim_keys AS (
  at float8,
  latest float8,
  unprepared boolean,
  -- Which of the rules; whose state; its id, NULL where nothing is kept yet; the first key that shares it.
  rules integer[],
  names text[],
  grps text[],
  ids bigint[],
  states integer[],
  -- What the rule says. holds: starts hold slots; pins: or a row without any; alike: all starts hold the same of it.
  maxima float8[],
  windows float8[],
  concurrency float8[],
  everys float8[],
  holds boolean[],
  pins boolean[],
  alike boolean[],
  -- What is available: nothing, or so much.
  closed boolean[],
  weights float8[],
  slots float8[],
  starts float8[],
  -- No more than this was in use at used_at. Where starts are entered: in a row that is there already, or in one of their own.
  used float8[],
  used_at float8[],
  entries bigint[],
  logged boolean[]
);

-- What is granted of a plan (jobs/grant_planned.sql). Nothing of it is written yet. again: not all of the plan was granted. missed:
-- another claim has locked lanes that are empty or to be blocked.
CREATE TYPE {schema}.planned_grants AS (
  at float8,
  again boolean,
  missed boolean,
  -- The jobs that start, in order.
  jobs tid[],
  -- What they take: which start, of which state, how much; what each holds by itself; and of each state all together.
  use_starts integer[],
  use_states integer[],
  use_weights float8[],
  hold_starts integer[],
  hold_states integer[],
  hold_slots float8[],
  keys {schema}.claim_keys,
  starts integer[],
  weights float8[],
  slots float8[],
  -- Lanes that had their turn with a start (0: it is still theirs), how many were served since, and whether they gave any.
  lanes bigint[],
  turns integer[],
  served integer[],
  gave boolean[],
  -- Lanes in which no job was found.
  emptied bigint[],
  -- Lanes that are blocked, for how long, by which limit, and the job that is too heavy for it.
  blocked bigint[],
  blocked_waits float8[],
  blocked_names text[],
  blocked_heavy bigint[],
  -- Jobs that can never start, under which limit, how much it lets start, and what they weigh.
  refused tid[],
  refused_names text[],
  refused_most float8[],
  refused_weights float8[],
  -- Limits that a heavy job waited for which starts now, and for which group.
  freed_names text[],
  freed_grps text[]
);
