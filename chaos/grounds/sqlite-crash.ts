import { DatabaseSync, type StatementSync } from "node:sqlite";
import type { SqliteConnection, SqliteStatement, SqlValue } from "../../src/storages/sqlite/index.ts";
import type { CrashPoint } from "../child/spec.ts";

/** How a step is known by the statements that it runs in its transaction. */
const STATEMENTS: Readonly<Record<CrashPoint["step"], RegExp>> = {
  add: /^INSERT INTO sluice_jobs /,
  claim: /^UPDATE sluice_jobs SET state = 'active'/,
  settle: /^UPDATE sluice_jobs SET state = 'completed'/,
  heartbeat: /^UPDATE sluice_jobs SET lease_until = \?/,
  sweep: /lease_until <= \? ORDER BY lease_until/,
};

/**
 * A connection whose process ends or stops itself at a named point. The storage does not know: it is handed the connection
 * as its user's own.
 */
export function crashingConnection(database: string, point: CrashPoint): SqliteConnection {
  const connection = new DatabaseSync(database, { timeout: 20 });
  connection.exec("PRAGMA synchronous = NORMAL");
  const trigger = new Trigger(point);
  const wrapped = {
    exec: (sql: string) => connection.exec(sql),
    prepare: (sql: string) => watched(connection.prepare(sql), sql, trigger),
    close: () => connection.close(),
    location: () => connection.location(),
    get isTransaction() {
      return connection.isTransaction;
    },
  };
  return wrapped;
}

class Trigger {
  readonly #point: CrashPoint;
  #left: number;
  #marked = false;

  constructor(point: CrashPoint) {
    this.#point = point;
    this.#left = point.nth;
  }

  run<T>(sql: string, step: () => T): T {
    const { at } = this.#point;
    if (sql === "BEGIN IMMEDIATE") {
      // Rows that were read before, without a lock, and are about to be written.
      if (at === "begin" && this.#marked) this.#strike();
      this.#marked = false;
      return step();
    }
    if (sql !== "COMMIT") {
      const answer = step();
      if (STATEMENTS[this.#point.step].test(sql)) this.#marked = at !== "begin" || answer !== undefined;
      return answer;
    }
    if (at === "before-commit" && this.#marked) this.#strike();
    const answer = step();
    if (at === "after-commit" && this.#marked) this.#strike();
    this.#marked = false;
    return answer;
  }

  #strike(): void {
    this.#left -= 1;
    if (this.#left !== 0) return;
    process.kill(process.pid, this.#point.signal);
    // No code of this process runs until the signal has come.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
  }
}

function watched(statement: StatementSync, sql: string, trigger: Trigger): SqliteStatement {
  const instrumented = {
    run: (...values: SqlValue[]) => trigger.run(sql, () => statement.run(...values)),
    get: (...values: SqlValue[]) => trigger.run(sql, () => statement.get(...values)),
    all: (...values: SqlValue[]) => trigger.run(sql, () => statement.all(...values)),
    setReadBigInts: (on: boolean) => statement.setReadBigInts(on),
    setReturnArrays: (on: boolean) => statement.setReturnArrays(on),
  };
  return instrumented;
}
