/**
 * The first version of the tables. Instants are milliseconds since 1970 by the clock of the storage, with fractions;
 * those of columns that end in `_wall` are by the wall clock.
 *
 * A job's state and the columns that belong to it are held together by CHECK constraints: whoever breaks the state machine,
 * with whatever tool, is refused. Every index is there for one question, named beside it.
 */
export const SCHEMA_1 = `
  -- One row: the version of this schema, the counter behind tokens and turns, and the clock (time.ts). \`settings\` grows with
  -- every change of what settings.ts reads, \`listeners\` with every change of listeners: a process reads them again when the
  -- number is another one. \`news\` grows with every step that made room, or jobs, where there was none.
  CREATE TABLE sluice_meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    last REAL NOT NULL,
    skew REAL NOT NULL,
    repairs INTEGER NOT NULL,
    boot TEXT,
    awake REAL NOT NULL,
    asleep REAL NOT NULL,
    settings INTEGER NOT NULL,
    listeners INTEGER NOT NULL,
    news INTEGER NOT NULL
  ) STRICT;
  INSERT INTO sluice_meta VALUES (1, 1, 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0);

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
    -- What limits count it by besides its group, as JSON, sorted by name; NULL: nothing.
    keys TEXT,
    data TEXT NOT NULL,
    weights TEXT,
    attempt INTEGER NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    max_attempts INTEGER NOT NULL,
    backoff TEXT NOT NULL,
    timeout REAL,
    deadline REAL,
    -- The deadline as a person gave it, by the wall clock: \`deadline\` follows it when the skew changes (instants.ts).
    deadline_wall REAL,
    keep_for REAL,
    holds INTEGER NOT NULL DEFAULT 0,
    created_at REAL NOT NULL,
    due_at REAL NOT NULL,
    -- While it backs off: the due_at that it takes again when that is over.
    first_due_at REAL,
    -- The same of due_at, while a job is scheduled that a person gave an instant for.
    due_wall REAL,
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
  -- Which instants follow the wall clock?
  CREATE INDEX sluice_jobs_due_wall ON sluice_jobs (due_wall) WHERE due_wall IS NOT NULL;
  CREATE INDEX sluice_jobs_deadline_wall ON sluice_jobs (deadline_wall)
    WHERE deadline_wall IS NOT NULL AND finished_at IS NULL;
  -- What has been kept long enough?
  CREATE INDEX sluice_jobs_kept ON sluice_jobs (delete_at) WHERE delete_at IS NOT NULL;
  -- Lists and counts of jobs that are not active. Active ones are few, and the index of leases has all of them: here they
  -- would be two writes more for every start and two for every end.
  CREATE INDEX sluice_jobs_states ON sluice_jobs (queue, state, seq) WHERE lease_until IS NULL;

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

  -- Jobs of one queue, type, priority, group and keys that wait. grp: '' without a group, ':' and its name with one. keys: as
  -- jobs say them, '' without. The lanes of a group in a priority take turns together, whatever their type and keys. Of lanes
  -- that differ only in their keys the latest turn holds; own is the first of them, and they go by their first jobs: head_at and
  -- head_seq, 0 in a lane without keys. served: how many were started since it is their turn. gate: where it stands while it
  -- waits for a limit; NULL: nowhere, it is ready. heavy: the job that a limit had too little left for, since heavy_since.
  CREATE TABLE sluice_lanes (
    id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    type TEXT NOT NULL,
    priority REAL NOT NULL,
    grp TEXT NOT NULL,
    keys TEXT NOT NULL DEFAULT '',
    own INTEGER NOT NULL,
    waiting INTEGER NOT NULL CHECK (waiting >= 0),
    turn INTEGER NOT NULL,
    served INTEGER NOT NULL DEFAULT 0,
    head_at REAL NOT NULL DEFAULT 0,
    head_seq INTEGER NOT NULL DEFAULT 0,
    gate INTEGER,
    heavy INTEGER,
    heavy_since REAL,
    used_at REAL NOT NULL,
    UNIQUE (queue, priority, grp, keys, type)
  ) STRICT;
  -- Whose turn is it, of those that wait for no limit?
  CREATE INDEX sluice_lanes_ready ON sluice_lanes (queue, type, priority DESC, turn, own, head_at, head_seq)
    WHERE waiting > 0 AND gate IS NULL;
  -- Whose turn is it, of those at a gate?
  CREATE INDEX sluice_lanes_gate ON sluice_lanes (gate, priority DESC, turn, own, head_at, head_seq)
    WHERE waiting > 0 AND gate IS NOT NULL;
  -- Which turn holds for lanes that differ in their keys?
  CREATE INDEX sluice_lanes_keyed ON sluice_lanes (queue, priority, grp, type, turn) WHERE keys <> '';
  CREATE TRIGGER sluice_lanes_first_keys AFTER INSERT ON sluice_lanes
  WHEN new.keys <> '' AND NOT EXISTS (SELECT 1 FROM sluice_lanes WHERE queue = new.queue AND keys <> '' AND id <> new.id) BEGIN
    UPDATE sluice_meta SET settings = settings + 1;
  END;
  CREATE TRIGGER sluice_lanes_last_keys AFTER DELETE ON sluice_lanes
  WHEN old.keys <> '' AND NOT EXISTS (SELECT 1 FROM sluice_lanes WHERE queue = old.queue AND keys <> '') BEGIN
    UPDATE sluice_meta SET settings = settings + 1;
  END;
  -- Which lanes has nobody used for long?
  CREATE INDEX sluice_lanes_empty ON sluice_lanes (used_at) WHERE waiting = 0;

  -- Where lanes of one queue and type stand that wait for the same key of a limit: the state grp of the limit name
  -- (limits/groups.ts). It opens and closes as a whole. until: it is closed until then; NULL: it is open. front: it is for
  -- this lane alone, whose first job is too heavy until heavy_until; else 0. The rest is the place of its first lane, or an earlier one.
  CREATE TABLE sluice_gates (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    grp TEXT NOT NULL,
    queue TEXT NOT NULL,
    type TEXT NOT NULL,
    front INTEGER NOT NULL,
    until REAL,
    heavy_until REAL,
    priority REAL NOT NULL,
    turn INTEGER NOT NULL,
    own INTEGER NOT NULL,
    head_at REAL NOT NULL,
    head_seq INTEGER NOT NULL,
    UNIQUE (name, grp, queue, type, front)
  ) STRICT;
  -- Which open gate has the lane whose turn it is?
  CREATE INDEX sluice_gates_open ON sluice_gates (queue, type, priority DESC, turn, own, head_at, head_seq)
    WHERE until IS NULL;
  -- Which gate opens first?
  CREATE INDEX sluice_gates_closed ON sluice_gates (queue, type, until) WHERE until IS NOT NULL;

  -- type: '' for the whole queue, ':' and the type for one.
  CREATE TABLE sluice_pauses (
    queue TEXT NOT NULL,
    type TEXT NOT NULL,
    PRIMARY KEY (queue, type)
  ) STRICT, WITHOUT ROWID;
  CREATE TRIGGER sluice_pauses_added AFTER INSERT ON sluice_pauses BEGIN
    UPDATE sluice_meta SET settings = settings + 1;
  END;
  CREATE TRIGGER sluice_pauses_removed AFTER DELETE ON sluice_pauses BEGIN
    UPDATE sluice_meta SET settings = settings + 1;
  END;

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

  -- The highest version that each owner of rules has declared; owners that gave none are not in it.
  CREATE TABLE sluice_limit_owners (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  -- What was changed about rules (storage/limit-history.ts), as JSON: the latest.
  CREATE TABLE sluice_limit_changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    at_wall REAL NOT NULL,
    change TEXT NOT NULL
  ) STRICT;
  CREATE INDEX sluice_limit_changes_name ON sluice_limit_changes (name, seq);

  -- The limits that the latest claim of a queue brought along, as JSON.
  CREATE TABLE sluice_claims (
    queue TEXT PRIMARY KEY,
    limits TEXT NOT NULL,
    at REAL NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX sluice_claims_old ON sluice_claims (at);
  CREATE TRIGGER sluice_claims_added AFTER INSERT ON sluice_claims BEGIN
    UPDATE sluice_meta SET settings = settings + 1;
  END;
  CREATE TRIGGER sluice_claims_removed AFTER DELETE ON sluice_claims BEGIN
    UPDATE sluice_meta SET settings = settings + 1;
  END;

  -- What is kept under the name of a limit, for one group or for all (limits/groups.ts). A cleared one gets another id:
  -- tokens and starts of before name nothing then.
  CREATE TABLE sluice_limits (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    grp TEXT NOT NULL DEFAULT '',
    -- The numbers beside the window (limits/key-state.ts).
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
  CREATE TRIGGER sluice_listeners_added AFTER INSERT ON sluice_listeners BEGIN
    UPDATE sluice_meta SET listeners = listeners + 1;
  END;
  CREATE TRIGGER sluice_listeners_changed AFTER UPDATE ON sluice_listeners BEGIN
    UPDATE sluice_meta SET listeners = listeners + 1;
  END;
  CREATE TRIGGER sluice_listeners_removed AFTER DELETE ON sluice_listeners BEGIN
    UPDATE sluice_meta SET listeners = listeners + 1;
  END;

  -- Workers that have registered: live until then. info: what else they say of themselves (storage/workers.ts), as JSON.
  CREATE TABLE sluice_workers (
    id TEXT PRIMARY KEY,
    queue TEXT NOT NULL,
    info TEXT NOT NULL,
    since REAL NOT NULL,
    seen_at REAL NOT NULL,
    until REAL NOT NULL
  ) STRICT, WITHOUT ROWID;
  -- Whose time is over?
  CREATE INDEX sluice_workers_until ON sluice_workers (until);
`;
