import type { Clock } from "../../core/clock.ts";
import type { JobState } from "../../core/job.ts";
import type { LimitRule } from "../../limits/rule.ts";
import { LOCAL } from "../../storage/rate-limiter-storage.ts";
import { Subscribers } from "../../storage/subscribers.ts";
import { Gates } from "./gates.ts";
import { Heap, NOWHERE } from "./heap.ts";
import { HeavyHeads } from "./heavy-heads.ts";
import type { Deadline, Lane, Line, StoredJob, Turn } from "./lanes.ts";
import { Freed } from "./limits/freed.ts";
import { Grants } from "./limits/grants.ts";
import { LimitBook } from "./limits/limit-book.ts";
import { Permits } from "./limits/permits.ts";
import type { MemoryLimitState } from "./limits/limit-state.ts";
import { type Key, MemoryQueue } from "./queues.ts";
import { InMemoryRateLimiterStorage } from "./rate-limiter-storage.ts";
import { Sequence } from "./sequence.ts";
import { NO_CHARGES } from "./stored-job.ts";
import { Workers } from "./workers.ts";

const DAY_MS = 86_400_000;

/** A smaller change of the wall clock is rounding or a small correction: the clock was not set. */
const STEP_MS = 250;

/** The clock of the storage counts in these parts of a millisecond. */
const PARTS = 1_024;

/** How long an ended job without `keepFor` is kept. */
const KEPT_MS: Readonly<Record<"completed" | "dead" | "cancelled", number>> = {
  completed: DAY_MS,
  cancelled: DAY_MS,
  dead: 30 * DAY_MS,
};

/**
 * All data of the storage, and the moves of a job from one state to another. The callers of these moves charge its limits and release
 * them.
 *
 * A job is in exactly one place: in a lane (`waiting`), in the heap of its line (`scheduled`), in `leases`
 * (`active`) or in `ended`. Each move updates the counts and the deadlines.
 */
export class Book {
  readonly rates: InMemoryRateLimiterStorage;
  readonly limits: LimitBook;
  readonly gates = new Gates();
  readonly heavy = new HeavyHeads();
  readonly freed = new Freed();
  readonly permits = new Permits();
  readonly grants = new Grants();
  readonly subscribers = new Subscribers();
  readonly workers = new Workers();
  readonly jobs = new Map<string, StoredJob>();
  readonly queues = new Map<string, MemoryQueue>();
  /** Active jobs, the lease that expires first in front. */
  readonly leases = new Sequence<StoredJob>((a, b) => a.leaseUntil! - b.leaseUntil! || a.token - b.token);
  /** Jobs that ended, the one to be deleted first in front. */
  readonly ended = new Heap<StoredJob>((a, b) => a.deleteAt - b.deleteAt || a.seq - b.seq);
  readonly deadlines = new Heap<Deadline>((a, b) => a.at - b.at || a.job.seq - b.job.seq);
  readonly keys = new Heap<Key>((a, b) => a.expiresAt - b.expiresAt);
  /** Lanes without jobs, the longest empty first. */
  readonly idle = new Set<Lane>();
  #seq = 0;
  #lanes = 0;
  #turn = 0;
  #token = 0;
  readonly #clock: Clock;
  /** The wall time at which the monotonic clock was 0. A whole number, so that differences between instants are those of the clock. */
  readonly #origin: number;
  #skew = 0;
  /** The book notifies the waiters of rates: they are not to notify it in turn. */
  #notifying = false;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#origin = Math.round(clock.wall() - clock.now());
    this.rates = new InMemoryRateLimiterStorage({ clock });
    this.limits = new LimitBook(this.rates[LOCAL].state, (limitState) => this.#becameAvailable(limitState));
  }

  /**
   * Milliseconds since 1970, not changed when the wall clock is set. Rounded down to what a number of this size can hold, so
   * that no decision is made too early.
   */
  now(): number {
    const now = this.#origin + Math.floor(this.#clock.now() * PARTS) / PARTS;
    const skew = now - this.#clock.wall();
    if (Math.abs(skew - this.#skew) > STEP_MS) this.#follow(Math.round(skew));
    return now;
  }

  /** How far the clock of the storage is ahead of the wall clock. Instants that users give and see are those of the wall clock. */
  get skew(): number {
    return this.#skew;
  }

  /** The same for the clock of the limits. */
  get limitSkew(): number {
    return this.limitTime(this.#skew);
  }

  /** The wall clock was set: instants that users gave move with it. */
  #follow(skew: number): void {
    this.#skew = skew;
    for (const queue of this.queues.values()) {
      let moved = false;
      for (const { scheduled } of queue.lines.values()) {
        for (const job of scheduled) {
          if (job.dueWall === null) continue;
          job.dueAt = job.dueWall + skew;
          moved = true;
        }
        scheduled.reorder();
      }
      if (moved) this.subscribers.wake(queue.name, true);
    }
    for (const deadline of this.deadlines) {
      const { job } = deadline;
      if (job.deadlineWall !== null) job.deadline = deadline.at = job.deadlineWall + skew;
    }
    this.deadlines.reorder();
  }

  /** How long until `now()` is so long after that instant. Not added to it: what is lost in a number of that size is a wait of 0. */
  timeUntil(instant: number, ms: number): number {
    return Math.max(0, Math.ceil((this.limitTime(instant) + ms) * PARTS) / PARTS - this.#clock.now());
  }

  /** Now, by the clock of the limits, not rounded. */
  limitNow(): number {
    return this.#clock.now();
  }

  /** The same instant by the clock of the limits. */
  limitTime(instant: number): number {
    return instant - this.#origin;
  }

  nextSeq(): number {
    return (this.#seq += 1);
  }

  queue(name: string): MemoryQueue {
    let queue = this.queues.get(name);
    if (queue === undefined) this.queues.set(name, (queue = new MemoryQueue(name)));
    return queue;
  }

  /** Puts a job that is in no place into its lane if it is due, else among the scheduled ones, and wakes workers up. */
  enter(job: StoredJob, now: number): void {
    const line = this.queue(job.queue).line(job.type);
    // Jobs that came due before it go first: then almost every job joins its lane at the end.
    this.promote(line, now);
    if (job.dueAt > now) {
      become(job, "scheduled");
      line.scheduled.add(job);
      // The limit or pause that blocks the lane: jobs of the type that come due later wake up no worker.
      this.subscribers.wake(job.queue, line.scheduled.first === job);
    } else {
      const lane = this.#wait(job, line);
      // The first job now may be lighter than the one before.
      const mayStart = lane.waiting === 1 || (lane.first === job && this.limits.weighs);
      if (lane.gate!.isOpen) this.subscribers.wake(job.queue, mayStart);
    }
    if (job.deadlineWall !== null) job.deadline = job.deadlineWall + this.#skew;
    if (job.deadline !== null) {
      job.watched = { at: job.deadline, job, slot: NOWHERE };
      this.deadlines.add(job.watched);
    }
  }

  /** Removes a job that has not started from its lane, or from the scheduled ones. */
  withdraw(job: StoredJob, now: number): void {
    // As a heavy head it may have kept other jobs waiting.
    if (this.limits.weighs && job.lane?.first === job) this.subscribers.wakeAll(true);
    this.#leave(job, now);
  }

  #leave(job: StoredJob, now: number): void {
    const { lane } = job;
    if (lane !== undefined) {
      // Other lanes may wait only because this job does.
      const wasFirst = lane.first === job;
      if (wasFirst) this.#lookBehind(lane);
      lane.remove(job);
      if (lane.waiting === 0) {
        lane.line.leave(lane);
        lane.emptySince = now;
        this.idle.add(lane);
      } else if (wasFirst) {
        stepBack(lane);
      }
    } else if (job.state === "scheduled") {
      const { lines } = this.queue(job.queue);
      const line = lines.get(job.type)!;
      line.scheduled.remove(job);
      if (line.vacant) lines.delete(job.type);
    }
    if (job.watched !== undefined) {
      this.deadlines.remove(job.watched);
      job.watched = undefined;
    }
  }

  /** Moves the scheduled jobs of the line that have come due into their lanes. */
  promote(line: Line, now: number): void {
    for (let job = line.scheduled.first; job !== undefined && job.dueAt <= now; job = line.scheduled.first) {
      line.scheduled.remove(job);
      takeOldPlace(job);
      job.dueWall = null;
      this.#wait(job, line);
    }
  }

  promoteAll(queue: MemoryQueue, now: number): void {
    for (const line of queue.lines.values()) this.promote(line, now);
  }

  /** Starts the first job of the lane. The unit has had its turn with these types once it has started as many jobs as its share is. */
  start(lane: Lane, turns: readonly Turn[], share: number, worker: string, leaseMs: number, now: number): StoredJob {
    const job = lane.first!;
    this.#leave(job, now);
    lane.unit.started += 1;
    if (lane.unit.started >= share) {
      lane.unit.started = 0;
      this.#turnOf(lane, turns);
    }
    become(job, "active");
    job.attempt += 1;
    job.startedAt = now;
    job.worker = worker;
    job.leaseUntil = now + leaseMs;
    job.token = this.#token += 1;
    this.leases.add(job);
    return job;
  }

  #turnOf({ own, line, priority }: Lane, turns: readonly Turn[]): void {
    // Without groups there are no turns: lanes with different keys are served in the order of their jobs.
    if (own.lanes.length > 1 && this.queue(line.queue).isUngrouped(priority)) return;
    this.#turn += 1;
    for (const turn of turns) {
      turn.at = this.#turn;
      // Where there are many lanes, a claim moves each one when it looks at it (`Line.first`).
      if (turn.lanes.length === 1) turn.lanes[0]!.gate?.moved(turn.lanes[0]!);
    }
  }

  /** Ends the lease. The job is in no place: it enters again, or ends. */
  release(job: StoredJob): void {
    this.leases.remove(job);
    job.leaseUntil = null;
    job.charges = NO_CHARGES;
  }

  end(job: StoredJob, state: "completed" | "dead" | "cancelled", now: number): void {
    become(job, state);
    job.finishedAt = now;
    if (state === "completed" && job.keepFor === 0) {
      this.#forget(job);
    } else {
      job.deleteAt = now + (job.keepFor ?? KEPT_MS[state]);
      this.ended.add(job);
    }
  }

  /** Takes a job out of `ended`, to enter again. */
  reopen(job: StoredJob): void {
    this.ended.remove(job);
    job.finishedAt = null;
  }

  /** Deletes a job that is not active. */
  delete(job: StoredJob, now: number): void {
    if (job.finishedAt === null) this.withdraw(job, now);
    else this.ended.remove(job);
    this.#forget(job);
  }

  setPaused(name: string, type: string | null, paused: boolean): void {
    const queue = this.queue(name);
    if (type === null) queue.paused = paused;
    else if (paused) queue.pausedTypes.add(type);
    else queue.pausedTypes.delete(type);
    if (paused) {
      const freed = this.heavy.dropAll(name, type);
      for (const limitState of freed) this.gates.openAll(limitState);
      if (freed.size > 0) this.subscribers.wakeAll(true);
      return;
    }
    if (queue.vacant) this.queues.delete(name);
    this.subscribers.wake(name, true);
  }

  /** The step is about to return something of a limit: workers that wait for it are woken up when the step is over. */
  loosen(limitState: MemoryLimitState, rule: LimitRule, time: number): void {
    this.freed.note(limitState, this.limits.rule(limitState.name) ?? rule, time);
    this.heavy.returned(limitState, time);
    this.gates.openAll(limitState);
  }

  /** The step is over: subscribers are notified. */
  notify(): void {
    if (this.freed.any) this.#notifyFreed();
    this.subscribers.notify();
  }

  #notifyFreed(): void {
    this.#notifying = true;
    try {
      for (const { wakeUps } of this.freed.rates()) wakeUps.notify();
    } finally {
      this.#notifying = false;
    }
    if (this.freed.wakesWaiters((name) => this.limits.rule(name))) this.subscribers.wakeAll(true);
  }

  /** Something of a limit was returned through `rates`. */
  #becameAvailable(limitState: MemoryLimitState): void {
    if (this.#notifying || !limitState.awaited) return;
    limitState.wokeUp();
    this.subscribers.wakeAll(true);
    this.subscribers.notify();
  }

  #wait(job: StoredJob, line: Line): Lane {
    const lane =
      line.lane(job.priority, job.group, job.keys) ?? this.queue(line.queue).openLane((this.#lanes += 1), line, job);
    lane.put(job);
    if (lane.waiting === 1) {
      line.enter(lane);
      this.idle.delete(lane);
    } else if (lane.first === job) {
      if (lane.heavy) this.subscribers.wakeAll(true);
      this.#lookBehind(lane);
      stepBack(lane);
    }
    become(job, "waiting");
    return lane;
  }

  /** The lane is about to have another first job, or none: other lanes may have waited only because of the one before. */
  #lookBehind(lane: Lane): void {
    const { heavy } = lane;
    this.heavy.drop(lane);
    const { key, isOpen } = lane.gate!;
    // The gate of a heavy head may be open again, and those of lanes behind it closed.
    if (key !== undefined && (!isOpen || heavy !== undefined)) this.gates.openAll(key);
  }

  #forget(job: StoredJob): void {
    this.queue(job.queue).remove(job);
    this.jobs.delete(job.id);
  }
}

/** The lane has another first job: it moves to where that job belongs, and leaves the front gate of the one before. */
function stepBack(lane: Lane): void {
  if (lane.gate!.front) lane.line.move(lane, undefined, false);
  else if (lane.own.lanes.length > 1) lane.gate!.moved(lane);
}

/** The back-off is over: the job takes its old place. */
export function takeOldPlace(job: StoredJob): void {
  job.dueAt = job.firstDueAt ?? job.dueAt;
  job.firstDueAt = undefined;
}

function become(job: StoredJob, state: JobState): void {
  if (job.state === state) return;
  job.counts[job.state] -= 1;
  job.counts[state] += 1;
  job.state = state;
}
