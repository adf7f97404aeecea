import { type ClaimRules, RulesInForce } from "../../../limits/claim-rules.ts";
import type { LimitRule } from "../../../limits/rule.ts";
import type { ClaimRequest } from "../../../storage/job-storage.ts";
import { readStoredRule, ruleInForce, ruleOfClaim, type StoredRule } from "../../../storage/stored-rules.ts";
import type { Statements } from "../driver.ts";

const READ = "SELECT name, stored FROM sluice_rules ORDER BY name";

/** All rules, as they stood when they were read. */
export class RuleBook {
  readonly stored: ReadonlyMap<string, StoredRule>;
  /** In force, by name. */
  readonly byName: ReadonlyMap<string, LimitRule>;
  readonly inForce: readonly LimitRule[];
  readonly #byQueue: RulesInForce;
  /** The names of those under which starts may take slots. */
  readonly withSlots: readonly string[];
  /** Are these all for all groups, and without a breaker? */
  readonly slotsForAll: boolean;
  /** Does a rule break after failures? */
  readonly breaks: boolean;
  /** The names of those for which it matters how heavy jobs are. */
  readonly weighing: readonly string[];

  constructor(stored: ReadonlyMap<string, StoredRule>) {
    this.stored = stored;
    this.byName = new Map(Array.from(stored, ([name, rule]) => [name, ruleInForce(rule)]));
    this.inForce = [...this.byName.values()];
    this.#byQueue = new RulesInForce(this.inForce);
    const withSlots = this.inForce.filter(mayTakeSlots);
    this.withSlots = withSlots.map(({ name }) => name);
    this.slotsForAll = withSlots.every(({ byGroup, breaker }) => !byGroup && breaker === null);
    this.breaks = this.inForce.some(({ breaker }) => breaker !== null);
    this.weighing = this.inForce.filter(({ weight }) => weight !== null).map(({ name }) => name);
  }

  /** What jobs of this queue and type run under. */
  of(queue: string, type: string): readonly LimitRule[] {
    return this.#byQueue.of(queue).of(type);
  }

  /** What the jobs that a claim may take run under: what is kept, and what the claim brings along. */
  forClaim({ queue, types, limits }: ClaimRequest): ClaimRules {
    return this.#byQueue.of(queue).forClaim(types, limits.map(ruleOfClaim));
  }
}

/** May a start take slots of the limit, whatever its group is? */
export function mayTakeSlots({ breaker, quota, groups }: LimitRule): boolean {
  return (
    breaker !== null ||
    quota.concurrency !== null ||
    Object.values(groups).some(({ concurrency }) => concurrency !== undefined && concurrency !== null)
  );
}

/** A rule that cannot be read binds no job. */
export function readRules(statements: Statements): RuleBook {
  const stored = new Map<string, StoredRule>();
  for (const { name, stored: text } of statements.get(READ).all() as { name: string; stored: string }[]) {
    const rule = readStoredRule(text);
    if (rule !== undefined) stored.set(name, rule);
  }
  return new RuleBook(stored);
}
