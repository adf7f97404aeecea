import { startsBefore } from "../../../limits/behind.ts";
import { type LimitRule, valueOf } from "../../../limits/rule.ts";
import { WHEN_RELEASED } from "../../../limits/wait.ts";
import { limitConditionOf } from "../../../storage/inspected-key.ts";
import type { ClaimLimit } from "../../../storage/job-storage.ts";
import { readWeights } from "../../../storage/kept.ts";
import type { LimitCondition, StartConditions } from "../../../storage/limit-storage.ts";
import { ruleOfClaim } from "../../../storage/stored-rules.ts";
import { type WorkerRow, workerOf, workersFor } from "../../../storage/workers.ts";
import { NO_POSITION, positionOf } from "../../../planner/position.ts";
import type { Database } from "../database.ts";
import { type KeptState, keptKey } from "../limits/kept-key.ts";
import { type JobRow, toRecord } from "./record.ts";

/** A limit that is kept, or that a claim brought along; `behind`: the wait for heavy heads, null: until something is given back. */
type Waited = { readonly state: KeptState; readonly behind: number | null } & (
  | { readonly rule: LimitRule; readonly claim?: never }
  | { readonly claim: ClaimLimit; readonly rule?: never }
);

/** What waits around a job, as `surroundings_of` tells it. */
interface Around {
  readonly higher: number;
  readonly higherOfType: number;
  readonly own: readonly (readonly [turn: number, id: number, before: number, isOwn: boolean])[];
  readonly others: readonly (readonly [turn: number, id: number, waiting: number, isMixed: boolean])[];
}

interface Answer {
  /** By the clock of the storage, which is ahead of the one that the job is shown by. */
  readonly now: number;
  readonly skew: number;
  readonly job: JobRow;
  readonly pauses: readonly string[];
  readonly workers: readonly WorkerRow[];
  /** null: the job neither waits nor will. */
  readonly around: Around | null;
  /** What the first of its lane weighs, if that is another one. */
  readonly first: { readonly weights: unknown } | null;
  readonly limits: readonly Waited[];
}

/** Everything that decides when a job can start. */
export async function explain(database: Database, id: string): Promise<StartConditions | undefined> {
  const answer = await database.call<Answer | null>("explain_job", id);
  if (answer === null) return undefined;
  const { around, skew } = answer;
  const pauses = new Set(answer.pauses);
  const now = answer.limits.reduce((latest, { state }) => Math.max(latest, state.now), answer.now);
  const job = toRecord(answer.job, now - skew);
  const first = answer.first === null ? undefined : readWeights(answer.first.weights);
  const position = around === null ? NO_POSITION : positionIn(around);
  const rules = answer.limits.map((one) => one.rule ?? ruleOfClaim(one.claim));
  const limits = answer.limits.map(({ state, behind }, i): LimitCondition => {
    const rule = rules[i]!;
    const before = startsBefore(rule, rules, position.before);
    const key = keptKey(rule, valueOf(rule, job), state);
    return limitConditionOf(key, { weights: job.weights, first, before, behind: behind ?? WHEN_RELEASED }, skew);
  });
  const workers = workersFor(answer.workers.map(workerOf), job.type);
  const typePaused = pauses.has(`:${job.type}`);
  return { job, now: now - skew, queuePaused: pauses.has(""), typePaused, workers, ahead: position.ahead, limits };
}

function positionIn({ higher, higherOfType, own, others }: Around) {
  return positionOf({
    higher,
    higherOfType,
    own: own.map(([turn, laneId, before, isOwn]) => ({ turn, id: laneId, before, isOwn })),
    others: others.map(([turn, laneId, waiting, isMixed]) => ({ turn, id: laneId, waiting, isMixed })),
  });
}
