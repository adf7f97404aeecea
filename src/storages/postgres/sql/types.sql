-- What functions hand to each other. Like functions they belong to no table: a migration drops those of the version before and makes
-- these, so they are changed here, at any time.

-- A lease that has ended, as the limits want to know about it. how: 'well', 'failed' (with these kinds of error), 'gone'. settled:
-- a service refused the start, and the weights that it took come back, but for these; NULL: it was not refused.
CREATE TYPE {schema}.ended_lease AS (
  token bigint,
  queue text,
  type text,
  grp text,
  keys text,
  started_at float8,
  limits jsonb,
  how text,
  kinds text[],
  hold jsonb,
  unstarted boolean,
  settled text[]
);

-- How much may happen, in one group or in all.
CREATE TYPE {schema}.limit_quota AS (
  max float8,
  window_ms float8,
  concurrency float8,
  every_ms float8
);

-- What one start takes of a limit.
CREATE TYPE {schema}.limit_charge AS (weight float8, slots float8);

-- What a step gave back of one limit that something waits for: how long one more had to wait for what was held before, and how much that
-- was. Without an id: all waiting workers are to be woken, whatever else is given back.
CREATE TYPE {schema}.limit_given AS (
  id bigint,
  name text,
  grp text,
  wait float8,
  slots float8
);

-- Leases that are to be ended, with the rows of their jobs locked (begin_settle): by an outcome each, or all of them well.
CREATE TYPE {schema}.ending_leases AS (
  -- A list as jobs/outcomes.ts writes it; the rows that are held, with the numbers of their outcomes, how they end (NULL: well), and what with.
  outcomes json,
  ats tid[],
  ns integer[],
  tos text[],
  results text[],
  -- The numbers of the others, whose lease was lost; and wake-ups of those that had not started.
  stale integer[],
  woken json,
  -- One that has a group or keys comes back.
  grouped boolean,
  -- As the limits want to know about them; NULL: no limit does.
  leases {schema}.ended_lease[],
  -- The tokens of those that are completed already, in their order, and may hold slots; NULL: none.
  completed bigint[],
  -- The limits to be locked before they are ended. Is it published that some were completed?
  limits text[],
  ends_published boolean
);

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
  keys text,
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

-- A job that has come to wait, or is scheduled, or does not wait any more: the columns of jobs that its lane goes by.
CREATE TYPE {schema}.lane_job AS (seq bigint, queue text, type text, priority float8, grp text, keys text, state text, due_at float8);

-- What a claim is asked for (claim.sql). arrived: when it came, by the clock of the server. overtaken: a later attempt at the same
-- claim is under way. plan: what is to be taken where lanes are needed, as claim_plan says it. claimant: whose it is (limits/starved.ts).
CREATE TYPE {schema}.claim_request AS (
  claim bigint,
  queue text,
  worker text,
  max integer,
  prefetch integer,
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
  claimant text,
  arrived float8,
  overtaken boolean
);

-- What a claim proposes to take (take.sql), made from a snapshot (snapshot.sql). epoch: the number of the rules that it was
-- made with; NULL: none are known. page: so many lanes of each type belong to the next snapshot. number: of an earlier grant of the
-- same claim, which this one continues.
CREATE TYPE {schema}.claim_plan AS (
  epoch bigint,
  page integer,
  number bigint,
  -- Of which types lanes are taken from.
  types text[],
  -- How many lanes of each type the plan has looked at, in their order, and all lanes that it knew. NULL: whether others come first
  -- now is not asked. is_late: it is asked only of those of a higher priority.
  seen_types text[],
  seen_counts integer[],
  known bigint[],
  is_late boolean,
  -- Lanes and a job of each, by its place after so many others: where another job has that place now, and precedes it, that precedes the
  -- plan. Of lanes that have their turns with others it is the head; of lanes that are left empty, none.
  front_lanes bigint[],
  front_skips integer[],
  front_dues float8[],
  front_seqs bigint[],
  -- Lanes, and what is proposed for their heads, in order: each names a lane by its place, and what becomes of the head: 1, it
  -- starts; 2, it never can; 3, its lane is blocked; 4, a limit for all of them closes its type. One that fits after all where a refusal
  -- was expected starts, and ends the plan. seqs: which job it has to be; NULL: whichever is first. passes: is the turn of its group over
  -- with this start? NULL: always.
  lanes bigint[],
  places integer[],
  kinds integer[],
  dues float8[],
  seqs bigint[],
  passes boolean[],
  -- Of how many jobs of each lane it is; and which of the lanes have their turns together: those with the same number; 0: without groups
  -- lanes that differ in their keys take no turns.
  counts integer[],
  units integer[],
  -- Lanes that are left empty.
  emptied bigint[],
  -- Limits for all that refused something of it, and do not say so yet (limits.awaited); NULL: none.
  awaits text[],
  -- Has it started nothing of the claim?
  starves boolean[]
);

-- What a claim looks at first: the clock, and whether there is anything special. due_at, deadline: the first that comes. lanes:
-- jobs wait in a group or with keys. keeps: the first of those that ended is kept. head_*: the first job that waits without a group, of
-- the first type (of one after it, if the claim asks for one of which no job waits). last_type: the last of such types, where none was
-- asked for. has_cursors: there are cursors; then these five are not looked for. overtaken: a later attempt at the same claim came before.
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
  has_cursors boolean,
  last_type text,
  head_type text,
  head_priority float8,
  head_due_at float8,
  head_seq bigint,
  overtaken boolean
);

-- Jobs that have started (pick.sql: start_jobs), how many, and where the last of them stood.
CREATE TYPE {schema}.started_jobs AS (jobs json, count integer, due_at float8, seq bigint);

-- Which way a claim goes (claim.sql: way_of), under which rules. decided: only these types are taken.
CREATE TYPE {schema}.claim_way AS (
  rules {schema}.limit_rule[],
  types text[],
  decided boolean,
  planned boolean
);

-- What comes of a claim that needs no lanes (claim_uniform.sql: claim_open). at: what next_in is counted from. granted: its number and when
-- it is to be confirmed; NULL: there is nothing to confirm. others: for how long others have waited for slots; NULL: none do.
CREATE TYPE {schema}.opened_claim AS (
  jobs json,
  more boolean,
  next_in float8,
  blocked_by text,
  published boolean,
  at float8,
  granted json,
  others float8
);

-- Keys of limits as one claim sees them (limits/keys.sql: open_keys), side by side. at: the instant that it is about; latest: the newest start
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
  -- What the rule says. takes_slots: starts take slots; pins: or a row without any; alike: all starts hold the same of it.
  maxima float8[],
  windows float8[],
  concurrency float8[],
  everys float8[],
  takes_slots boolean[],
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
  logged boolean[],
  -- Does a release of slots wake up waiters already? Is it known that the claimant waits? For how long have others? NULL: none do.
  awaited boolean[],
  starved boolean[],
  others float8[]
);

-- What is granted of a plan (take.sql: grant_planned). Nothing of it is written yet. again: not all of the plan was granted. missed:
-- another claim has locked lanes that are empty or to be blocked. short: lanes in which other transactions have jobs that were
-- granted; locked_lanes: the lane of each job that was locked instead (lock_uncharged).
CREATE TYPE {schema}.planned_grants AS (
  at float8,
  again boolean,
  missed boolean,
  short bigint[],
  locked_lanes bigint[],
  -- The jobs that start, in order; whether they run under limits.
  jobs tid[],
  job_seqs bigint[],
  job_lanes bigint[],
  is_charged boolean[],
  -- What they take: which start, of which state, how much; what each holds by itself; and of each state all together.
  use_starts integer[],
  use_states integer[],
  use_weights float8[],
  slot_starts integer[],
  slot_states integer[],
  slot_counts float8[],
  keys {schema}.claim_keys,
  starts integer[],
  weights float8[],
  slots float8[],
  -- Lanes that had their turn with a start (0: it is still theirs), how many were served since, and whether they gave any.
  lanes bigint[],
  turns integer[],
  served integer[],
  gave boolean[],
  -- Those of them that gave, and have keys: another job is first there now.
  keyed bigint[],
  -- Lanes in which no job was found.
  emptied bigint[],
  -- Lanes that are blocked, for how long, by which limit and which state of it, and the job that is too heavy for it.
  blocked bigint[],
  blocked_waits float8[],
  blocked_names text[],
  blocked_grps text[],
  blocked_heavy bigint[],
  -- Lanes that were asked and refused, and are not blocked: the limit that refused is for all of them.
  closed bigint[],
  -- Limits by group that refused a lane slots, and gave none to the claim; and for how long others have waited for slots that it took.
  starved_names text[],
  starved_grps text[],
  others float8,
  -- Jobs that can never start, under which limit, how much it lets start, and what they weigh.
  refused tid[],
  refused_seqs bigint[],
  refused_names text[],
  refused_most float8[],
  refused_weights float8[],
  -- Limits that a heavy job waited for which starts now, or which another limit refuses, and which state of them.
  freed_names text[],
  freed_grps text[]
);
