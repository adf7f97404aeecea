import type { JobEvent } from "../../core/events.ts";
import { STEP_BYTES } from "../../storage/step-bytes.ts";
import type { PostgresDatabase } from "./database.ts";

/** How many are read at once; fewer, if they are large. */
const PAGE = 1_000;
/** A page that was cut short for its bytes has so many characters at least: one of them takes three bytes at the most. */
const LARGE = STEP_BYTES / 4;
/** What is missing between two events may still be committed: it is looked for during this time … */
const PATIENCE_MS = 60_000;
/** … in so many places at most. */
const MOST_GAPS = 1_000;

/** Numbers that are missing: given to a transaction that has not ended, or never will. */
interface Gap {
  readonly first: number;
  readonly last: number;
  readonly since: number;
}

/** What is written down: an event, or that jobs ended, told as one (sql/events.sql: tell_ends). */
export type WrittenEvent = JobEvent | { readonly event: "ended"; readonly ids: readonly string[] };

interface Row {
  readonly seq: number;
  readonly event: string;
}

/**
 * Reads events from their table, each once. They are numbered when they are written and seen when they are committed, which
 * is not the same order: numbers that were left out are looked for again. Events of one job come in their order all the
 * same, for whoever writes the next one has seen the one before.
 */
export class Events {
  readonly #database: PostgresDatabase;
  readonly #pass: (event: WrittenEvent) => void;
  readonly #told: () => void;
  /** The newest that was read. Undefined: nobody wants any. */
  #newest: number | undefined;
  #gaps: Gap[] = [];
  #reading = false;
  #cancelTimer: (() => void) | undefined;
  /** Something may have been written since the reading began. */
  #stale = false;

  /** `pass`: takes an event. `told`: those that were passed can be told. */
  constructor(database: PostgresDatabase, pass: (event: WrittenEvent) => void, told: () => void) {
    this.#database = database;
    this.#pass = pass;
    this.#told = told;
  }

  /** From here on, if nothing was read before. */
  begin(newest: number): void {
    this.#newest ??= newest;
  }

  end(): void {
    this.#newest = undefined;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#gaps = [];
  }

  /** Reads what is new. One reading at a time; what is asked for meanwhile leads to another. */
  read(): void {
    this.#stale = true;
    if (!this.#reading) void this.#readAll();
  }

  /** The same, after a while: what is asked for meanwhile goes along. */
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
      // The next hint, or the next look, finds the same.
    }
    this.#reading = false;
  }

  async #readPage(newest: number): Promise<void> {
    const now = this.#database.clock.now();
    this.#gaps = this.#gaps.filter(({ since }) => now - since < PATIENCE_MS).slice(-MOST_GAPS);
    const gaps = JSON.stringify(this.#gaps.map(({ first, last }) => ({ first, last })));
    const rows = await this.#database.call<readonly Row[]>("read_events", newest, gaps, PAGE, STEP_BYTES);
    // Everybody has left meanwhile, and somebody else may have come.
    if (this.#newest !== newest) return;
    for (const { seq, event } of rows) this.#take(seq, event, now);
    this.#told();
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

/** The gap, without a number that was found in it. */
function without(gap: Gap, seq: number): Gap[] {
  if (seq < gap.first || seq > gap.last) return [gap];
  const before = { ...gap, last: seq - 1 };
  const after = { ...gap, first: seq + 1 };
  return [before, after].filter(({ first, last }) => first <= last);
}
