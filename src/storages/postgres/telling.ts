import type { PostgresDatabase } from "./database.ts";
import type { Told } from "./told.ts";

/**
 * What comes closer together than this is told as one, as is all that comes while something is being told. While there is
 * ever more to tell, it is told ever less often, down to the other.
 */
const SHORTEST_GAP_MS = 2;
const LONGEST_GAP_MS = 10;
/** If nobody listens it is looked so often whether somebody does: whoever begins to hears of what is new within a second. */
const NOBODY_MS = 500;

/** There is a bound to what can be said at once, in bytes; so many characters are never more than that. */
const MOST_CHARACTERS = 2_600;

/** While nothing can be told so many jobs to be stopped are remembered, about. */
const MOST_STOPPING = 100;

/** What goes over the channel. Without `origin` it is told to all. */
export interface News {
  readonly origin?: string;
  readonly queues?: readonly (readonly [string, boolean])[];
  readonly everybody?: boolean;
  readonly stopping?: readonly (readonly [string, string])[];
  readonly events?: boolean;
}

/**
 * Tells other processes what steps of this one told: the first at once, what follows closely as one. It is told after the
 * step, in a transaction of its own (sql/events.sql: tell). What cannot be told is forgotten: it was only a hint.
 */
export class Telling {
  readonly #database: PostgresDatabase;
  readonly #origin: string;
  #queues = new Map<string, boolean>();
  #everybody = false;
  #stopping: (readonly [string, string])[] = [];
  #events = false;
  #pending = false;
  #sending: Promise<void> | undefined;
  #nextAt = Number.NEGATIVE_INFINITY;
  #gapMs = SHORTEST_GAP_MS;
  /** What is told next had to wait. */
  #heldBack = false;
  #cancelTimer: (() => void) | undefined;
  #closed = false;

  constructor(database: PostgresDatabase, origin: string) {
    this.#database = database;
    this.#origin = origin;
  }

  tell({ woken, everybody, stopping, events, ends }: Told): void {
    for (const [queue, news] of woken ?? []) this.#queues.set(queue, news || this.#queues.get(queue) === true);
    // What is left out here is told with the next beat.
    if (this.#stopping.length < MOST_STOPPING) this.#stopping.push(...(stopping ?? []));
    this.#everybody ||= everybody === true;
    this.#events ||= events === true || ends === true;
    this.#pending = true;
    this.#go();
  }

  /**
   * May the next step tell others of itself? Where nothing was told just now, and nothing is to be told: that saves a round trip
   * and a wait. It is told whether that step did so (`wasTold`), or told to tell for it.
   */
  mayTellItself(): boolean {
    const now = this.#database.clock.now();
    if (this.#pending || this.#sending !== undefined || this.#cancelTimer !== undefined) return false;
    if (now < this.#nextAt) return false;
    this.#gapMs = SHORTEST_GAP_MS;
    this.#nextAt = now + this.#gapMs;
    return true;
  }

  /** A step has told others of itself. */
  wasTold(): void {
    this.#nextAt = this.#database.clock.now() + this.#gapMs;
  }

  /** Says what is still to be said, and no more. */
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
      this.#gapMs = this.#heldBack ? Math.min(this.#gapMs * 2, LONGEST_GAP_MS) : SHORTEST_GAP_MS;
      this.#heldBack = false;
      this.#sending = this.#send();
      return;
    }
    this.#heldBack = true;
    this.#cancelTimer = this.#database.clock.after(wait, () => {
      this.#cancelTimer = undefined;
      this.#go();
    });
  }

  async #send(): Promise<void> {
    const text = this.#taken();
    let heard = true;
    try {
      heard = await this.#database.quietly<boolean>("tell", [this.#origin, text]);
    } catch {
      // Everybody finds out by himself, only later.
    }
    this.#sending = undefined;
    this.#nextAt = this.#database.clock.now() + (heard ? this.#gapMs : NOBODY_MS);
    if (this.#pending) this.#go();
  }

  /** All that is to be told, as text. */
  #taken(): string {
    const news: News = {
      origin: this.#origin,
      queues: [...this.#queues],
      everybody: this.#everybody,
      stopping: this.#stopping,
      events: this.#events,
    };
    const text = JSON.stringify(news);
    const short = text.length <= MOST_CHARACTERS;
    const events = this.#events;
    this.#queues = new Map();
    this.#everybody = false;
    this.#stopping = [];
    this.#events = false;
    this.#pending = false;
    return short ? text : JSON.stringify({ origin: this.#origin, everybody: true, events } satisfies News);
  }
}

/** What somebody said on the channel; undefined: nothing that makes sense. Anybody who may connect can say anything. */
export function newsFrom(text: string | undefined): News | undefined {
  try {
    const said = JSON.parse(text ?? "") as unknown;
    if (typeof said !== "object" || said === null) return undefined;
    const { origin, queues, everybody, stopping, events } = said as Readonly<Record<string, unknown>>;
    return {
      ...(typeof origin === "string" && { origin }),
      queues: pairs<boolean>(queues, "boolean"),
      everybody: everybody === true,
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
