import { otherVersion } from "../opened.ts";
import { bytes, number, plural, printable } from "../render/text.ts";
import { duration } from "../render/time.ts";
import { clock, type Finding, keeping, leases, limits, rows, stuck, workers } from "./common-findings.ts";
import type { PostgresFacts } from "./postgres-facts.ts";

const OLDEST_VERSION = 140_000;
/** A notification takes a millisecond or two, plus the network latency. */
const SLOW_NOTIFICATION_MS = 1_000;
/** Waiting for a lock for longer than this is reported. */
const LOCKED_MS = 5_000;
/** Dead rows are reported from this number on, if they outnumber live rows. */
const MANY_DEAD = 100_000;
/** The part of `max_connections` from which on their use is reported. */
const NEARLY_FULL = 0.8;

/** The findings and the advice, from facts alone. */
export function postgresFindings(facts: PostgresFacts): readonly Finding[] {
  const { kept } = facts;
  return [
    server(facts),
    schema(facts),
    durability(facts),
    isolation(facts),
    notifications(facts),
    connections(facts),
    locks(facts),
    transactions(facts),
    ...(facts.tables.length === 0 ? [] : [vacuum(facts), indexes(facts)]),
    ...(kept === undefined
      ? []
      : [leases(kept), workers(kept), stuck(kept), limits(kept), serverClock(facts, kept), keeping(kept), rows(kept)]),
    size(facts),
  ];
}

/** The finding when the server does not answer, or nothing can be read. */
export function unreachable(message: string): Finding {
  return {
    check: "server",
    status: "fail",
    says: printable(message),
    advice: "does it run, may this computer reach it, are user, password and database right?",
  };
}

function server({ version, place, user, readOnly }: PostgresFacts): Finding {
  const check = "server";
  const release = `Postgres ${Math.floor(version / 10_000)}.${version % 10_000}`;
  const says = `${printable(place)}, ${release}, as ${printable(user)}`;
  if (version < OLDEST_VERSION) {
    return { check, status: "fail", says: `${says}: too old`, advice: "Postgres 14 or later is needed" };
  }
  if (readOnly) {
    return {
      check,
      status: "fail",
      says: `${says}: read-only`,
      advice: "connect to the primary, as a user with write access",
    };
  }
  return { check, status: "ok", says };
}

function schema({ schema: { found, known }, name }: PostgresFacts): Finding {
  const check = "schema";
  if (found === known) return { check, status: "ok", says: `${printable(name)}, version ${found}` };
  if (found === 0) {
    return {
      check,
      status: "fail",
      says: `there are none of Sluice's tables in the schema ${printable(name)}`,
      advice: "is it the right database and --schema? `sluice migrate` creates them, or a worker on first use",
    };
  }
  return { check, status: found > known ? "fail" : "warn", says: otherVersion({ found, known }) };
}

function durability({ settings: { fsync, synchronousCommit, fullPageWrites } }: PostgresFacts): Finding {
  const check = "durability";
  if (fsync !== "on" || fullPageWrites !== "on") {
    return {
      check,
      status: "warn",
      says: `fsync is ${fsync}, full_page_writes is ${fullPageWrites}: a crash of the computer can destroy the database`,
      advice: "only for tests: set both to on",
    };
  }
  if (synchronousCommit === "off") {
    return {
      check,
      status: "warn",
      says: "synchronous_commit is off: a crash of the server takes back the last moments of what was acknowledged",
      advice: "set it to on for the database, or for the user of the workers",
    };
  }
  return { check, status: "ok", says: `what is acknowledged is on disk (synchronous_commit ${synchronousCommit})` };
}

function isolation({ isolation: level }: PostgresFacts): Finding {
  const own = level === "read committed" ? "" : "; the storage begins its own transactions as read committed";
  return { check: "isolation", status: "ok", says: `${printable(level)} by default${own}` };
}

function notifications({ heard }: PostgresFacts): Finding {
  const check = "wake-ups";
  const advice =
    "LISTEN needs a connection of its own: not through a pooler in transaction mode. Workers look every few seconds all the same";
  if ("failed" in heard)
    return { check, status: "warn", says: `no notification came: ${printable(heard.failed)}`, advice };
  const says = `a notification took ${duration(heard.ms)}`;
  return heard.ms < SLOW_NOTIFICATION_MS ? { check, status: "ok", says } : { check, status: "warn", says, advice };
}

function connections({ connections: { used, most } }: PostgresFacts): Finding {
  const check = "connections";
  const says = `${used} of ${most} in use`;
  if (used < most * NEARLY_FULL) return { check, status: "ok", says };
  return { check, status: "warn", says, advice: "smaller pools, a pooler, or a greater max_connections" };
}

/** A role that sees only its own sessions cannot report that all is well. */
function unseen(check: string, user: string): Finding {
  const says = `what others do cannot be seen as ${printable(user)}`;
  return { check, status: "warn", says, advice: "GRANT pg_monitor to this role, or ask as another" };
}

function locks({ waiting: { sessions, oldestMs }, seesAll, user }: PostgresFacts): Finding {
  const check = "locks";
  if (sessions === 0 && !seesAll) return unseen(check, user);
  if (sessions === 0) return { check, status: "ok", says: "no session waits for one" };
  const says = `${plural(sessions, "session")} waiting for one, for ${duration(oldestMs)} at most`;
  if (oldestMs < LOCKED_MS) return { check, status: "ok", says };
  return { check, status: "warn", says, advice: "pg_blocking_pids(pid) names the sessions that hold it" };
}

function transactions({ holders, seesAll, user }: PostgresFacts): Finding {
  const check = "transactions";
  const [first] = holders;
  if (first === undefined && !seesAll) return unseen(check, user);
  if (first === undefined) return { check, status: "ok", says: "none is open for long" };
  const age = first.ageMs === null ? "" : ` for ${duration(first.ageMs)}`;
  const state = first.state === "" ? "" : `, ${printable(first.state)}`;
  const what = { session: "process", prepared: "the prepared transaction", slot: "the replication slot" }[first.kind];
  const others = holders.length === 1 ? "" : `; and ${plural(holders.length - 1, "other")}`;
  return {
    check,
    status: "warn",
    says: `${what} ${printable(first.name)}${state}${age}: old versions of rows cannot be cleaned up${others}`,
    advice: "end it (pg_terminate_backend), and set idle_in_transaction_session_timeout",
  };
}

function vacuum({ tables, settings }: PostgresFacts): Finding {
  const check = "vacuum";
  const dead = tables
    .filter((table) => table.dead > MANY_DEAD && table.dead > table.live)
    .toSorted((a, b) => b.dead - a.dead);
  const [worst] = dead;
  if (settings.autovacuum !== "on") {
    return {
      check,
      status: "warn",
      says: "autovacuum is off: tables and claims grow slow",
      advice: "set autovacuum to on",
    };
  }
  const total = tables.reduce((sum, table) => sum + table.dead, 0);
  if (worst === undefined) return { check, status: "ok", says: `${number(total)} dead rows, which is not much` };
  const last = worst.vacuumedMs === null ? "never vacuumed" : `vacuumed ${duration(worst.vacuumedMs)} ago`;
  return {
    check,
    status: "warn",
    says: `${worst.table} has ${number(worst.dead)} dead rows, ${number(worst.live)} living, ${last}`,
    advice:
      "look for long transactions, above; else autovacuum_max_workers, autovacuum_naptime, autovacuum_vacuum_cost_limit",
  };
}

function indexes({ invalid }: PostgresFacts): Finding {
  const check = "indexes";
  if (invalid.length === 0) return { check, status: "ok", says: "all are complete" };
  const says = `not complete, and not used: ${invalid.map((name) => printable(name)).join(", ")}`;
  return { check, status: "fail", says, advice: "REINDEX INDEX, for each of them" };
}

/** Clocks of clients do not matter. The clock of the server does if it was set forward: the server cannot detect that. */
function serverClock({ clockAheadMs }: PostgresFacts, kept: NonNullable<PostgresFacts["kept"]>): Finding {
  const found = clock(kept);
  const differs = Math.abs(clockAheadMs) > 1_000;
  if (!differs) return found;
  const by = duration(Math.abs(clockAheadMs));
  const also =
    clockAheadMs > 0
      ? `the server is ${by} ahead of this computer: if its clock was set forward, windows opened and leases ended early by that`
      : `the server is ${by} behind this computer, which does not matter here`;
  return { ...found, says: `${found.says}; ${also}` };
}

function size({ tables }: PostgresFacts): Finding {
  const total = tables.reduce((sum, table) => sum + table.bytes, 0);
  const largest = tables.slice(0, 3).map((table) => `${table.table} ${bytes(table.bytes)}`);
  return { check: "size", status: "ok", says: total === 0 ? "nothing" : `${bytes(total)}: ${largest.join(", ")}` };
}
