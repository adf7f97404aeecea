import type { Clock } from "../../core/clock.ts";
import { afterAnswers } from "../../core/deadline.ts";
import { StorageError, UnknownOutcomeError } from "../../core/errors.ts";
import type { Random } from "../../core/random.ts";
import { CallDeadline, sendingMs } from "./call-deadline.ts";
import type { Connections, Held } from "./connections.ts";
import type { PostgresExecutor } from "./driver.ts";
import { type Failure, failed, closedError, kindOf, kindOnceSent } from "./failures.ts";

/** Waits between attempts. */
const SHORTEST_WAIT_MS = 5;
const LONGEST_WAIT_MS = 500;

/** Calls that keep leases alive and release slots get a connection before others. */
const FIRST: ReadonlySet<string> = new Set(["heartbeat", "settle", "sweep"]);

/** One attempt of these has all of the time: begun twice, they would not do the same. */
const WHOLE: ReadonlySet<string> = new Set(["setup"]);
/** One attempt of these has half of the time: they change many rows. */
const LONG: ReadonlySet<string> = new Set(["change", "write_rules"]);

/**
 * How long a first attempt waits for an answer, as a part of the time of the call and at most: a broken connection never answers, and
 * a new one may. Each later attempt waits twice as long, since the server may only be slow. Steps wait for locks for less than that.
 */
const ATTEMPT = { part: 1 / 2, mostMs: 3_000 };
/** Heartbeats are tried again sooner: leases expire meanwhile. */
const HEARTBEAT = { part: 1 / 4, mostMs: 1_000 };

/**
 * One attempt of a call, on a connection. `again`: an earlier attempt may have been committed, and its answer lost. `sent()`: from here
 * on this one may be committed, whatever its answer. `tries`: how many attempts there were before.
 */
export type Attempt<T> = (client: PostgresExecutor, again: boolean, sent: () => void, tries: number) => Promise<T>;

export interface CallOptions {
  /** How long it may take, all attempts together, unless bytes of its answer arrive. */
  readonly withinMs?: number | undefined;
  /** How many characters it sends. */
  readonly size?: number | undefined;
  /** There were so many attempts before, and one of them may have been committed. Default 0. */
  readonly triesBefore?: number | undefined;
  /** Is called if it fails after so many attempts and its outcome is unknown: it may have been committed, or may be later. */
  readonly unknown?: ((tries: number) => void) | undefined;
}

export interface RetryPolicyOptions {
  readonly timeout: number;
  readonly clock: Clock;
  readonly random: Random;
}

/** No answer came: the connection is ended, and what was sent may have been committed or not. */
class NoAnswerError extends Error {}

/**
 * The deadline and the retries of calls to a server that may be far away, restart or not answer. A call that fails for a transient
 * reason is tried again until its deadline; a connection that does not answer in time is ended.
 */
export class RetryPolicy {
  /** How many attempts were repeats. */
  retries = 0;
  readonly #connections: Connections;
  readonly #options: RetryPolicyOptions;
  /** The server was reached before: if it refuses connections now, it will come back. */
  #reached = false;
  #closed = false;
  /** Ends each wait that is under way, for an answer or between two attempts. */
  readonly #waits = new Set<() => void>();

  constructor(connections: Connections, options: RetryPolicyOptions) {
    this.#connections = connections;
    this.#options = options;
  }

  /** No attempt is begun any more, and all waits end. */
  close(): void {
    this.#closed = true;
    for (const end of this.#waits) end();
  }

  /** Makes attempts until one succeeds, one fails for good, or the deadline has passed. `name`: of the call, for messages. */
  async run<T>(name: string, attempt: Attempt<T>, options: CallOptions = {}): Promise<T> {
    const { withinMs = this.#options.timeout, size = 0, triesBefore = 0, unknown } = options;
    const deadline = new CallDeadline(this.#options.clock, withinMs + sendingMs(size));
    const first = FIRST.has(name);
    let again = triesBefore > 0;
    let reason: unknown;
    for (let tries = triesBefore; ; tries++) {
      if (this.#closed) throw closedError();
      let sent = false;
      let held: Held | undefined;
      try {
        held = await this.#connections.hold(deadline.remainingMs, first);
        this.#reached = true;
        if (this.#closed) {
          held.free(false);
          throw closedError();
        }
        const onSent = () => {
          sent = true;
        };
        const answer = attempt(held.client, again, onSent, tries);
        const shareMs = shareOf(name, withinMs, tries - triesBefore) + sendingMs(size);
        return await this.#within(held, deadline, shareMs, answer, () => sent);
      } catch (error) {
        const kind = kindOfAttempt(error, sent);
        const wait = this.#waitAfter(tries - triesBefore);
        again ||= sent && kind === "lost";
        const hopeless = kind === "final" || (kind === "refused" && !this.#reached);
        if (hopeless || wait >= deadline.remainingMs) {
          // If there was no connection for the last attempt, the reason of the one before says more.
          const known = held === undefined ? (reason ?? error) : error;
          const explained = explain(known, name, deadline.passedMs);
          if (!again || unknown === undefined) throw explained;
          unknown(tries + 1);
          throw kind === "final" ? explained : outcomeUnknown(explained);
        }
        reason = error;
        this.retries += 1;
        await this.#pause(wait);
      }
    }
  }

  /**
   * The answer, if it comes within `shareMs` of the last sign of progress, as far as the connection shows any. If it does not, the
   * connection is ended: it is unknown what would come over it next.
   */
  #within<T>(
    held: Held,
    deadline: CallDeadline,
    shareMs: number,
    answer: Promise<T>,
    isSent: () => boolean,
  ): Promise<T> {
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
        if (now > carried) deadline.progressed();
        if (now > carried && deadline.remainingMs > 0) {
          carried = now;
          cancel = afterAnswers(clock, Math.min(deadline.remainingMs, shareMs), look);
          return;
        }
        held.suspect();
        end(true, () => reject(new NoAnswerError("no answer")));
      };
      let cancel = afterAnswers(clock, Math.min(deadline.remainingMs, shareMs), look);
      answer.then(
        (value) => end(false, () => resolve(value)),
        (error: unknown) => end(kindOfAttempt(error, isSent()) === "lost", () => reject(error)),
      );
    });
  }

  /** Waits between two attempts. Closing ends it. */
  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const resume = () => {
        cancel();
        this.#waits.delete(resume);
        resolve();
      };
      const cancel = this.#options.clock.after(ms, resume);
      this.#waits.add(resume);
    });
  }

  #waitAfter(tries: number): number {
    const longest = Math.min(LONGEST_WAIT_MS, SHORTEST_WAIT_MS * 2 ** Math.min(tries, 10));
    return longest * (0.5 + this.#options.random() / 2);
  }
}

function shareOf(name: string, withinMs: number, tries: number): number {
  if (WHOLE.has(name)) return withinMs;
  if (LONG.has(name)) return withinMs * ATTEMPT.part;
  const { part, mostMs } = name === "heartbeat" ? HEARTBEAT : ATTEMPT;
  return Math.min(withinMs * part, mostMs) * 2 ** Math.min(tries, 10);
}

function kindOfAttempt(error: unknown, sent: boolean): Failure {
  if (error instanceof NoAnswerError) return "lost";
  return sent ? kindOnceSent(error) : kindOf(error);
}

function explain(error: unknown, name: string, tookMs: number): Error {
  if (!(error instanceof NoAnswerError)) return failed(error, name);
  return new StorageError(`the database has not answered for ${Math.round(tookMs) / 1_000} s (${name})`);
}

function outcomeUnknown(error: Error): UnknownOutcomeError {
  const cause = error.cause ?? error;
  return new UnknownOutcomeError(`${error.message}; whether it was committed is unknown, and is being resolved`, {
    cause,
  });
}
