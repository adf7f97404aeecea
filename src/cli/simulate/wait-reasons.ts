import { applies, chargeOf, quotaOf, valueOf } from "../../limits/rule.ts";
import type { JobStorage } from "../../storage/job-storage.ts";
import type { LimitCondition } from "../../storage/limit-storage.ts";
import { type Run, TURN, WORKERS } from "./runs.ts";

/** Jobs of one queue, type, priority, group and keys: they start in the order in which they came. */
interface Lane {
  readonly queue: string;
  readonly type: string;
  /** Some of them started: those before `head`. */
  runs: Run[];
  head: number;
  /** What its first job waits for, */
  blocker: string | null;
  /** and up to when that was written down. */
  since: number;
}

/** What is going on, beside the waiting. */
export interface AtWork {
  /** Does a worker of this queue have an unused slot? */
  isFree(queue: string): boolean;
  /** Jobs that run, and when each of them will end. */
  running(): Iterable<{ readonly run: Run; readonly endsAt: number }>;
}

/** After so many explanations they are requested at longer intervals: what blocks a lane rarely changes from one instant to the next. */
const QUESTIONS = 20_000;

/**
 * Which jobs wait, and what for. The storage explains what blocks the first job of every lane, and all jobs
 * behind it wait for the same. The times are exact; where very many lanes wait for very long, the blockers are a sample.
 */
export class WaitReasons {
  readonly #storage: JobStorage;
  readonly #work: AtWork;
  readonly #lanes = new Map<string, Lane>();
  readonly #waiting = new Set<Lane>();
  readonly #total = new Map<string, number>();
  #asked = 0;
  #intervalMs = 0;
  #nextLook = 0;

  constructor(storage: JobStorage, work: AtWork) {
    this.#storage = storage;
    this.#work = work;
  }

  get anyWaits(): boolean {
    return this.#waiting.size > 0;
  }

  arrive(run: Run): void {
    const lane = this.#laneOf(run);
    this.#count(lane, run.at);
    lane.runs.push(run);
    this.#waiting.add(lane);
  }

  start(run: Run, now: number): void {
    const lane = this.#laneOf(run);
    this.#count(lane, now);
    lane.head += 1;
    if (lane.head < lane.runs.length) {
      // Started jobs are dropped at intervals.
      if (lane.head > 1_000 && lane.head * 2 > lane.runs.length) {
        lane.runs = lane.runs.slice(lane.head);
        lane.head = 0;
      }
      return;
    }
    lane.runs = [];
    lane.head = 0;
    lane.blocker = null;
    this.#waiting.delete(lane);
  }

  /** Ends an instant: finds what each lane that still waits is waiting for. */
  async look(now: number): Promise<void> {
    const all = now >= this.#nextLook;
    const free: Lane[] = [];
    for (const lane of this.#waiting) {
      if (!all && lane.blocker !== null) continue;
      this.#count(lane, now);
      const blocker = await this.#ask(lane, now);
      if (blocker === TURN) free.push(lane);
      lane.blocker = blocker;
    }
    // A job is not passed by later ones: a lane that could start waits for what blocks an earlier one under the same limit.
    for (const lane of free) lane.blocker = await this.#heldWith(lane);
    if (all) this.#nextLook = now + this.#interval(now);
  }

  /** In milliseconds, all jobs together. */
  result(now: number): ReadonlyMap<string, number> {
    for (const lane of this.#waiting) this.#count(lane, now);
    return this.#total;
  }

  /** How many wait for each limit. */
  held(): ReadonlyMap<string, number> {
    const held = new Map<string, number>();
    for (const { blocker, runs, head } of this.#waiting) {
      if (blocker !== null) held.set(blocker, (held.get(blocker) ?? 0) + runs.length - head);
    }
    return held;
  }

  /** Of several limits the one with the longest wait; at equal waits a window. */
  async #ask(lane: Lane, now: number): Promise<string> {
    let worst: string | undefined;
    let longest = 0;
    for (const condition of await this.#limitsOf(lane)) {
      const wait = condition.waitMs ?? this.#releasedAt(condition) - now;
      if (wait < longest || (wait === longest && (wait === 0 || condition.waitMs === null))) continue;
      worst = condition.rule.name;
      longest = wait;
    }
    return worst ?? (this.#work.isFree(lane.queue) ? TURN : WORKERS);
  }

  /** When enough of what runs under a limit will have ended: here that is known. */
  #releasedAt({ rule, group, held, weight, reason }: LimitCondition): number {
    const { max, concurrency } = quotaOf(rule, group);
    if (reason !== "concurrency" || concurrency === null) return Number.POSITIVE_INFINITY;
    const ends: { readonly endsAt: number; readonly slots: number }[] = [];
    for (const { run, endsAt } of this.#work.running()) {
      if (!applies(rule, run.work.queue, run.work.type) || valueOf(rule, run) !== group) continue;
      ends.push({ endsAt, slots: chargeOf(rule, run.weights).slots });
    }
    let needed = held + (max === null ? weight : 1) - concurrency;
    const last = ends.toSorted((a, b) => a.endsAt - b.endsAt).find(({ slots }) => (needed -= slots) <= 0);
    return last?.endsAt ?? Number.POSITIVE_INFINITY;
  }

  async #heldWith(lane: Lane): Promise<string> {
    const shared = (await this.#limitsOf(lane)).map(({ rule }) => rule).filter(({ byGroup }) => !byGroup);
    for (const { blocker, queue, type } of this.#waiting) {
      const common = shared.find(({ name }) => name === blocker);
      if (common !== undefined && applies(common, queue, type)) return common.name;
    }
    return TURN;
  }

  async #limitsOf({ runs, head }: Lane): Promise<readonly LimitCondition[]> {
    this.#asked += 1;
    return (await this.#storage.explain(runs[head]!.id))?.limits ?? [];
  }

  #interval(now: number): number {
    if (this.#asked >= QUESTIONS) {
      this.#asked = 0;
      this.#intervalMs = Math.max(1, 2 * this.#intervalMs, now / 1_000);
    }
    return this.#intervalMs;
  }

  #count(lane: Lane, now: number): void {
    const { blocker, since, runs, head } = lane;
    if (blocker !== null)
      this.#total.set(blocker, (this.#total.get(blocker) ?? 0) + (runs.length - head) * (now - since));
    lane.since = now;
  }

  #laneOf({ work, group, keys }: Run): Lane {
    const { queue, type, priority } = work;
    const key = JSON.stringify([queue, type, priority, group, keys]);
    let lane = this.#lanes.get(key);
    if (lane === undefined) this.#lanes.set(key, (lane = { queue, type, runs: [], head: 0, blocker: null, since: 0 }));
    return lane;
  }
}
