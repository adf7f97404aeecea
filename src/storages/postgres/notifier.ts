import type { PostgresDatabase } from "./database.ts";
import type { StepHints } from "./step-hints.ts";

/**
 * Hints that come closer together than this are sent in one notification, as are those that come while one is being sent. Under load
 * the gap doubles, up to the second number.
 */
const SHORTEST_GAP_MS = 2;
const LONGEST_GAP_MS = 10;
/** While no other process listens, it is checked so often whether one does: a new listener is notified within a second. */
const NO_LISTENER_MS = 500;

/** Postgres bounds a notification in bytes; so many characters are never more than that. */
const MOST_CHARACTERS = 2_600;

/** While no notification can be sent, about so many jobs to be stopped are kept. */
const MOST_STOPPING = 100;

/** The payload of a notification. Without `origin` it is for all storages. */
export interface Hints {
  readonly origin?: string;
  readonly queues?: readonly (readonly [string, boolean])[];
  readonly wakeAll?: boolean;
  readonly stopping?: readonly (readonly [string, string])[];
  readonly events?: boolean;
}

/**
 * Notifies other processes of the hints of steps: the first at once, those that follow closely as one. That is done after the step, in
 * a transaction of its own (sql/events.sql: notify_others). A notification that fails is not repeated: it is only a hint.
 */
export class Notifier {
  readonly #database: PostgresDatabase;
  readonly #origin: string;
  #queues = new Map<string, boolean>();
  #wakeAll = false;
  #stopping: (readonly [string, string])[] = [];
  #events = false;
  #pending = false;
  #sending: Promise<void> | undefined;
  #nextAt = Number.NEGATIVE_INFINITY;
  #gapMs = SHORTEST_GAP_MS;
  /** The next notification had to wait. */
  #waited = false;
  #cancelTimer: (() => void) | undefined;
  #closed = false;

  constructor(database: PostgresDatabase, origin: string) {
    this.#database = database;
    this.#origin = origin;
  }

  notify({ woken, wakeAll, stopping, events, ends }: StepHints): void {
    for (const [queue, mayStart] of woken ?? []) {
      this.#queues.set(queue, mayStart || this.#queues.get(queue) === true);
    }
    // What is left out here comes with the next heartbeat.
    if (this.#stopping.length < MOST_STOPPING) this.#stopping.push(...(stopping ?? []));
    this.#wakeAll ||= wakeAll === true;
    this.#events ||= events === true || ends === true;
    this.#pending = true;
    this.#go();
  }

  /**
   * May the next step notify other processes itself? If no notification was sent just now and none is pending: that saves a round trip
   * and a wait. Afterwards either `stepNotified` is called, or `notify` if the step did not.
   */
  stepMayNotify(): boolean {
    const now = this.#database.clock.now();
    if (this.#pending || this.#sending !== undefined || this.#cancelTimer !== undefined) return false;
    if (now < this.#nextAt) return false;
    this.#gapMs = SHORTEST_GAP_MS;
    this.#nextAt = now + this.#gapMs;
    return true;
  }

  /** A step has notified other processes itself. */
  stepNotified(): void {
    this.#nextAt = this.#database.clock.now() + this.#gapMs;
  }

  /** Sends what is pending, and nothing after that. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    await this.#sending;
    if (this.#pending) await this.#send();
  }

  #go(): void {
    if (this.#closed || this.#sending !== undefined || this.#cancelTimer !== undefined) return;
    const wait = this.#nextAt - this.#database.clock.now();
    if (wait <= 0) {
      this.#gapMs = this.#waited ? Math.min(this.#gapMs * 2, LONGEST_GAP_MS) : SHORTEST_GAP_MS;
      this.#waited = false;
      this.#sending = this.#send();
      return;
    }
    this.#waited = true;
    this.#cancelTimer = this.#database.clock.after(wait, () => {
      this.#cancelTimer = undefined;
      this.#go();
    });
  }

  async #send(): Promise<void> {
    const text = this.#taken();
    let listened = true;
    try {
      listened = await this.#database.quietly<boolean>("notify_others", [this.#origin, text]);
    } catch {
      // Listeners find out by their own poll, only later.
    }
    this.#sending = undefined;
    this.#nextAt = this.#database.clock.now() + (listened ? this.#gapMs : NO_LISTENER_MS);
    if (this.#pending) this.#go();
  }

  /** Takes all pending hints, as text. */
  #taken(): string {
    const hints: Hints = {
      origin: this.#origin,
      queues: [...this.#queues],
      wakeAll: this.#wakeAll,
      stopping: this.#stopping,
      events: this.#events,
    };
    const text = JSON.stringify(hints);
    const short = text.length <= MOST_CHARACTERS;
    const events = this.#events;
    this.#queues = new Map();
    this.#wakeAll = false;
    this.#stopping = [];
    this.#events = false;
    this.#pending = false;
    return short ? text : JSON.stringify({ origin: this.#origin, wakeAll: true, events } satisfies Hints);
  }
}

/** The hints of a notification; undefined if it is malformed. Every role that may connect can send anything on the channel. */
export function readHints(text: string | undefined): Hints | undefined {
  try {
    const parsed = JSON.parse(text ?? "") as unknown;
    if (typeof parsed !== "object" || parsed === null) return undefined;
    const { origin, queues, wakeAll, stopping, events } = parsed as Readonly<Record<string, unknown>>;
    return {
      ...(typeof origin === "string" && { origin }),
      queues: pairs<boolean>(queues, "boolean"),
      wakeAll: wakeAll === true,
      stopping: pairs<string>(stopping, "string"),
      events: events === true,
    };
  } catch {
    return undefined;
  }
}

function pairs<T>(list: unknown, second: "boolean" | "string"): (readonly [string, T])[] {
  if (!Array.isArray(list)) return [];
  return (list as unknown[]).filter(
    (pair): pair is [string, T] => Array.isArray(pair) && typeof pair[0] === "string" && typeof pair[1] === second,
  );
}
