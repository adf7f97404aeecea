import type { JobEvent } from "../../core/events.ts";
import type { Availability } from "../../limits/wakes-waiters.ts";
import type { SqliteStatement, SqlValue, Statements } from "./driver.ts";
import type { RuleBook } from "./limits/rule-book.ts";
import type { Settings } from "./settings.ts";
import type { ClockState } from "./time.ts";

/** A limit state that lanes or permits wait for, before a step released slots of it. `wait`: for a slot. */
export interface Released extends Availability {
  readonly name: string;
  readonly grp: string;
  /** A refusal is written in its row. */
  readonly marked: boolean;
  /** The step has refused something since. */
  refused?: boolean;
}

// Whatever draws a number starts something: no start is decided before it, by any process.
const NUMBERS = "UPDATE sluice_meta SET sequence = ?, last = max(last, ?), boot = ?, awake = ?";

const NO_PAUSES: ReadonlySet<string> = new Set();

/** The time of a step, as `Step` says it. */
export type StepTime = Pick<Step, "now" | "asked" | "error" | "skew" | "sequence"> & Pick<ClockState, "boot" | "awake">;

/**
 * One atomic step: what runs inside a transaction gets its statements and the time from here, and notes the hints for
 * subscribers once it is committed. A step that has to be tried again starts with a new one.
 */
export class Step {
  /** By the clock of the storage, read after the lock was taken. Never ahead of the real time. */
  now: number;
  /** When the step was asked for, before the lock was waited for. Never before the real time. */
  readonly asked: number;
  /** How much later than `now` it may really be. */
  readonly error: number;
  /** How far the clock of the storage is ahead of the wall clock. */
  readonly skew: number;
  /** Does a subscriber want events? Otherwise none need be made. */
  readonly eventsWanted: boolean;
  /** What was set when it began, and of that the rules. */
  readonly settings: Settings;
  readonly rules: RuleBook;
  /** Queues that have lanes with keys since it began. */
  readonly keyed = new Set<string>();
  /** Queues where something changed that may let a job start; and whether that wakes up workers that a limit blocks, too. */
  readonly woken = new Map<string, boolean>();
  /** Wakes up the workers of every queue: a limit became available. */
  wakesAll = false;
  /** Where the counter stands that its numbers are from. */
  sequence: number;
  /** By the ids of limits. */
  readonly released = new Map<number, Released>();
  /** Active jobs that are asked to stop. */
  readonly stopping: { readonly queue: string; readonly id: string }[] = [];
  readonly events: JobEvent[] = [];
  readonly #statements: Statements;
  /** What the clock of the computer says. */
  readonly #machine: Pick<ClockState, "boot" | "awake">;

  constructor(statements: Statements, time: StepTime, settings: Settings, eventsWanted: boolean) {
    this.#statements = statements;
    this.now = time.now;
    this.asked = time.asked;
    this.error = time.error;
    this.skew = time.skew;
    this.#machine = time;
    this.sequence = time.sequence;
    this.settings = settings;
    this.rules = settings.rules;
    this.eventsWanted = eventsWanted;
  }

  /** The statement, prepared once for the connection. */
  sql(text: string): SqliteStatement {
    return this.#statements.get(text);
  }

  /** The same, with rows as arrays (`valuesOf`). */
  arrays(text: string): SqliteStatement {
    return this.#statements.arrays(text);
  }

  /** Distinct names along an index (`Statements.names`). */
  names(next: string, ...values: SqlValue[]): Iterable<string> {
    return this.#statements.names(next, ...values);
  }

  /** The wall clock: for instants that users give and see. */
  get wall(): number {
    return this.now - this.skew;
  }

  /** What is paused in the queue: '' for all of it, ':' and a type for that one. */
  pausesOf(queue: string): ReadonlySet<string> {
    return this.settings.pauses.get(queue) ?? NO_PAUSES;
  }

  /** Are there lanes with keys in the queue? */
  hasKeys(queue: string): boolean {
    return this.settings.keyed.has(queue) || this.keyed.has(queue);
  }

  wake(queue: string, mayStart: boolean): void {
    this.woken.set(queue, mayStart || this.woken.get(queue) === true);
  }

  event(event: JobEvent): void {
    if (this.eventsWanted) this.events.push(event);
  }

  /** Does it wake up workers that a limit blocks? */
  get wakesBlocked(): boolean {
    if (this.wakesAll) return true;
    for (const mayStart of this.woken.values()) if (mayStart) return true;
    return false;
  }

  /** Are there hints for subscribers? */
  get hasHints(): boolean {
    return this.wakesAll || this.woken.size > 0 || this.stopping.length > 0 || this.events.length > 0;
  }

  /** From now on no process has a time before this. All readings are written together: one without the other looks like a clock that was set. */
  rememberTime(): void {
    this.sql(NUMBERS).run(this.sequence, this.now, this.#machine.boot, this.#machine.awake);
  }

  /** The next `count` numbers of the counter that only ever grows; the first of them. */
  numbers(count: number): number {
    const first = this.sequence + 1;
    this.sequence += count;
    this.rememberTime();
    return first;
  }
}
