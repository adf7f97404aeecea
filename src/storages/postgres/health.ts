import { type Inspected, one, rows } from "./inspect.ts";

/** The settings and the state of the server, as far as they matter for a queue. */
export interface ServerFacts {
  /** As numbers say it: 180004 is 18.4. */
  readonly version: number;
  readonly user: string;
  /** A standby, or a server or role for which everything is read-only. */
  readonly readOnly: boolean;
  readonly isolation: string;
  /** This user sees what others do. */
  readonly seesAll: boolean;
  readonly settings: {
    readonly fsync: string;
    readonly synchronousCommit: string;
    readonly fullPageWrites: string;
    readonly autovacuum: string;
  };
  readonly connections: { readonly used: number; readonly most: number };
  /** Sessions that wait for a lock on tables of ours, and for how long the first of them has. */
  readonly waiting: { readonly sessions: number; readonly oldestMs: number };
  /** What keeps old versions of rows from being cleaned up, the oldest first. */
  readonly holders: readonly Holder[];
}

/** A transaction that began long ago. */
export interface Holder {
  /** What it is: a session, a prepared transaction, a replication slot. */
  readonly kind: "session" | "prepared" | "slot";
  /** Its process, or its name. */
  readonly name: string;
  /** `idle in transaction`, mostly. */
  readonly state: string;
  /** null: it is not known. */
  readonly ageMs: number | null;
}

/** What the tables take up. */
export interface TableFacts {
  readonly tables: readonly {
    readonly table: string;
    readonly live: number;
    readonly dead: number;
    readonly bytes: number;
    /** When it was last vacuumed, by hand or by the server; null: never. */
    readonly vacuumedMs: number | null;
  }[];
  /** Indexes that were begun and not finished. */
  readonly invalid: readonly string[];
}

const SERVER = `SELECT current_setting('server_version_num')::int AS version, current_user::text AS "user",
    pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean AS "readOnly",
    current_setting('default_transaction_isolation') AS isolation,
    current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS "synchronousCommit",
    current_setting('full_page_writes') AS "fullPageWrites", current_setting('autovacuum') AS autovacuum,
    current_setting('max_connections')::int AS most,
    (SELECT sum(numbackends)::int FROM pg_stat_database) AS used,
    pg_has_role('pg_read_all_stats', 'member') AS "seesAll"`;
const WAITING = `SELECT count(DISTINCT activity.pid)::int AS sessions,
    coalesce(extract(epoch FROM max(clock_timestamp() - activity.state_change)) * 1000, 0)::float8 AS "oldestMs"
  FROM pg_locks AS lock JOIN pg_stat_activity AS activity USING (pid)
  WHERE NOT lock.granted AND activity.datname = current_database()`;
const HOLDERS = `SELECT * FROM (
    SELECT 'session' AS kind, pid::text AS name, coalesce(state, '') AS state,
      extract(epoch FROM clock_timestamp() - xact_start)::float8 * 1000 AS "ageMs"
    FROM pg_stat_activity
    WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND pid <> pg_backend_pid()
      AND backend_type NOT IN ('autovacuum worker', 'autovacuum launcher')
    UNION ALL SELECT 'prepared', gid, '', extract(epoch FROM clock_timestamp() - prepared)::float8 * 1000 FROM pg_prepared_xacts
    UNION ALL SELECT 'slot', slot_name, CASE WHEN active THEN 'active' ELSE 'not in use' END, NULL
    FROM pg_replication_slots WHERE xmin IS NOT NULL) AS seen
  WHERE "ageMs" IS NULL OR "ageMs" > $1::float8
  ORDER BY "ageMs" DESC NULLS LAST LIMIT 10`;
const TABLES = `SELECT relname AS "table", n_live_tup::float8 AS live, n_dead_tup::float8 AS dead,
    pg_total_relation_size(relid)::float8 AS bytes,
    extract(epoch FROM clock_timestamp() - greatest(last_vacuum, last_autovacuum))::float8 * 1000 AS "vacuumedMs"
  FROM pg_stat_all_tables WHERE schemaname = $1 ORDER BY bytes DESC`;
const INVALID = `SELECT indexrelid::regclass::text AS name FROM pg_index
  WHERE NOT indisvalid AND indrelid IN (SELECT oid FROM pg_class WHERE relnamespace = to_regnamespace($1))`;

/** `longMs`: a transaction that is older is reported. */
export async function serverFacts(place: Inspected, longMs: number): Promise<ServerFacts> {
  const { fsync, synchronousCommit, fullPageWrites, autovacuum, used, most, ...server } = await one<
    Pick<ServerFacts, "version" | "user" | "readOnly" | "isolation" | "seesAll"> &
      ServerFacts["settings"] &
      ServerFacts["connections"]
  >(place, SERVER);
  return {
    ...server,
    settings: { fsync, synchronousCommit, fullPageWrites, autovacuum },
    connections: { used, most },
    waiting: await one<ServerFacts["waiting"]>(place, WAITING),
    holders: await rows<Holder>(place, HOLDERS, longMs),
  };
}

export async function tableFacts(place: Inspected): Promise<TableFacts> {
  const invalid = await rows<{ name: string }>(place, INVALID, `"${place.schema}"`);
  return {
    tables: await rows<TableFacts["tables"][number]>(place, TABLES, place.schema),
    invalid: invalid.map(({ name }) => name),
  };
}
