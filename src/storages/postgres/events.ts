import type { JobEvent } from "../../core/events.ts";
import { STEP_BYTES } from "../../storage/step-bytes.ts";
import type { PostgresDatabase } from "./database.ts";

/** How many are read at once; fewer, if they are large. */
const PAGE = 1_000;
/** A page that was cut short for its bytes has so many characters at least: one of them takes three bytes at the most. */
const LARGE = STEP_BYTES / 4;
/** Numbers that are missing between two events may still be committed: they are read again during this time … */
const GAP_MS = 60_000;
/** … for so many gaps at most. */
const MOST_GAPS = 1_000;

/** Numbers that are missing: given to a transaction that has not ended, or never will. */
interface Gap {
  readonly first: number;
  readonly last: number;
  readonly since: number;
}

/** A row of the table: an event, or one event for all jobs that a step ended (sql/events.sql: publish_ends). */
export type WrittenEvent = JobEvent | { readonly event: "ended"; readonly ids: readonly string[] };

interface Row {
  readonly seq: number;
  readonly event: string;
}

/**
 * Reads events from their table, each once. They are numbered when they are written and visible when they are committed, which is not
 * the same order: missing numbers are read again. Events of one job come in order all the same, since the step that writes the next
 * one has seen the one before.
 */
export class Events {
  readonly #database: PostgresDatabase;
  readonly #pass: (event: WrittenEvent) => void;
  readonly #passed: () => void;
  /** The newest event that was read. Undefined: no subscriber wants events. */
  #newest: number | undefined;
  #gaps: Gap[] = [];
  #reading = false;
  #cancelTimer: (() => void) | undefined;
  /** Events may have been written since the reading began. */
  #stale = false;

  /** `pass`: takes an event. `passed`: the events of a page were passed. */
  constructor(database: PostgresDatabase, pass: (event: WrittenEvent) => void, passed: () => void) {
    this.#database = database;
    this.#pass = pass;
    this.#passed = passed;
  }

  /** Begins after this event, unless reading has begun before. */
  begin(newest: number): void {
    this.#newest ??= newest;
  }

  end(): void {
    this.#newest = undefined;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#gaps = [];
  }

  /** Reads new events. One read at a time; a call meanwhile leads to another. */
  read(): void {
    this.#stale = true;
    if (!this.#reading) void this.#readAll();
  }

  /** Reads new events after a while: one read for all calls meanwhile. */
  readIn(ms: number): void {
    this.#cancelTimer ??= this.#database.clock.after(ms, () => {
      this.#cancelTimer = undefined;
      this.read();
    });
  }

  async #readAll(): Promise<void> {
    this.#reading = true;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    try {
      while (this.#stale && this.#newest !== undefined) {
        this.#stale = false;
        await this.#readPage(this.#newest);
      }
    } catch {
      // The next hint, or the next poll, reads them.
    }
    this.#reading = false;
  }

  async #readPage(newest: number): Promise<void> {
    const now = this.#database.clock.now();
    this.#gaps = this.#gaps.filter(({ since }) => now - since < GAP_MS).slice(-MOST_GAPS);
    const gaps = JSON.stringify(this.#gaps.map(({ first, last }) => ({ first, last })));
    const rows = await this.#database.call<readonly Row[]>("read_events", newest, gaps, PAGE, STEP_BYTES);
    // All subscribers have left meanwhile, and others may have come.
    if (this.#newest !== newest) return;
    for (const { seq, event } of rows) this.#take(seq, event, now);
    this.#passed();
    const characters = rows.reduce((sum, { event }) => sum + event.length, 0);
    if (rows.length >= PAGE || characters >= LARGE) this.#stale = true;
  }

  #take(seq: number, event: string, now: number): void {
    const newest = this.#newest!;
    if (seq > newest) {
      if (seq > newest + 1) this.#gaps.push({ first: newest + 1, last: seq - 1, since: now });
      this.#newest = seq;
    } else {
      this.#gaps = this.#gaps.flatMap((gap) => without(gap, seq));
    }
    this.#pass(JSON.parse(event) as WrittenEvent);
  }
}

/** The gap without this number. */
function without(gap: Gap, seq: number): Gap[] {
  if (seq < gap.first || seq > gap.last) return [gap];
  const before = { ...gap, last: seq - 1 };
  const after = { ...gap, first: seq + 1 };
  return [before, after].filter(({ first, last }) => first <= last);
}
