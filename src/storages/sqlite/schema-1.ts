/**
 * Version 1 of the tables: released, so it never changes. What came later is in the steps from one version to the next (migrations.ts).
 * Instants are milliseconds since 1970 by the clock of the storage, with fractions.
 *
 * A job's state and the columns that belong to it are held together by CHECK constraints: a write that breaks the state
 * machine, with whatever tool, is refused. Every index is there for one question, named beside it.
 */
export const SCHEMA_1 = `
  -- One row: the version of this schema, the counter behind tokens and turns, and the clock (time.ts). \`rules\` grows with
  -- every change of rules, \`news\` with every step that made room, or jobs, where there was none.
  CREATE TABLE sluice_meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    last REAL NOT NULL,
    skew REAL NOT NULL,
    rules INTEGER NOT NULL,
    news INTEGER NOT NULL
  ) STRICT;
  INSERT INTO sluice_meta VALUES (1, 1, 0, 0, 0, 0, 0);

  CREATE TABLE sluice_jobs (
    -- The order of adding. A number may be used again when the newest job is deleted; the order is right all the same.
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    queue TEXT NOT NULL,
    type TEXT NOT NULL,
    state TEXT NOT NULL,
    lane INTEGER,
    priority REAL NOT NULL,
    grp TEXT,
    data TEXT NOT NULL,
    weights TEXT,
    attempt INTEGER NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    max_attempts INTEGER NOT NULL,
    backoff TEXT NOT NULL,
    timeout REAL,
    deadline REAL,
    keep_for REAL,
    holds INTEGER NOT NULL DEFAULT 0,
    created_at REAL NOT NULL,
    due_at REAL NOT NULL,
    started_at REAL,
    finished_at REAL,
    worker TEXT,
    lease_until REAL,
    token INTEGER NOT NULL DEFAULT 0,
    -- What its latest start took of limits (limits/taken.ts).
    limits TEXT,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    progress TEXT,
    result TEXT,
    error TEXT,
    idempotency_key TEXT,
    delete_at REAL,
    -- The state machine. One expression, for it is looked at with every change.
    CHECK (CASE state
      WHEN 'active' THEN lease_until IS NOT NULL AND worker IS NOT NULL AND started_at IS NOT NULL AND token > 0
        AND finished_at IS NULL AND delete_at IS NULL AND result IS NULL
      WHEN 'completed' THEN lease_until IS NULL AND finished_at IS NOT NULL AND delete_at IS NOT NULL
      WHEN 'waiting' THEN lane IS NOT NULL
        AND lease_until IS NULL AND finished_at IS NULL AND delete_at IS NULL AND result IS NULL
      WHEN 'scheduled' THEN lease_until IS NULL AND finished_at IS NULL AND delete_at IS NULL AND result IS NULL
      WHEN 'awaiting' THEN lease_until IS NULL AND finished_at IS NULL AND delete_at IS NULL AND result IS NULL
      WHEN 'dead' THEN lease_until IS NULL AND finished_at IS NOT NULL AND delete_at IS NOT NULL AND result IS NULL
      WHEN 'cancelled' THEN lease_until IS NULL AND finished_at IS NOT NULL AND delete_at IS NOT NULL AND result IS NULL
      ELSE 0 END)
  ) STRICT;
  -- Who is next in a lane?
  CREATE INDEX sluice_jobs_waiting ON sluice_jobs (lane, due_at, seq) WHERE state = 'waiting';
  -- What comes due?
  CREATE INDEX sluice_jobs_scheduled ON sluice_jobs (queue, due_at) WHERE state = 'scheduled';
  -- Whose lease has run out?
  CREATE INDEX sluice_jobs_leases ON sluice_jobs (lease_until) WHERE lease_until IS NOT NULL;
  -- Who is asked to stop?
  CREATE INDEX sluice_jobs_stopping ON sluice_jobs (queue) WHERE state = 'active' AND cancel_requested = 1;
  -- Which jobs are too late to start?
  CREATE INDEX sluice_jobs_deadlines ON sluice_jobs (deadline)
    WHERE deadline IS NOT NULL AND finished_at IS NULL AND lease_until IS NULL;
  -- What has been kept long enough?
  CREATE INDEX sluice_jobs_kept ON sluice_jobs (delete_at) WHERE delete_at IS NOT NULL;
  -- Lists and counts.
  CREATE INDEX sluice_jobs_states ON sluice_jobs (queue, state, seq);

  -- Attempts that failed.
  CREATE TABLE sluice_attempts (
    seq INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    started_at REAL NOT NULL,
    ended_at REAL NOT NULL,
    worker TEXT NOT NULL,
    error TEXT NOT NULL
  ) STRICT;
  CREATE INDEX sluice_attempts_job ON sluice_attempts (job, seq);

  CREATE TABLE sluice_log (
    seq INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    at REAL NOT NULL,
    attempt INTEGER NOT NULL,
    text TEXT NOT NULL
  ) STRICT;
  CREATE INDEX sluice_log_job ON sluice_log (job, seq);

  CREATE TRIGGER sluice_jobs_deleted AFTER DELETE ON sluice_jobs BEGIN
    DELETE FROM sluice_attempts WHERE job = old.seq;
    DELETE FROM sluice_log WHERE job = old.seq;
  END;

  -- Jobs of one queue, type, priority and group that wait. grp: '' without a group, ':' and its name with one. The lanes
  -- of a group in a priority take turns together: the unique key finds all of them, whatever their type. served: how many
  -- were started since it is their turn. blocked_until: the limit blocked_by is full for the group until then, or has too
  -- little left for the job heavy, which waits for it since heavy_since.
  CREATE TABLE sluice_lanes (
    id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    type TEXT NOT NULL,
    priority REAL NOT NULL,
    grp TEXT NOT NULL,
    waiting INTEGER NOT NULL CHECK (waiting >= 0),
    turn INTEGER NOT NULL,
    served INTEGER NOT NULL DEFAULT 0,
    blocked_until REAL,
    blocked_by TEXT,
    heavy INTEGER,
    heavy_since REAL,
    used_at REAL NOT NULL,
    UNIQUE (queue, priority, grp, type)
  ) STRICT;
  -- Whose turn is it?
  CREATE INDEX sluice_lanes_ready ON sluice_lanes (queue, type, priority DESC, turn, id)
    WHERE waiting > 0 AND blocked_until IS NULL;
  -- Whose limits have room again?
  CREATE INDEX sluice_lanes_blocked ON sluice_lanes (queue, type, blocked_until)
    WHERE waiting > 0 AND blocked_until IS NOT NULL;
  -- Which lanes wait for this limit, of this group?
  CREATE INDEX sluice_lanes_group ON sluice_lanes (blocked_by, grp) WHERE blocked_until IS NOT NULL;
  -- Which lanes has nobody used for long?
  CREATE INDEX sluice_lanes_empty ON sluice_lanes (used_at) WHERE waiting = 0;

  -- type: '' for the whole queue, ':' and the type for one.
  CREATE TABLE sluice_pauses (
    queue TEXT NOT NULL,
    type TEXT NOT NULL,
    PRIMARY KEY (queue, type)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE sluice_keys (
    queue TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    job TEXT NOT NULL,
    expires_at REAL NOT NULL,
    PRIMARY KEY (queue, key)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX sluice_keys_expired ON sluice_keys (expires_at);

  -- The rules in force (storage/stored-rules.ts), as JSON.
  CREATE TABLE sluice_rules (
    name TEXT PRIMARY KEY,
    stored TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;

  -- The limits that the latest claim of a queue brought along, as JSON.
  CREATE TABLE sluice_claims (
    queue TEXT PRIMARY KEY,
    limits TEXT NOT NULL,
    at REAL NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX sluice_claims_old ON sluice_claims (at);

  -- What is kept under the name of a limit, for one group or for all (limits/groups.ts). A cleared one gets another id:
  -- tokens and starts of before name nothing then.
  CREATE TABLE sluice_limits (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    grp TEXT NOT NULL DEFAULT '',
    -- The numbers beside the window (limits/gauge.ts).
    latest_at REAL,
    called_at REAL,
    called_by INTEGER,
    called_in REAL NOT NULL DEFAULT 0,
    pause_until REAL,
    told_left REAL,
    told_until REAL,
    failures INTEGER NOT NULL DEFAULT 0,
    open_until REAL,
    -- At seen_at so much was in use in a window of this length (totals.ts).
    window_ms REAL,
    used REAL NOT NULL DEFAULT 0,
    seen_at REAL NOT NULL DEFAULT 0,
    -- The longest window seen: so long starts are kept. The newest start that was not kept.
    longest REAL NOT NULL,
    forgotten_at REAL,
    -- When to look next for starts that need not be kept.
    prune_at REAL NOT NULL,
    UNIQUE (name, grp)
  ) STRICT;
  CREATE INDEX sluice_limits_prune ON sluice_limits (prune_at);
  -- Which groups were used last?
  CREATE INDEX sluice_limits_groups ON sluice_limits (name, latest_at) WHERE grp <> '';

  -- What is held of limits, by the token of a job's start or of a permit. Jobs hold until their lease ends.
  CREATE TABLE sluice_holds (
    limit_id INTEGER NOT NULL,
    token INTEGER NOT NULL,
    slots REAL NOT NULL,
    at REAL NOT NULL,
    until REAL,
    PRIMARY KEY (limit_id, token)
  ) STRICT, WITHOUT ROWID;
  -- What does this start hold?
  CREATE INDEX sluice_holds_token ON sluice_holds (token);
  -- Which permits have run out?
  CREATE INDEX sluice_holds_expired ON sluice_holds (until) WHERE until IS NOT NULL;

  -- Starts from \`since\` to \`at\` that count for n together, or one that a token names. \`spent\`: see windows.ts. Those of a
  -- claim or permit were asked for at \`granted\`; while \`claim\` is its number they are not confirmed, and \`at\` is the last
  -- moment at which they may be called.
  CREATE TABLE sluice_starts (
    seq INTEGER PRIMARY KEY,
    limit_id INTEGER NOT NULL,
    at REAL NOT NULL,
    since REAL NOT NULL,
    n REAL NOT NULL CHECK (n >= 0),
    token INTEGER,
    spent REAL NOT NULL DEFAULT 0,
    granted REAL,
    claim INTEGER
  ) STRICT;
  -- What has this claim counted that is not confirmed?
  CREATE INDEX sluice_starts_claim ON sluice_starts (claim) WHERE claim IS NOT NULL;
  CREATE INDEX sluice_starts_window ON sluice_starts (limit_id, at, seq, n);
  CREATE UNIQUE INDEX sluice_starts_token ON sluice_starts (token) WHERE token IS NOT NULL;

  -- What happened, for processes that listen; and which those are.
  CREATE TABLE sluice_events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    origin TEXT NOT NULL,
    event TEXT NOT NULL
  ) STRICT;
  CREATE TABLE sluice_listeners (
    origin TEXT PRIMARY KEY,
    until REAL NOT NULL,
    events INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
`;
