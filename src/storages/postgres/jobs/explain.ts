import { type Before, startsBefore, waitBehind } from "../../../limits/behind.ts";
import type { KeyDecision } from "../../../limits/key-state.ts";
import { chargeOf, type LimitRule, mostOf, valueOf, wallRule } from "../../../limits/rule.ts";
import { NEVER, WHEN_RELEASED } from "../../../limits/wait.ts";
import type { ClaimLimit } from "../../../storage/job-storage.ts";
import type { LimitCondition, StartConditions } from "../../../storage/limit-storage.ts";
import { ruleOfClaim } from "../../../storage/stored-rules.ts";
import type { Database } from "../database.ts";
import { type SeenLimit, SeenKey } from "../limits/seen-key.ts";
import { instantOf } from "../limits/reading.ts";
import { type JobRow, toRecord } from "./record.ts";
import { readWeights } from "../../../storage/kept.ts";
import { type WorkerRow, workerOf, workersFor } from "../../../storage/workers.ts";

/** How a job stands with a limit that is kept, or that a claim brought along. */
type Seen = { readonly seen: SeenLimit; readonly behind: number | null } & (
  | { readonly rule: LimitRule; readonly claim?: never }
  | { readonly claim: ClaimLimit; readonly rule?: never }
);

interface Answer {
  /** By the clock of the storage, which is ahead of the one that the job is shown by. */
  readonly now: number;
  readonly skew: number;
  readonly job: JobRow;
  readonly pauses: readonly string[];
  readonly workers: readonly WorkerRow[];
  readonly ahead: StartConditions["ahead"];
  readonly before: Before;
  /** What the first of its lane weighs, if that is another one. */
  readonly first: { readonly weights: unknown } | null;
  readonly limits: readonly Seen[];
}

type Weights = Readonly<Record<string, number>> | null;

/** Everything that decides when a job can start. */
export async function explain(database: Database, id: string): Promise<StartConditions | undefined> {
  const answer = await database.call<Answer | null>("explain_job", id);
  if (answer === null) return undefined;
  const { ahead, before, first, skew } = answer;
  const pauses = new Set(answer.pauses);
  const now = answer.limits.reduce((latest, { seen }) => Math.max(latest, seen.now), answer.now);
  const job = toRecord(answer.job, now - skew);
  const head = first === null ? undefined : readWeights(first.weights);
  const rules = answer.limits.map((one) => one.rule ?? ruleOfClaim(one.claim));
  const limits = answer.limits.map((one, i): LimitCondition => {
    const rule = rules[i]!;
    const group = valueOf(rule, job);
    const behind = one.behind ?? WHEN_RELEASED;
    const shown = wallRule(rule, skew);
    return conditionOf(
      new SeenKey(rule, group, one.seen, behind),
      shown,
      job.weights,
      head,
      startsBefore(rule, rules, before),
    );
  });
  const workers = workersFor(answer.workers.map(workerOf), job.type);
  const typePaused = pauses.has(`:${job.type}`);
  return { job, now: now - skew, queuePaused: pauses.has(""), typePaused, workers, ahead, limits };
}

/** `shown`: the rule as people see it. */
function conditionOf(
  key: SeenKey,
  shown: LimitRule,
  weights: Weights,
  head: Weights | undefined,
  ahead: number,
): LimitCondition {
  const { rule, group, quota, used, held } = key;
  const charge = chargeOf(rule, weights);
  const ask = (weighs: typeof charge) => key.decideBehind(weighs);
  const own = waitBehind(ahead, rule, group, used, charge, ask);
  const { wait, reason } = head === undefined ? own : later(own, ask(chargeOf(rule, head)));
  const weight = quota.max === null ? charge.slots : charge.weight;
  return {
    rule: shown,
    group,
    weight,
    used,
    held,
    waitMs: instantOf(wait),
    reason,
    most: mostOf(quota, charge) ?? null,
  };
}

/** No job starts before the first of its lane, which may be heavier. A job that never fits ends, and blocks no other. */
function later(own: KeyDecision, first: KeyDecision): KeyDecision {
  return own.wait !== NEVER && first.wait > own.wait ? first : own;
}
