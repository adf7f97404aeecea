import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestProject } from "vitest/node";
import { writeSql } from "../../../scripts/compile-sql.ts";
import { type PostgresServer, startPostgres } from "../../../scripts/postgres-server.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** The address that answers with the URL of a Postgres server, which is started for the first request. */
    readonly postgresDesk: string;
  }
}

/** No data has to outlive these tests; those about durability start servers of their own. */
const SETTINGS = {
  fsync: "off",
  synchronous_commit: "off",
  full_page_writes: "off",
  max_connections: "200",
  autovacuum_naptime: "5s",
  max_wal_size: "4GB",
};

/** One Postgres server for all tests of a run that need one, stopped after the run. It is started only where a test asks for it. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  // Changed SQL files are compiled before any test imports them.
  writeSql();
  let server: Promise<PostgresServer> | undefined;
  const desk = createServer((_request, response) => {
    server ??= startPostgres({ settings: SETTINGS });
    server.then(
      ({ url }) => response.end(url),
      (error: unknown) => response.writeHead(500).end(error instanceof Error ? error.stack : String(error)),
    );
  });
  desk.listen(0, "127.0.0.1");
  await once(desk, "listening");
  project.provide("postgresDesk", `http://127.0.0.1:${(desk.address() as AddressInfo).port}`);
  return async () => {
    desk.close();
    desk.closeAllConnections();
    await (await server?.catch(() => undefined))?.stop();
  };
}
