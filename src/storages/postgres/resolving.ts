import type { Clock } from "../../core/clock.ts";

/** Waits between rounds in which nothing could be resolved, doubled each time. */
const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 10_000;
/** After so long a statement is in no buffer of a network any more (sql/steps.sql: begin_attempt), and leases and permits have expired. */
const GIVE_UP_AFTER_MS = 3_600_000;
/** So many are looked into at the most; beyond that the oldest are left to expire. */
const MOST = 1_000;

/** A step that has failed, and that may have been done, or may be yet. */
export interface Unresolved {
  /** Makes sure that it is over, one way or the other, and undoes what it has done. Rejects: it is not known yet. */
  readonly resolve: () => Promise<unknown>;
}

interface Pending extends Unresolved {
  readonly since: number;
}

/**
 * Looks into steps whose outcome is unknown, after their callers were told so: one after the other, until each is resolved. What
 * cannot be resolved now waits for its next turn, and keeps no other from its own.
 */
export class Resolving {
  readonly #clock: Clock;
  readonly #underWay: (work: () => Promise<void>) => Promise<void>;
  #pending: Pending[] = [];
  #running = false;
  #closed = false;
  #hurried = false;
  #goOn = (): void => {};

  /** `underWay`: what is done in it is waited for when the storage closes. */
  constructor(clock: Clock, underWay: (work: () => Promise<void>) => Promise<void>) {
    this.#clock = clock;
    this.#underWay = underWay;
  }

  add(unresolved: Unresolved): void {
    if (this.#closed) return;
    this.#pending.push({ ...unresolved, since: this.#clock.now() });
    if (this.#pending.length > MOST) this.#pending.shift();
    if (this.#running) return;
    this.#running = true;
    void this.#underWay(() => this.#run());
  }

  /** The storage is about to close: there is one more try, now. */
  hurry(): void {
    this.#hurried = true;
    this.#goOn();
  }

  close(): void {
    this.#closed = true;
    this.#goOn();
  }

  async #run(): Promise<void> {
    let wait = FIRST_WAIT_MS;
    while (this.#pending.length > 0 && !this.#closed) {
      const round = this.#pending;
      this.#pending = [];
      const last = this.#hurried;
      if (await this.#resolveAll(round)) wait = FIRST_WAIT_MS;
      if (this.#pending.length === 0 || this.#closed || last) break;
      if (!this.#hurried) await this.#pause(wait);
      wait = Math.min(2 * wait, LONGEST_WAIT_MS);
    }
    this.#running = false;
  }

  /** Could any of them be resolved? */
  async #resolveAll(round: readonly Pending[]): Promise<boolean> {
    let any = false;
    for (const pending of round) {
      if (this.#closed) break;
      try {
        await pending.resolve();
        any = true;
      } catch {
        if (this.#clock.now() - pending.since < GIVE_UP_AFTER_MS) this.#pending.push(pending);
      }
    }
    return any;
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#clock.after(ms, resolve);
      this.#goOn = () => {
        cancel();
        resolve();
      };
    });
  }
}
