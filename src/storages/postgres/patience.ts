import type { Clock } from "../../core/clock.ts";
import { afterAnswers } from "../../core/deadline.ts";
import { StorageError, UnknownOutcomeError } from "../../core/errors.ts";
import type { Random } from "../../core/random.ts";
import { CallTime, sendingMs } from "./call-time.ts";
import type { Connections, Held } from "./connections.ts";
import type { PostgresExecutor } from "./driver.ts";
import { type Failure, failed, closedError, kindOf, kindOnceSent } from "./failures.ts";

/** Waits between attempts. */
const SHORTEST_WAIT_MS = 5;
const LONGEST_WAIT_MS = 500;

/** What keeps leases alive and gives back what is held goes before the rest. */
const FIRST: ReadonlySet<string> = new Set(["heartbeat", "settle", "sweep"]);

/** What would not be the same if it was begun twice has all of the time that there is. */
const WHOLE: ReadonlySet<string> = new Set(["setup"]);
/** What reaches over much. */
const LONG: ReadonlySet<string> = new Set(["change", "write_rules"]);

/**
 * How long a first attempt may go unanswered, and which part of the time there is: a connection that leads nowhere says
 * nothing, and a new one may. Each later attempt has twice as long, for the server may only be slow. Steps wait for locks for
 * less than that.
 */
const ATTEMPT = { part: 1 / 2, mostMs: 3_000 };
/** A lease does not wait. */
const HEARTBEAT = { part: 1 / 4, mostMs: 1_000 };

/**
 * One attempt at something, on a connection. `again`: an attempt before may have been done, and its answer lost. `sent()`:
 * from here on this one may be done, whatever is heard of it. `tries`: how many there were before.
 */
export type Attempt<T> = (client: PostgresExecutor, again: boolean, sent: () => void, tries: number) => Promise<T>;

/** What is known about a call before it is made. */
export interface Trying {
  /** How long it may take, all attempts together, unless something of its answer arrives. */
  readonly withinMs?: number | undefined;
  /** How many characters it sends. */
  readonly size?: number | undefined;
  /** There were so many attempts at it before, and one of them may have been done. Default 0. */
  readonly triesBefore?: number | undefined;
  /** It has failed, after so many attempts, and may have been done, or may be yet: this sees to it. */
  readonly unknown?: ((tries: number) => void) | undefined;
}

export interface PatienceOptions {
  readonly timeout: number;
  readonly clock: Clock;
  readonly random: Random;
}

/** Nothing was answered: the connection is ended, and what was sent may have been done or not. */
class SilenceError extends Error {}

/**
 * Gets something done at a server that may be far, restart or not answer: within a time, after which its connection is
 * ended; what failed for a reason that passes is tried again until then.
 */
export class Patience {
  /** How often something was tried again. */
  retries = 0;
  readonly #connections: Connections;
  readonly #options: PatienceOptions;
  /** The server was reached before: if it is not there it will come back. */
  #reached = false;
  #closed = false;
  /** What ends each wait that is under way, for an answer or between two attempts. */
  readonly #waits = new Set<() => void>();

  constructor(connections: Connections, options: PatienceOptions) {
    this.#connections = connections;
    this.#options = options;
  }

  /** Nothing is begun any more, nor tried again, nor waited for. */
  close(): void {
    this.#closed = true;
    for (const end of this.#waits) end();
  }

  /** Tries until it is done, has failed for good, or the time is up. `doing`: what, for messages. */
  async until<T>(doing: string, attempt: Attempt<T>, trying: Trying = {}): Promise<T> {
    const { withinMs = this.#options.timeout, size = 0, triesBefore = 0, unknown } = trying;
    const time = new CallTime(this.#options.clock, withinMs + sendingMs(size));
    const first = FIRST.has(doing);
    let again = triesBefore > 0;
    let reason: unknown;
    for (let tries = triesBefore; ; tries++) {
      if (this.#closed) throw closedError();
      let sent = false;
      let held: Held | undefined;
      try {
        held = await this.#connections.hold(time.left, first);
        this.#reached = true;
        if (this.#closed) {
          held.free(false);
          throw closedError();
        }
        const onSent = () => {
          sent = true;
        };
        const answer = attempt(held.client, again, onSent, tries);
        const shareMs = shareOf(doing, withinMs, tries - triesBefore) + sendingMs(size);
        return await this.#within(held, time, shareMs, answer, () => sent);
      } catch (error) {
        const kind = kindNow(error, sent);
        const wait = this.#waitAfter(tries - triesBefore);
        again ||= sent && kind === "lost";
        const hopeless = kind === "final" || (kind === "refused" && !this.#reached);
        if (hopeless || wait >= time.left) {
          // Who got no connection any more has known a better reason before.
          const known = held === undefined ? (reason ?? error) : error;
          const told = explained(known, doing, time.passed);
          if (!again || unknown === undefined) throw told;
          unknown(tries + 1);
          throw kind === "final" ? told : outcomeUnknown(told);
        }
        reason = error;
        this.retries += 1;
        await this.#pause(wait);
      }
    }
  }

  /**
   * What is answered in time: within `shareMs` of the last sign of progress, as far as the connection shows any. If nothing is, the
   * connection is ended: nobody knows what would come over it next.
   */
  #within<T>(held: Held, time: CallTime, shareMs: number, answer: Promise<T>, isSent: () => boolean): Promise<T> {
    return new Promise((resolve, reject) => {
      const { clock } = this.#options;
      let over = false;
      let carried = held.carried();
      const end = (broken: boolean, settle: () => void): void => {
        if (over) return;
        over = true;
        cancel();
        this.#waits.delete(giveUp);
        settle();
        held.free(broken);
      };
      const giveUp = () =>
        end(true, () => reject(new StorageError("the storage was closed before the database answered")));
      this.#waits.add(giveUp);
      const look = () => {
        const now = held.carried();
        if (now > carried) time.progressed();
        if (now > carried && time.left > 0) {
          carried = now;
          cancel = afterAnswers(clock, Math.min(time.left, shareMs), look);
          return;
        }
        held.doubt();
        end(true, () => reject(new SilenceError("no answer")));
      };
      let cancel = afterAnswers(clock, Math.min(time.left, shareMs), look);
      answer.then(
        (value) => end(false, () => resolve(value)),
        (error: unknown) => end(kindNow(error, isSent()) === "lost", () => reject(error)),
      );
    });
  }

  /** Between two attempts. Closing ends it. */
  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const goOn = () => {
        cancel();
        this.#waits.delete(goOn);
        resolve();
      };
      const cancel = this.#options.clock.after(ms, goOn);
      this.#waits.add(goOn);
    });
  }

  #waitAfter(tries: number): number {
    const longest = Math.min(LONGEST_WAIT_MS, SHORTEST_WAIT_MS * 2 ** Math.min(tries, 10));
    return longest * (0.5 + this.#options.random() / 2);
  }
}

function shareOf(doing: string, withinMs: number, tries: number): number {
  if (WHOLE.has(doing)) return withinMs;
  if (LONG.has(doing)) return withinMs * ATTEMPT.part;
  const { part, mostMs } = doing === "heartbeat" ? HEARTBEAT : ATTEMPT;
  return Math.min(withinMs * part, mostMs) * 2 ** Math.min(tries, 10);
}

function kindNow(error: unknown, sent: boolean): Failure {
  if (error instanceof SilenceError) return "lost";
  return sent ? kindOnceSent(error) : kindOf(error);
}

function explained(error: unknown, doing: string, tookMs: number): Error {
  if (!(error instanceof SilenceError)) return failed(error, doing);
  return new StorageError(`the database has not answered for ${Math.round(tookMs) / 1_000} s (${doing})`);
}

function outcomeUnknown(error: Error): UnknownOutcomeError {
  const cause = error.cause ?? error;
  return new UnknownOutcomeError(`${error.message}; whether it was done is not known, and is looked into`, { cause });
}
