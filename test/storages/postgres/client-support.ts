import { once as events } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import pg from "pg";
import { onTestFinished } from "vitest";
import { type Clock, systemClock } from "../../../src/core/clock.ts";
import { systemRandom } from "../../../src/core/random.ts";
import { type DatabaseOptions, PostgresDatabase } from "../../../src/storages/postgres/database.ts";
import type { PostgresPool } from "../../../src/storages/postgres/driver.ts";
import { Hub } from "../../../src/storages/postgres/hub.ts";

/** The client side alone, as a storage makes it, over a database that has its tables or gets them. Closed after the test. */
export function opened(target: string | PostgresPool, said: Partial<DatabaseOptions> = {}): PostgresDatabase {
  const database = new PostgresDatabase(target, {
    schema: "sluice",
    migrate: true,
    timeout: 10_000,
    connections: undefined,
    clock: systemClock,
    random: systemRandom,
    ...said,
  });
  onTestFinished(() => database.close());
  return database;
}

/** The same with a hub of subscribers. */
export function openListening(
  target: string | PostgresPool,
  said: Partial<DatabaseOptions> = {},
): { readonly database: PostgresDatabase; readonly hub: Hub } {
  const database = opened(target, said);
  const hub = new Hub(database, said.schema ?? "sluice");
  onTestFinished(() => hub.close());
  return { database, hub };
}

/** A pool of the user's, ended after the test. */
export function poolOf(url: string, config: pg.PoolConfig = {}): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, ...config });
  pool.on("error", () => {});
  onTestFinished(() => pool.end());
  return pool;
}

/** A server that accepts connections and never answers. */
export async function silentServer(): Promise<{ readonly url: string; readonly sockets: ReadonlySet<Socket> }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket)).resume();
  });
  server.listen(0, "127.0.0.1");
  await events(server, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { url: `postgres://user:secret-word@127.0.0.1:${(server.address() as AddressInfo).port}/db`, sockets };
}

/** A proxy to a database whose connections fall silent from some instant on, without being closed. */
export async function mutableServer(
  database: string,
): Promise<{ readonly url: string; readonly fallSilent: () => void }> {
  const sockets: Socket[] = [];
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const behind = connect(Number(new URL(database).port), "127.0.0.1");
    sockets.push(client, behind);
    for (const socket of [client, behind]) socket.on("error", () => {});
    client.pipe(behind);
    behind.pipe(client);
  });
  server.listen(0, "127.0.0.1");
  await events(server, "listening");
  const end = () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  onTestFinished(end);
  const url = new URL(database);
  url.port = String((server.address() as AddressInfo).port);
  const fallSilent = () => {
    for (const socket of sockets) {
      socket.unpipe();
      socket.resume();
    }
  };
  return { url: url.href, fallSilent };
}

/** A clock that runs so many times faster than the real one. */
export function hurried(factor: number): Clock {
  return {
    now: () => systemClock.now() * factor,
    wall: () => systemClock.wall(),
    after: (ms, callback) => systemClock.after(ms / factor, callback),
  };
}

/** Waits until the condition holds. */
export async function until(isSo: () => unknown, what: string, withinMs = 5_000): Promise<void> {
  const start = performance.now();
  while (!(await isSo())) {
    if (performance.now() - start > withinMs) throw new Error(`expected ${what} within ${withinMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
