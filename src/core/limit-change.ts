import type { LimitRule } from "./limit-rule.ts";

/** What a change was: by a declaration, or by hand. */
export type LimitChangeKind = "declared" | "changed" | "restored" | "paused" | "resumed" | "removed";

/**
 * The parts of a rule that a change was about: always `quota` and `paused`, of the rest only what differs; of `groups` those
 * that differ, 100 at the most.
 */
export type LimitRulePart = Pick<LimitRule, "quota" | "paused"> & Partial<LimitRule>;

/** Who said so, as far as it is known. */
export interface LimitAuthor {
  /** Such as `"worker 0193…"`, `"queue mail"`, `"cli alice"`; null: it was not said. */
  readonly by: string | null;
  /** Of a declaration: its `owner`; null: it has none. */
  readonly owner: string | null;
  /** Of a declaration: its `version`; null: it has none. */
  readonly version: number | null;
}

/** One change of a shared limit. Plain data: it is kept as the history of the limit, and told as an event. */
export interface LimitChanged extends LimitAuthor {
  readonly limit: string;
  readonly kind: LimitChangeKind;
  /** What was in force before; null: there was no such limit. */
  readonly from: LimitRulePart | null;
  /** What is in force since; null: it was removed. */
  readonly to: LimitRulePart | null;
}

/** A declaration that did not take effect, because what is stored is newer. */
export interface LimitKept extends LimitAuthor {
  readonly limit: string;
  /** What was declared, where it differs. */
  readonly declared: LimitRulePart;
  /** What holds; null: the limit was removed by a newer version of its owner. */
  readonly kept: LimitRulePart | null;
  /** The version of what holds; null: it has none. */
  readonly keptVersion: number | null;
}
