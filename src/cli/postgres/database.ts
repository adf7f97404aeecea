import type { Clock } from "../../core/clock.ts";
import { inTime } from "../../core/deadline.ts";
import { recordError } from "../../core/error-record.ts";
import { newId } from "../../core/random.ts";
import { discard, ignoreErrors, type PoolTraits, type PostgresPool } from "../../storages/postgres/driver.ts";
import { type Inspected, inspection, repairClock, schemaOf, timeOf } from "../../storages/postgres/inspect.ts";
import { PostgresStorage } from "../../storages/postgres/storage.ts";
import { openPool } from "../../storages/postgres/target.ts";
import { Failure } from "../failures.ts";
import { checkVersion, type Database, type KeptClock } from "../opened.ts";
import type { PostgresAddress } from "../address.ts";

/** How long a connection to a server may take. */
const CONNECT_MS = 10_000;
const CONNECTIONS = 4;
/** A notification that takes longer will not come. */
const LISTEN_MS = 3_000;

/** Opens a database whose tables are there, lets `use` work with it, and closes it. */
export async function withPostgres<T>(
  address: PostgresAddress,
  clock: Clock,
  use: (database: Database) => Promise<T>,
): Promise<T> {
  return connected(address, clock, async (pool) => {
    const { schema, shown } = address;
    const inspected = { executor: pool, schema };
    const none = `${shown} holds no jobs of Sluice: it has none of its tables in the schema ${schema}, which \`sluice migrate\` creates`;
    checkVersion(await schemaOf(inspected), none);
    const storage = new PostgresStorage(pool, { schema, migrate: false });
    try {
      return await use({ storage, look: inspection(inspected), clock: keptClock(inspected, shown) });
    } finally {
      await storage.close();
    }
  });
}

/** `55P03`: a lock could not be had in time. */
const LOCKED = "55P03";

function keptClock(inspected: Inspected, shown: string): KeptClock {
  return {
    read: () => timeOf(inspected),
    async repair() {
      try {
        return await repairClock(inspected);
      } catch (error) {
        if ((error as { readonly code?: unknown }).code !== LOCKED) throw error;
        const why = `${shown}: a transaction that uses the storage stays open; try again when it has ended (sluice doctor names such)`;
        throw new Failure("SLUICE_BUSY", why);
      }
    },
  };
}

/** Lets `use` work with connections to a server that was there a moment ago. */
export async function connected<T>(
  { url, shown }: PostgresAddress,
  clock: Clock,
  use: (pool: PostgresPool) => Promise<T>,
): Promise<T> {
  const pool = await openPool(url, CONNECTIONS, CONNECT_MS);
  ignoreErrors(pool);
  try {
    await inTime(clock, () => pool.query("SELECT 1"), { withinMs: CONNECT_MS, who: "the server" }).catch(
      (error: unknown) => {
        throw new Failure("SLUICE_UNREACHABLE", `${shown} cannot be used: ${wordsOf(error)}`);
      },
    );
    return await use(pool);
  } finally {
    // A connection that was never established would not close.
    await inTime(clock, async () => (pool as PoolTraits).end?.call(pool), { withinMs: CONNECT_MS }).catch(() => {});
  }
}

/** Sends a notification from one connection to another. Returns the latency in milliseconds. */
export async function notificationTime(pool: PostgresPool, clock: Clock): Promise<number> {
  const { Client, options } = pool as PoolTraits;
  if (Client === undefined) throw new Error("this pool cannot make a connection that listens");
  const listener = new Client(options);
  ignoreErrors(listener);
  const channel = `sluice_doctor_${newId(clock.wall())}`;
  try {
    await inTime(clock, () => listener.connect(), { withinMs: CONNECT_MS });
    const heard = new Promise<void>((resolve) => listener.on("notification", () => resolve()));
    await listener.query(`LISTEN "${channel}"`);
    const sentAt = clock.now();
    await pool.query("SELECT pg_notify($1, '')", [channel]);
    await inTime(clock, () => heard, { withinMs: LISTEN_MS, who: "the channel" });
    return clock.now() - sentAt;
  } finally {
    await discard(listener, true, clock);
  }
}

/** For a host with several addresses, the message of Node's error is empty and its parts have one each. */
function wordsOf(error: unknown): string {
  const all = error instanceof AggregateError ? (error.errors as unknown[]) : [];
  const { message, code } = recordError(all[0] ?? error);
  return message === "" ? (code ?? "the server does not answer") : message;
}
