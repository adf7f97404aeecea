import type { LimitRule } from "./limit-rule.ts";

/** The kind of a change: by a declaration, or by an operator. */
export type LimitChangeKind = "declared" | "changed" | "restored" | "paused" | "resumed" | "removed";

/**
 * The parts of a rule that a change was about: always `quota` and `paused`, of the rest only what differs; of `groups` those
 * that differ, 100 at the most.
 */
export type LimitRulePart = Pick<LimitRule, "quota" | "paused"> & Partial<LimitRule>;

/** Where a change came from, as far as it is known. */
export interface LimitAuthor {
  /** Such as `"worker 0193…"`, `"queue mail"`, `"cli alice"`; null: not known. */
  readonly by: string | null;
  /** Of a declaration: its `owner`; null: it has none. */
  readonly owner: string | null;
  /** Of a declaration: its `version`; null: it has none. */
  readonly version: number | null;
}

/** One change of a shared limit. Plain data: it is kept in the history of the limit, and published as an event. */
export interface LimitChanged extends LimitAuthor {
  readonly limit: string;
  readonly kind: LimitChangeKind;
  /** What was in force before; null: there was no such limit. */
  readonly from: LimitRulePart | null;
  /** What is in force since; null: it was removed. */
  readonly to: LimitRulePart | null;
}

/** A declaration that did not take effect, because the stored limit is newer. */
export interface LimitKept extends LimitAuthor {
  readonly limit: string;
  /** What was declared, where it differs. */
  readonly declared: LimitRulePart;
  /** The stored limit that holds; null: it was removed by a newer version of its owner. */
  readonly kept: LimitRulePart | null;
  /** The version of the stored limit; null: it has none. */
  readonly keptVersion: number | null;
}
