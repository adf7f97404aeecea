import { type Charge, chargeOf } from "../../limits/rule.ts";
import type { Wait } from "../../limits/wait.ts";
import { decideFor, isDrainedBy } from "../../storage/inspected-key.ts";
import { isOver, untilGiven, waitForHeads } from "../../planner/heavy-heads.ts";
import type { Lane, LaneHead, Line } from "./lanes.ts";
import type { MemoryKey } from "./limits/key.ts";
import type { MemoryLimitState } from "./limits/limit-state.ts";

/** The lane that is asked for. */
export interface Asking {
  readonly lane: Lane | undefined;
  /** May the same claim start jobs of this lane? */
  readonly looksAt: (lane: Lane) => boolean;
}

/** Since when the first job of the lane waits for this key as a heavy head; infinity: it does not. */
export const sinceOf = (lane: Lane | undefined, key: MemoryLimitState | undefined): number =>
  lane?.heavy && lane.heavy.by === key ? lane.heavy.since : Number.POSITIVE_INFINITY;

/** The heavy heads of all limit keys (`planner/heavy-heads.ts`). */
export class HeavyHeads {
  readonly #heads = new Map<MemoryLimitState, Set<LaneHead>>();
  #order = 0;

  /**
   * How long a job of this priority waits for heads (of this line alone, if one is given) that come before it; 0: there are none. Without a
   * charge it is as if the heads that the claim may start fitted beside it.
   */
  longest(key: MemoryKey, priority: number, asking?: Asking, charge?: Charge, line?: Line): Wait {
    const { limitState, rule, now } = key;
    const heads = limitState && this.#heads.get(limitState);
    if (limitState === undefined || heads === undefined) return 0;
    const own = asking?.lane;
    for (const head of heads) {
      const { lane, job, returnedAt } = head;
      if (returnedAt !== undefined) {
        const { wait } = decideFor(key, chargeOf(rule, job.weights));
        head.until = untilGiven(head, returnedAt, wait, now);
        head.returnedAt = undefined;
      }
      if (lane !== own && isOver(head, now)) this.drop(lane);
    }
    const since = sinceOf(own, limitState);
    const some = line === undefined ? heads : [...heads].filter(({ lane }) => lane.line === line);
    return waitForHeads(some, { id: own?.id ?? 0, priority, since }, now, {
      mayStart: ({ lane }) => asking?.looksAt(lane) === true,
      isDrained: ({ job }) => charge !== undefined && isDrainedBy(key, chargeOf(rule, job.weights), charge),
    });
  }

  /** The first job of the lane is a heavy head, and fits then. */
  note(lane: Lane, by: MemoryLimitState, until: number): void {
    const { id, priority, heavy: before } = lane;
    const job = lane.first!;
    this.drop(lane);
    const since = before?.job === job && before.by === by ? before.since : (this.#order += 1);
    const head: LaneHead = { id, priority, since, until, lane, by, job, returnedAt: undefined };
    lane.heavy = head;
    const heads = this.#heads.get(by);
    if (heads === undefined) this.#heads.set(by, new Set([head]));
    else heads.add(head);
  }

  /** The first job of the lane is no heavy head any more. */
  drop(lane: Lane): void {
    const { heavy } = lane;
    if (heavy === undefined) return;
    lane.heavy = undefined;
    const heads = this.#heads.get(heavy.by)!;
    heads.delete(heavy);
    if (heads.size === 0) this.#heads.delete(heavy.by);
  }

  /** The queue, or one type of it, was paused: its heads reserve nothing. Answers which keys they had reserved. */
  dropAll(queue: string, type: string | null): ReadonlySet<MemoryLimitState> {
    const reserved = new Set<MemoryLimitState>();
    for (const [by, heads] of this.#heads) {
      for (const { lane } of heads) {
        if (lane.line.queue !== queue || (type !== null && lane.type !== type)) continue;
        this.drop(lane);
        reserved.add(by);
      }
    }
    return reserved;
  }

  /** Something of the limit is returned at this instant. */
  returned(limitState: MemoryLimitState, time: number): void {
    for (const head of this.#heads.get(limitState) ?? []) head.returnedAt ??= time;
  }

  /** The rule of the limit was changed. */
  clear(limitState: MemoryLimitState): void {
    for (const { lane } of this.#heads.get(limitState) ?? []) this.drop(lane);
  }
}
