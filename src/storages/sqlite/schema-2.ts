/**
 * The step from version 1 of the tables to version 2. A new database takes all steps, one after the other, so there is one
 * definition of each version (decision 0032). Until version 2 is released, a change of tables is made here; from then on in a step to version 3.
 *
 * Instants are milliseconds since 1970 by the clock of the storage; those of columns that end in `_wall` are by the wall clock.
 * `sluice_jobs` is only added to, and its indexes are built again: nothing writes its rows. What is rebuilt (lanes) is small.
 */
export const SCHEMA_2 = `
  -- The clock of the computer (time.ts), and how often the clock was repaired. \`settings\` grows with every change of what
  -- settings.ts reads, \`listeners\` with every change of listeners: a process reads them again when the number is another one.
  -- They begin above the number of a process that has read nothing. \`rules\` is for processes of version 1, see below, and so is the name
  -- of \`news\`, which they read outside of steps: it counts the steps that woke up workers and waiters.
  ALTER TABLE sluice_meta ADD COLUMN repairs INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE sluice_meta ADD COLUMN boot TEXT;
  ALTER TABLE sluice_meta ADD COLUMN awake REAL NOT NULL DEFAULT 0;
  ALTER TABLE sluice_meta ADD COLUMN asleep REAL NOT NULL DEFAULT 0;
  ALTER TABLE sluice_meta ADD COLUMN settings INTEGER NOT NULL DEFAULT 1;
  ALTER TABLE sluice_meta ADD COLUMN listeners INTEGER NOT NULL DEFAULT 1;

  -- What a service said: nothing starts before held_until, and so much is left until remaining_until.
  ALTER TABLE sluice_limits RENAME COLUMN pause_until TO held_until;
  ALTER TABLE sluice_limits RENAME COLUMN told_left TO remaining;
  ALTER TABLE sluice_limits RENAME COLUMN told_until TO remaining_until;
  -- Something was refused since the latest wake-up: slots that are released wake up waiters (release.ts). A permit, or of a limit for
  -- all a job: lanes that a limit by group refuses stand at its gates.
  ALTER TABLE sluice_limits ADD COLUMN awaited INTEGER NOT NULL DEFAULT 0;
  -- Who waits for its slots without having any, and since when (limits/starved.ts).
  ALTER TABLE sluice_limits ADD COLUMN starved_by TEXT;
  ALTER TABLE sluice_limits ADD COLUMN starved_since REAL;

  -- Slots in use, by the token of a job's start or of a permit. Those of jobs are in use until their lease ends.
  CREATE TABLE sluice_slots (
    limit_id INTEGER NOT NULL,
    token INTEGER NOT NULL,
    slots REAL NOT NULL,
    at REAL NOT NULL,
    until REAL,
    PRIMARY KEY (limit_id, token)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO sluice_slots SELECT * FROM sluice_holds;
  DROP TABLE sluice_holds;
  -- What does this start hold?
  CREATE INDEX sluice_slots_token ON sluice_slots (token);
  -- Which permits have expired?
  CREATE INDEX sluice_slots_expired ON sluice_slots (until) WHERE until IS NOT NULL;

  -- \`backoff\` may be '' now: the default, exponential from a second up to ten minutes.
  -- What limits count a job by besides its group, as JSON, sorted by name; NULL: nothing.
  ALTER TABLE sluice_jobs ADD COLUMN keys TEXT;
  -- The deadline as a person gave it, by the wall clock: \`deadline\` follows it when the skew changes (instants.ts).
  ALTER TABLE sluice_jobs ADD COLUMN deadline_wall REAL;
  -- The same of due_at, while a job is scheduled that a person gave an instant for.
  ALTER TABLE sluice_jobs ADD COLUMN due_wall REAL;
  -- While it backs off: the due_at that it takes again when that is over.
  ALTER TABLE sluice_jobs ADD COLUMN first_due_at REAL;
  -- Lists and counts of jobs that are not active. Active ones are few, and the index of leases has all of them: here they
  -- would be two writes more for every start and two for every end.
  DROP INDEX sluice_jobs_states;
  CREATE INDEX sluice_jobs_states ON sluice_jobs (queue, state) WHERE lease_until IS NULL;
  -- Who is next in a lane? (Every entry of an index ends with seq.)
  DROP INDEX sluice_jobs_waiting;
  CREATE INDEX sluice_jobs_waiting ON sluice_jobs (lane, due_at) WHERE state = 'waiting';

  -- Jobs of one queue, type, priority, group and keys that wait. grp: '' without a group, ':' and its name with one. keys: as
  -- jobs say them, '' without. The lanes of a group in a priority take turns together, whatever their type and keys. Of lanes
  -- that differ only in their keys the latest turn holds; own is the first of them, and they go by their first jobs: head_at and
  -- head_seq, 0 in a lane without keys. served: how many were started since it is their turn. gate: where it stands while it
  -- waits for a limit; NULL: nowhere, it is ready. heavy: the job that a limit had too little left for, since heavy_since.
  -- empty_since: NULL while jobs wait. Indexes go by it and not by waiting: a job more or less changes none of them.
  -- first_at and first_seq: the first job of a lane whose group has lanes of many types (jobs/many-types.ts), else NULL.
  ALTER TABLE sluice_lanes RENAME TO sluice_lanes_1;
  DROP INDEX sluice_lanes_ready;
  DROP INDEX sluice_lanes_blocked;
  DROP INDEX sluice_lanes_group;
  DROP INDEX sluice_lanes_empty;
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
    first_at REAL,
    first_seq INTEGER,
    empty_since REAL,
    UNIQUE (queue, priority, grp, keys, type)
  ) STRICT;

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

  -- Version 1 blocked lanes one by one. Those that the same key blocks stand at one gate, which opens when the first of them was
  -- to look again. A lane whose first job was too heavy stands at a gate of its own, in front of its priority (turn -1): until
  -- a claim has looked at it, also if that gate is open by now.
  CREATE TABLE sluice_lanes_blocked AS
    SELECT one.id, one.blocked_by AS name, one.queue, one.type, one.blocked_until AS until, one.priority, one.turn,
      CASE WHEN NOT (rule.stored ->> '$.declared.byGroup') THEN '' WHEN one.grp = '' THEN '-' ELSE one.grp END AS grp,
      iif(EXISTS (SELECT 1 FROM sluice_jobs AS job WHERE job.seq = one.heavy AND job.lane = one.id AND job.state = 'waiting'),
        one.id, 0) AS front
    FROM sluice_lanes_1 AS one JOIN sluice_rules AS rule ON rule.name = one.blocked_by
    WHERE one.waiting > 0 AND one.blocked_by IS NOT NULL;
  DELETE FROM sluice_lanes_blocked WHERE until IS NULL AND front = 0;
  INSERT INTO sluice_gates (name, grp, queue, type, front, until, heavy_until, priority, turn, own, head_at, head_seq)
    SELECT name, grp, queue, type, front, min(until) OVER gate, iif(front = 0, NULL, until), priority, iif(front = 0, turn, -1),
      id, 0, 0
    FROM sluice_lanes_blocked WHERE true
    WINDOW gate AS (PARTITION BY name, grp, queue, type, front)
    ORDER BY priority DESC, turn, id
    ON CONFLICT DO NOTHING;
  INSERT INTO sluice_lanes (id, queue, type, priority, grp, own, waiting, turn, served, gate, heavy, heavy_since,
      empty_since)
    SELECT one.id, one.queue, one.type, one.priority, one.grp, one.id, one.waiting, one.turn, one.served, gate.id,
      iif(gate.front > 0, one.heavy, NULL), iif(gate.front > 0, one.heavy_since, NULL),
      iif(one.waiting > 0, NULL, one.used_at)
    FROM sluice_lanes_1 AS one LEFT JOIN sluice_lanes_blocked AS blocked ON blocked.id = one.id
      LEFT JOIN sluice_gates AS gate ON (gate.name, gate.grp, gate.queue, gate.type, gate.front)
        = (blocked.name, blocked.grp, blocked.queue, blocked.type, blocked.front);
  DROP TABLE sluice_lanes_blocked;
  DROP TABLE sluice_lanes_1;
  UPDATE sluice_lanes SET
    first_at = coalesce((SELECT due_at FROM sluice_jobs WHERE lane = sluice_lanes.id AND state = 'waiting' ORDER BY due_at, seq LIMIT 1), 0),
    first_seq = coalesce((SELECT seq FROM sluice_jobs WHERE lane = sluice_lanes.id AND state = 'waiting' ORDER BY due_at, seq LIMIT 1), 0)
    WHERE (queue, priority, grp) IN (SELECT queue, priority, grp FROM sluice_lanes GROUP BY queue, priority, grp HAVING count(*) > 8);

  -- Whose turn is it, of those that wait for no limit?
  CREATE INDEX sluice_lanes_ready ON sluice_lanes (queue, type, priority DESC, turn, own, head_at, head_seq)
    WHERE empty_since IS NULL AND gate IS NULL;
  -- Whose turn is it, of those at a gate? Jobs wait in all of them.
  CREATE INDEX sluice_lanes_gate ON sluice_lanes (gate, priority DESC, turn, own, head_at, head_seq)
    WHERE gate IS NOT NULL;
  -- Which lane has the job that is next, where a group has lanes of many types?
  CREATE INDEX sluice_lanes_first ON sluice_lanes (queue, priority DESC, first_at, first_seq)
    WHERE first_at IS NOT NULL AND empty_since IS NULL AND gate IS NULL;
  -- Which turn holds for lanes that differ in their keys?
  CREATE INDEX sluice_lanes_keyed ON sluice_lanes (queue, priority, grp, type, turn) WHERE keys <> '';
  -- Which lanes have been empty for long?
  CREATE INDEX sluice_lanes_empty ON sluice_lanes (empty_since) WHERE empty_since IS NOT NULL;
  -- Which open gate has the lane whose turn it is?
  CREATE INDEX sluice_gates_open ON sluice_gates (queue, type, priority DESC, turn, own, head_at, head_seq)
    WHERE until IS NULL;
  -- Which gate opens first?
  CREATE INDEX sluice_gates_closed ON sluice_gates (queue, type, until) WHERE until IS NOT NULL;

  CREATE TRIGGER sluice_lanes_first_keys AFTER INSERT ON sluice_lanes
  WHEN new.keys <> '' AND NOT EXISTS (SELECT 1 FROM sluice_lanes WHERE queue = new.queue AND keys <> '' AND id <> new.id) BEGIN
    UPDATE sluice_meta SET settings = settings + 1;
  END;
  CREATE TRIGGER sluice_lanes_last_keys AFTER DELETE ON sluice_lanes
  WHEN old.keys <> '' AND NOT EXISTS (SELECT 1 FROM sluice_lanes WHERE queue = old.queue AND keys <> '') BEGIN
    UPDATE sluice_meta SET settings = settings + 1;
  END;
  CREATE TRIGGER sluice_pauses_added AFTER INSERT ON sluice_pauses BEGIN
    UPDATE sluice_meta SET settings = settings + 1;
  END;
  CREATE TRIGGER sluice_pauses_removed AFTER DELETE ON sluice_pauses BEGIN
    UPDATE sluice_meta SET settings = settings + 1;
  END;
  CREATE TRIGGER sluice_claims_added AFTER INSERT ON sluice_claims BEGIN
    UPDATE sluice_meta SET settings = settings + 1;
  END;
  CREATE TRIGGER sluice_claims_removed AFTER DELETE ON sluice_claims BEGIN
    UPDATE sluice_meta SET settings = settings + 1;
  END;

  -- What version 1 called the version of a rule is its revision; versions and owners are declared since.
  UPDATE sluice_rules SET stored = json_set(stored, '$.revision', stored -> '$.version', '$.version', NULL, '$.owners', json('[]'))
    WHERE json_valid(stored);

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

  -- Which processes listen to others, and until when, if they do not say so again.
  DROP TABLE sluice_listeners;
  CREATE TABLE sluice_processes (
    origin TEXT PRIMARY KEY,
    until REAL NOT NULL,
    events INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TRIGGER sluice_processes_added AFTER INSERT ON sluice_processes BEGIN
    UPDATE sluice_meta SET listeners = listeners + 1;
  END;
  CREATE TRIGGER sluice_processes_changed AFTER UPDATE ON sluice_processes BEGIN
    UPDATE sluice_meta SET listeners = listeners + 1;
  END;
  CREATE TRIGGER sluice_processes_removed AFTER DELETE ON sluice_processes BEGIN
    UPDATE sluice_meta SET listeners = listeners + 1;
  END;
  -- A process of version 1 that has the file open begins every transaction with a read of \`rules\` in \`sluice_meta\` and of this.
  -- It fails there, before it has changed anything, with these words: a path in JSON is the only text of ours that SQLite repeats in
  -- an error outside of a trigger.
  CREATE VIEW sluice_listeners (origin, until, events) AS
    SELECT json_extract('{}', 'the database has schema version 2, and this process works with version 1: update Sluice'), 0, 0;

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
