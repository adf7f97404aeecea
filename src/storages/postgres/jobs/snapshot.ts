import type { LimitRule } from "../../../limits/rule.ts";

/** What a plan is made from (sql/snapshot.sql). Instants are by the clock of the storage. */
export interface Snapshot {
  readonly now: number;
  /** The number of the rules; and, where they are others than the client knew, those of the queue. */
  readonly epoch: number;
  readonly rules: readonly LimitRule[] | null;
  /** At most so many ready lanes of each type, and so many heads of each lane, are in it. */
  readonly page: number;
  readonly each: number;
  /** Types and priorities whose lanes take no turns: they differ only in their keys, and there are no groups. */
  readonly unturned: readonly (readonly [type: string, priority: number])[] | null;
  /** The types that may start, and those of the queue that are paused. */
  readonly types: readonly string[];
  readonly paused: readonly string[] | null;
  readonly lanes: readonly LaneRow[];
  /** Of each type that has some: its ready lanes, in the order of their turns. */
  readonly lines: readonly (readonly [type: string, lanes: readonly number[]])[];
  /** Of limits that may refuse something of the plan; the others leave as much as a claim may start. */
  readonly states: readonly LimitStateRow[];
  readonly heavy: readonly HeavyRow[];
  /** Of each type what is blocked and may go on first: the limit and its state. */
  readonly blocked: readonly (readonly [type: string, grp: string, by: string, until: number])[];
  /** The scheduled jobs that come due first. */
  readonly due: readonly (readonly [type: string, at: number])[];
  /** Another transaction has something that might start. */
  readonly busy: boolean;
  /** The lanes of the plan in which other transactions have jobs, and too few are left. */
  readonly stuck: readonly number[];
  /** Something of the plan that it answers was done; not all of it was. */
  readonly changed: boolean;
  readonly again: boolean;
  /** Some arrivals are not folded into lanes yet. */
  readonly outside: boolean;
}

export type LaneRow = readonly [
  id: number,
  type: string,
  priority: number,
  group: string | null,
  turn: number,
  served: number,
  heavy: number | null,
  heavyBy: string | null,
  heavySince: number | null,
  /** The first jobs, of a lane that is ready, or comes due soon. */
  heads: readonly HeadRow[] | null,
  blockedUntil: number | null,
  keys: string | null,
  /** The first of the lanes that differ only in their keys. */
  own: number,
  /** The state of the limit that it waited for last. */
  heavyGrp: string | null,
];

export type HeadRow = readonly [dueAt: number, seq: number, bytes: number, weights: unknown];

/** A head that is too heavy for what is left of a limit, and the state of the limit. */
export type HeavyRow = readonly [
  limit: string,
  grp: string,
  lane: number,
  priority: number,
  until: number,
  since: number,
];

/** What is stored of a limit, for one group or for all, as one window looks at it. */
export type LimitStateRow = readonly [
  name: string,
  grp: string,
  windowMs: number | null,
  used: number | null,
  slots: number | null,
  probes: number | null,
  expiresIn: number | null,
  latestAt: number | null,
  calledAt: number | null,
  calledBy: number | null,
  calledIn: number | null,
  heldUntil: number | null,
  remaining: number | null,
  remainingUntil: number | null,
  openUntil: number | null,
  forgottenAt: number | null,
  leaving: readonly (readonly [wait: number, n: number])[] | null,
  delay: number | null,
  /** A release of slots wakes up waiters already, or there are no slots. */
  awaited: boolean,
  /** It is known that this claimant waits, or there are no slots. */
  starved: boolean,
  /** For how long others have waited for slots. */
  othersWaitMs: number | null,
];
