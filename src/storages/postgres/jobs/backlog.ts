import type { ClaimLimit } from "../../../storage/job-storage.ts";
import type { Backlog, LimitState, TypeBacklog } from "../../../storage/limit-storage.ts";
import type { Waiting } from "../../../storage/inspected-key.ts";
import { originOf, originOfClaim, ruleInForce, ruleOfClaim } from "../../../storage/stored-rules.ts";
import { type WorkerRecord, type WorkerRow, workerOf, workersFor } from "../../../storage/workers.ts";
import type { Database } from "../database.ts";
import { byName, type KeptStates, stateOf } from "../limits/reading.ts";
import { isStoredRule } from "../limits/rule-book.ts";

/** A limit that is kept, or that a claim brought along. */
type Kept = KeptStates & { readonly stored?: unknown; readonly claim?: ClaimLimit };

interface Answer {
  readonly skew: number;
  readonly pauses: readonly string[];
  readonly types: readonly Omit<TypeBacklog, "paused" | "workers">[];
  readonly workers: readonly WorkerRow[];
  readonly waiting: readonly Waiting[];
  readonly limits: readonly Kept[];
}

/** What of a queue has not started. */
export async function backlog(database: Database, queue: string): Promise<Backlog> {
  const { skew, pauses, types, workers, waiting, limits } = await database.call<Answer>("read_backlog", queue);
  const paused = new Set(pauses);
  const live = workers.map(workerOf);
  // A claim speaks for its own queue.
  const own = waiting.filter((one) => one.queue === queue);
  return {
    queue,
    paused: paused.has(""),
    types: types.map((one) => typeOf(one, paused, live)).toSorted((a, b) => (a.type < b.type ? -1 : 1)),
    limits: limits.flatMap((kept) => limitOf(kept, waiting, own, skew)).toSorted(byName),
  };
}

function typeOf(
  seen: Answer["types"][number],
  paused: ReadonlySet<string>,
  live: readonly WorkerRecord[],
): TypeBacklog {
  return { ...seen, paused: paused.has(`:${seen.type}`), workers: workersFor(live, seen.type).handling };
}

function limitOf(kept: Kept, waiting: readonly Waiting[], own: readonly Waiting[], skew: number): LimitState[] {
  if (kept.claim !== undefined) {
    const rule = ruleOfClaim(kept.claim);
    return [stateOf(rule, originOfClaim(rule), kept, own, skew)];
  }
  const { stored } = kept;
  return isStoredRule(stored) ? [stateOf(ruleInForce(stored), originOf(stored), kept, waiting, skew)] : [];
}
