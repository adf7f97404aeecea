import type { JobEvent } from "../../core/events.ts";
import type { SqliteStatement, Statements } from "./driver.ts";

/**
 * One atomic step: what runs inside a transaction gets its statements and the time from here, and notes what others are to
 * be told once it is committed. A step that has to be tried again starts with a new one.
 */
export class Step {
  /** By the clock of the storage, read after the lock was taken. */
  now: number;
  /** Does anybody want events? Else nobody need make them. */
  readonly eventsWanted: boolean;
  /** Queues where something changed that may let a job start. */
  readonly woken = new Set<string>();
  /** The same for every queue: a limit has room again. */
  everybody = false;
  /** Active jobs that are asked to stop. */
  readonly stopping: { readonly queue: string; readonly id: string }[] = [];
  readonly events: JobEvent[] = [];
  readonly #statements: Statements;

  constructor(statements: Statements, now: number, eventsWanted: boolean) {
    this.#statements = statements;
    this.now = now;
    this.eventsWanted = eventsWanted;
  }

  /** The statement, prepared once for the connection. */
  sql(text: string): SqliteStatement {
    return this.#statements.get(text);
  }

  event(event: JobEvent): void {
    if (this.eventsWanted) this.events.push(event);
  }

  /** Is there anything to tell? */
  get newsworthy(): boolean {
    return this.everybody || this.woken.size > 0 || this.stopping.length > 0 || this.events.length > 0;
  }

  /** The next `count` numbers of the counter that only ever grows; the first of them. */
  numbers(count: number): number {
    const { sequence } = this.sql("UPDATE sluice_meta SET sequence = sequence + ? RETURNING sequence").get(count) as {
      readonly sequence: number;
    };
    return sequence - count + 1;
  }
}
