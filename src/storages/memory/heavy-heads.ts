import { chargeOf, type LimitRule } from "../../limits/rule.ts";
import { NEVER, type Wait } from "../../limits/wait.ts";
import { type MemoryLimitState, decisionOf } from "./limits/limit-state.ts";
import type { JobLane } from "./queues.ts";
import type { StoredJob } from "./stored-job.ts";

/** When the time of a head has come, others wait for so long: whoever claims it is on his way. */
const ON_ITS_WAY_MS = 100;

/** A job that was next in its lane, and did not fit into what was left of a limit. */
interface HeavyHead {
  readonly by: MemoryLimitState;
  readonly job: StoredJob;
  /** Who was refused first. */
  readonly order: number;
  /** When it fits, by the clock of the ledgers; infinity: when something is given back. */
  until: number;
  /** Something was given back since: it may fit earlier. */
  givenAt: number | undefined;
}

/** Who asks, and how it stands with the others. */
export interface Asking {
  readonly priority: number;
  /** The lane that asks. */
  readonly lane: JobLane | undefined;
  /** Whoever asks looks at this lane as well, when its time has come. */
  readonly looksAt: (lane: JobLane) => boolean;
}

/**
 * Heads that wait for a limit since they are too heavy. Nobody takes what they wait for who is not before them: of the same
 * or a lower priority, and not refused earlier. So they start when their time has come, whoever else claims what.
 */
export class HeavyHeads {
  readonly #lanes = new Map<MemoryLimitState, Map<JobLane, HeavyHead>>();
  readonly #heads = new Map<JobLane, HeavyHead>();
  #order = 0;

  /** How long whoever asks has to wait for those that are before him; 0: there are none. */
  longest(limitState: MemoryLimitState, rule: LimitRule, { priority, lane: own, looksAt }: Asking, time: number): Wait {
    const heads = this.#lanes.get(limitState);
    if (heads === undefined) return 0;
    const order = (own === undefined ? undefined : this.#heads.get(own)?.order) ?? Number.POSITIVE_INFINITY;
    let longest: Wait = 0;
    for (const [lane, head] of heads) {
      if (lane === own || lane.priority < priority || (lane.priority === priority && head.order > order)) continue;
      const wait = this.#waitOf(lane, head, rule, looksAt(lane), time);
      if (wait > longest) longest = wait;
    }
    return longest;
  }

  /** The head of the lane fits then. */
  note(lane: JobLane, by: MemoryLimitState, until: number): void {
    const job = lane.first!;
    const before = this.#heads.get(lane);
    this.drop(lane);
    const order = before?.job === job && before.by === by ? before.order : (this.#order += 1);
    const head: HeavyHead = { by, job, order, until, givenAt: undefined };
    this.#heads.set(lane, head);
    const heads = this.#lanes.get(by);
    if (heads === undefined) this.#lanes.set(by, new Map([[lane, head]]));
    else heads.set(lane, head);
  }

  /** What this lane waits for; undefined: its head is not known to be too heavy for anything. */
  waitsFor(lane: JobLane): MemoryLimitState | undefined {
    return this.#heads.get(lane)?.by;
  }

  /** Nobody has to wait for the head of the lane any more. */
  drop(lane: JobLane): void {
    const head = this.#heads.get(lane);
    if (head === undefined) return;
    this.#heads.delete(lane);
    const heads = this.#lanes.get(head.by)!;
    heads.delete(lane);
    if (heads.size === 0) this.#lanes.delete(head.by);
  }

  /** Nothing of the queue, or of one type in it, starts any more. The answer: what its heads had waited for. */
  dropAll(queue: string, type: string | null): ReadonlySet<MemoryLimitState> {
    const waitedFor = new Set<MemoryLimitState>();
    for (const [lane, { by }] of this.#heads) {
      if (lane.line.queue !== queue || (type !== null && lane.type !== type)) continue;
      this.drop(lane);
      waitedFor.add(by);
    }
    return waitedFor;
  }

  /** Something of the limit is given back at this instant. */
  given(limitState: MemoryLimitState, time: number): void {
    for (const head of this.#lanes.get(limitState)?.values() ?? []) head.givenAt ??= time;
  }

  /** The limit is another one. */
  clear(limitState: MemoryLimitState): void {
    for (const lane of this.#lanes.get(limitState)?.keys() ?? []) this.drop(lane);
  }

  #waitOf(lane: JobLane, head: HeavyHead, rule: LimitRule, isLookedAt: boolean, time: number): Wait {
    if (head.givenAt !== undefined) {
      const { by, job, givenAt } = head;
      const { wait } = decisionOf(by, rule, by.group, chargeOf(rule, job.weights), time);
      head.until = wait === 0 || wait === NEVER ? Math.min(head.until, givenAt) : time + wait;
      head.givenAt = undefined;
    }
    if (head.until > time) return head.until - time;
    const left = head.until + ON_ITS_WAY_MS - time;
    if (left <= 0) this.drop(lane);
    return isLookedAt ? 0 : Math.max(0, left);
  }
}
