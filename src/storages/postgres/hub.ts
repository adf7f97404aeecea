import { afterAnswers, inTime } from "../../core/deadline.ts";
import type { Subscriber } from "../../storage/job-storage.ts";
import { Subscribers } from "../../storage/subscribers.ts";
import type { Audience, PostgresDatabase } from "./database.ts";
import { Events } from "./events.ts";
import { type Beat, Listening } from "./listening.ts";
import { newsFrom, Telling } from "./telling.ts";
import { isNewsworthy, type Told } from "./told.ts";

/** How often whoever listens says so, and looks for himself. */
const BEAT_MS = 5_000;
/** A beat that is not answered in this time leads nowhere, perhaps: then everybody looks. */
const DOUBT_MS = 1_000;
/** A beat is heard as soon as it is answered. Who has not heard it by then may have missed other things: everybody looks. */
const HEARD_MS = 250;
/** Hints may be lost on the way: so often everybody looks, whatever was heard. */
const LOOK_MS = 30_000;
/** How long steps wait until it is known to others that somebody listens here. */
const REGISTER_MS = 1_000;
/** So many jobs are looked at together because of what was heard; of others the next beat tells. */
const MOST_HINTED = 1_000;
/** What steps of this process say of jobs that ended is read together: its own workers have told those that wait for them. */
const ENDS_MS = 50;
/** When the last one has left it goes on for a moment: another one may come. */
const LINGER_MS = 1_000;

/**
 * Who listens, here and in other processes. Whoever is here hears of a step as soon as it is committed; other processes are
 * told on a channel of the database (telling.ts), and hear on a connection of their own (listening.ts). All of that is
 * hints. The guarantee is a slow look: every few seconds while nothing is known to be heard, every half minute else.
 */
export class Hub implements Audience {
  readonly #database: PostgresDatabase;
  readonly #subscribers = new Subscribers();
  /** Tells this storage object from every other one, in any process. */
  readonly #origin = globalThis.crypto.randomUUID();
  readonly #channel: string;
  readonly #telling: Telling;
  readonly #events: Events;
  #listening: Listening | undefined;
  #settling: Promise<void> | undefined;
  #cancelBeat: (() => void) | undefined;
  #cancelQuiet: (() => void) | undefined;
  /** An answer to a beat is being waited for, or to be heard. */
  #cancelDoubt: (() => void) | undefined;
  /** Ends all waiting for answers. */
  readonly #closed = new AbortController();
  #lookedAt = 0;
  #stamp: string | undefined;
  /** Jobs that somebody says are asked to stop. */
  readonly #hinted = new Set<string>();
  #confirming = false;
  /** Others are being told that nobody listens here. */
  #leaving: Promise<unknown> = Promise.resolve();

  constructor(database: PostgresDatabase, schema: string) {
    this.#database = database;
    this.#channel = `sluice:${schema}`;
    this.#telling = new Telling(database, this.#origin);
    this.#events = new Events(
      database,
      (event) => {
        if (event.event === "ended") this.#subscribers.ended(event.ids);
        else this.#subscribers.event(event);
      },
      () => this.#subscribers.tell(),
    );
    database.audience = this;
  }

  get settling(): Promise<void> | undefined {
    return this.#settling;
  }

  subscribe(subscriber: Subscriber): () => void {
    const { events, ends } = this.#wants;
    const leave = this.#subscribers.add(subscriber);
    this.#cancelQuiet?.();
    this.#cancelQuiet = undefined;
    const more = (this.#wants.events && !events) || (this.#wants.ends && !ends);
    if (this.#listening === undefined || more) this.#register();
    let left = false;
    return () => {
      if (left) return;
      left = true;
      leave();
      if (!this.#subscribers.hearEvents) this.#events.end();
      if (this.#subscribers.size > 0 || this.#listening === undefined) return;
      this.#cancelQuiet ??= this.#database.clock.after(LINGER_MS, () => this.#quiet());
    };
  }

  /** What steps are to write down for those who listen here. */
  get #wants() {
    return { events: this.#subscribers.hearAll, ends: this.#subscribers.hearEnds };
  }

  committed(told: Told): void {
    if (!isNewsworthy(told)) return;
    this.#pass(told);
    if (told.told === true) this.#telling.wasTold();
    else this.#telling.tell(told);
  }

  teller(): string | undefined {
    return this.#telling.mayTellItself() ? this.#origin : undefined;
  }

  /** Nobody listens any more, here; others are told what is still to be told. */
  async close(): Promise<void> {
    this.#subscribers.clear();
    this.#events.end();
    this.#quiet();
    const last = () => Promise.all([this.#telling.close(), this.#leaving]);
    await inTime(this.#database.clock, last, { withinMs: REGISTER_MS }).catch(() => {});
    this.#closed.abort();
  }

  #pass({ woken, everybody, stopping, events, ends }: Told): void {
    for (const [queue, id] of stopping ?? []) this.#subscribers.cancelled(queue, id);
    for (const [queue, news] of woken ?? []) this.#subscribers.wake(queue, news);
    if (everybody === true) this.#subscribers.wakeAll(true);
    if (events === true && this.#subscribers.hearEvents) this.#events.read();
    else if (ends === true && this.#subscribers.hearEvents) this.#events.readIn(ENDS_MS);
    this.#subscribers.tell();
  }

  readonly #hear = (text: string | undefined): void => {
    const news = newsFrom(text);
    if (news === undefined || news.origin === this.#origin) return;
    const { queues, everybody, events } = news;
    this.#pass({ woken: queues ?? [], everybody: everybody === true, events: events === true });
    for (const [, id] of news.stopping ?? []) if (this.#hinted.size < MOST_HINTED) this.#hinted.add(id);
    if (this.#hinted.size > 0 && !this.#confirming) void this.#confirm();
  };

  /** Anybody can say on the channel that a job is to stop. Only what the table says stops one. */
  async #confirm(): Promise<void> {
    this.#confirming = true;
    while (this.#hinted.size > 0) {
      const ids = JSON.stringify([...this.#hinted]);
      this.#hinted.clear();
      const stopping = await this.#database
        .quietly<readonly (readonly [string, string])[]>("asked_to_stop", [ids])
        // The next beat tells.
        .catch(() => []);
      this.#pass({ stopping });
    }
    this.#confirming = false;
  }

  /** Lets others know that somebody listens. Steps from here on wait for it, for a moment. */
  #register(): void {
    this.#listening ??= new Listening(
      this.#database,
      { channel: this.#channel, ear: `sluice:${this.#origin}` },
      this.#hear,
      () => this.#look(true),
    );
    if (this.#cancelBeat === undefined) {
      this.#lookedAt = this.#database.clock.now();
      this.#cancelBeat = this.#database.clock.after(BEAT_MS, this.#tick);
    }
    const listening = this.#listening;
    let late = false;
    const register = async (): Promise<void> => {
      await this.#database.setup();
      await listening.start();
      // Else that would be forgotten at once.
      await this.#leaving;
      if (listening !== this.#listening) return;
      const beat = await listening.beat(this.#origin, this.#wants);
      const known = this.#stamp;
      this.#learn(beat);
      // Steps did not wait, and others may have done something of which they told nobody.
      if (late) this.#look(true);
      else if (known !== undefined && known !== beat.stamp) this.#look(false);
    };
    const settling = inTime(this.#database.clock, register, { withinMs: REGISTER_MS, signal: this.#closed.signal })
      // The next beat tries again.
      .catch(() => {
        late = true;
      })
      .finally(() => {
        if (this.#settling === settling) this.#settling = undefined;
      });
    this.#settling = settling;
  }

  readonly #tick = (): void => {
    this.#cancelBeat = this.#database.clock.after(BEAT_MS, this.#tick);
    const listening = this.#listening;
    if (listening === undefined) return;
    const wasHearing = listening.hearing;
    void listening.start();
    this.#doubt(DOUBT_MS, () => this.#look(true));
    listening.beat(this.#origin, this.#wants).then(
      (beat) => {
        if (listening !== this.#listening) return;
        const stamp = this.#stamp;
        this.#learn(beat);
        this.#cancelDoubt?.();
        if (!wasHearing || this.#database.clock.now() - this.#lookedAt >= LOOK_MS) {
          this.#look(true);
          return;
        }
        if (beat.stamp !== stamp) this.#look(false);
        this.#doubt(HEARD_MS, () => {
          if (!listening.hearing) this.#look(true);
        });
      },
      () => {
        this.#cancelDoubt?.();
        this.#look(true);
      },
    );
  };

  /** Waits for something, and not for long. */
  #doubt(ms: number, overdue: () => void): void {
    this.#cancelDoubt?.();
    this.#cancelDoubt = afterAnswers(this.#database.clock, ms, overdue);
  }

  #learn({ event, stamp, stopping }: Beat): void {
    this.#stamp = stamp;
    if (this.#subscribers.hearEvents) {
      this.#events.begin(event ?? 0);
      this.#events.read();
    }
    for (const [queue, id] of stopping ?? []) this.#subscribers.cancelled(queue, id);
    this.#subscribers.tell();
  }

  /** Everybody looks for himself. */
  #look(news: boolean): void {
    if (news) this.#lookedAt = this.#database.clock.now();
    if (this.#subscribers.hearEvents) this.#events.read();
    this.#subscribers.wakeAll(news);
    this.#subscribers.tell();
  }

  #quiet(): void {
    this.#cancelBeat?.();
    this.#cancelBeat = undefined;
    this.#cancelQuiet?.();
    this.#cancelQuiet = undefined;
    this.#cancelDoubt?.();
    const listening = this.#listening;
    if (listening === undefined) return;
    this.#listening = undefined;
    this.#stamp = undefined;
    const closed = listening.close();
    const left = this.#database.quietly("leave", [this.#origin]).catch(() => {});
    this.#leaving = Promise.all([left, closed]);
  }
}
