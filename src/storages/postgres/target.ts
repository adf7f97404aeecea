import { OptionsError, StorageError } from "../../core/errors.ts";
import { type Check, hasMethods } from "../../core/options.ts";
import { ignoreErrors, type OwnClient, type PostgresPool } from "./driver.ts";

/** Checks what a storage was given to work with. What a URL says stays out of the message: there may be a password in it. */
export function readTarget(owner: string, target: unknown): string | PostgresPool {
  if (typeof target === "string" && /^postgres(?:ql)?:\/\//.test(target) && URL.canParse(target)) return target;
  if (hasMethods(target, ["query", "connect"])) {
    if (isClient(target)) throw new OptionsError(owner, "database", "a client", EXPECTED, "a client is one connection");
    return target as unknown as PostgresPool;
  }
  const config = typeof target === "object" && target !== null;
  const shown = typeof target === "string" ? masked(target) : config ? "an object" : target;
  throw new OptionsError(owner, "database", shown, EXPECTED, config ? "the pool itself: new pg.Pool(…)" : "");
}

const EXPECTED = "a URL (postgres://…), or a pool of `pg`";

/** What `pg` connects with, and what its pools give. */
function isClient(target: object): boolean {
  return !("totalCount" in target) && ("connectionParameters" in target || "processID" in target);
}

/** What stands before anything that could be secret. */
function masked(text: string): string {
  const scheme = /^[a-z][a-z0-9+.-]*:/i.exec(text)?.[0];
  return scheme === undefined ? "…" : `${scheme}…`;
}

/** Names of schemas. They are the only names that become part of a statement: nothing in them ever needs to be quoted. */
export const schemaName: Check<string> = {
  expected: "a name of up to 48 characters (a-z, 0-9, _; not a digit first, not pg_), of a schema for this alone",
  read: (value) =>
    typeof value === "string" && /^(?!pg_)[a-z_][a-z0-9_]{0,47}$/.test(value) && !OTHERS.has(value) ? value : undefined,
};

/** Schemas that are there for something else in every database. */
const OTHERS: ReadonlySet<string> = new Set(["public", "information_schema"]);

/** A connection of our own pool that was not used for so long is ended. */
const IDLE_MS = 60_000;

/**
 * A pool of our own, with the driver that the user has installed. `open`: its connections, also those that are being made,
 * which a pool does not show.
 */
export async function openPool(
  url: string,
  connections: number,
  timeout: number,
  open = new Set<OwnClient>(),
): Promise<PostgresPool> {
  const { Pool, Client } = await driver();
  const Noted = class extends Client {
    constructor(said: unknown) {
      super(said);
      open.add(this);
      this.on("end", () => open.delete(this));
    }
  };
  const options = {
    Client: Noted,
    connectionString: url,
    max: connections,
    connectionTimeoutMillis: timeout,
    // A new one has to read every function again, which takes as long as many steps.
    idleTimeoutMillis: IDLE_MS,
    // Idle connections do not keep the process from ending.
    allowExitOnIdle: true,
  };
  try {
    const pool = new Pool(options);
    // For good: a server that shuts down may still send an error to a connection that is about to end.
    pool.on("connect", (client) => ignoreErrors(client));
    return pool;
  } catch {
    // What the driver says about a URL may have the password in it.
    throw new StorageError("the URL of the database cannot be used: look at its parts");
  }
}

interface Driver {
  readonly Pool: new (options: unknown) => PostgresPool & {
    on(event: "connect", listener: (client: object) => void): unknown;
  };
  readonly Client: new (options: unknown) => OwnClient;
}

async function driver(): Promise<Driver> {
  try {
    const module = (await import("pg")) as unknown as Driver & { readonly default?: Driver };
    return module.default ?? module;
  } catch (error) {
    throw new StorageError("a URL needs the package `pg`, which is not installed: npm install pg", { cause: error });
  }
}
