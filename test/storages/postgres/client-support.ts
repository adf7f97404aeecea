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

/** The same with those who listen. */
export function hearing(
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

/** Time that passes so many times faster than it does. */
export function hurried(factor: number): Clock {
  return {
    now: () => systemClock.now() * factor,
    wall: () => systemClock.wall(),
    after: (ms, callback) => systemClock.after(ms / factor, callback),
  };
}

/** Waits until it is so. */
export async function until(isSo: () => unknown, what: string, withinMs = 5_000): Promise<void> {
  const start = performance.now();
  while (!(await isSo())) {
    if (performance.now() - start > withinMs) throw new Error(`expected ${what} within ${withinMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
