import pg from "pg";
import { type PostgresServer, startPostgres } from "../../scripts/postgres-server.ts";
import type { Ground } from "../grounds/index.ts";
import { groundFloor } from "./folder.ts";

/** A database for one scenario; undefined: a file in its folder. */
export interface Made {
  readonly database: string | undefined;
  readonly server: PostgresServer | undefined;
}

/** Where the scenarios of a run keep their jobs. */
export interface Databases {
  readonly ground: Ground["name"];
  /** What it is, for the record. */
  readonly version: string;
  make(scenario: string): Promise<Made>;
  close(): Promise<void>;
}

export async function openDatabases(storage: string): Promise<Databases> {
  if (storage === "sqlite") return files();
  if (storage === "postgres") return servers();
  throw new Error(`--storage must be sqlite or postgres, got ${storage}`);
}

function files(): Databases {
  return {
    ground: "sqlite",
    version: `SQLite ${process.versions["sqlite"]}`,
    make: async () => ({ database: undefined, server: undefined }),
    close: async () => {},
  };
}

/** Every scenario has a server of its own: some of them restart it. */
async function servers(): Promise<Databases> {
  const open: PostgresServer[] = [];
  const start = async () => {
    const server = await startPostgres({ folder: groundFloor(), settings: { max_connections: "300" } });
    open.push(server);
    return server;
  };
  const first = await start();
  const version = await versionOf(first.url);
  let unused: PostgresServer | undefined = first;
  return {
    ground: "postgres",
    version: `Postgres ${version}`,
    make: async () => {
      const server = unused ?? (await start());
      unused = undefined;
      return { database: server.url, server };
    },
    close: async () => {
      await Promise.all(open.splice(0).map((server) => server.stop()));
    },
  };
}

async function versionOf(url: string): Promise<string> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<{ server_version: string }>("SHOW server_version");
    return rows[0]!.server_version;
  } finally {
    await client.end();
  }
}
