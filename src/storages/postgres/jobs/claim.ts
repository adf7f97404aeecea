import type { JobRecord } from "../../../core/job.ts";
import type { Claim, ClaimRequest, Outcome } from "../../../storage/job-storage.ts";
import { STEP_BYTES } from "../../../storage/step-bytes.ts";
import type { Database, Steps } from "../database.ts";
import { confirmed, type GrantRow } from "../grants.ts";
import { type Outcomes, outcomesOf } from "./outcomes.ts";
import type { ProposalText } from "./proposal.ts";
import { type JobRow, toRecord } from "./record.ts";
import type { Snapshot } from "./snapshot.ts";
import { startedRecords, type StartedJobs } from "./started.ts";

interface Answer extends Pick<Claim, "more" | "nextInMs" | "blockedBy"> {
  /** Of a claim that is said again, one row for each. */
  readonly jobs: readonly JobRow[] | StartedJobs;
  readonly stale: readonly number[];
  readonly grant?: GrantRow | null;
  readonly others?: number | null;
  /** Where lanes are needed: what the next plan, and what comes after the claim, is made from. */
  readonly snapshot?: Snapshot | null;
  /** With it: in so long it is looked for jobs before cursors; a due job is locked by another transaction. */
  readonly lookIn?: number | null;
  readonly stuck?: boolean;
}

/** The answer, and the jobs to be settled whose lease was lost. */
export interface Asked extends Answer {
  readonly lost: readonly string[];
}

/**
 * Settles and confirms, then takes jobs and charges their limits, together. `plan`: what is to be taken where lanes are needed. `claimant`:
 * whose claim it is part of (`limits/starved.ts`).
 */
export async function ask(
  database: Database,
  request: ClaimRequest,
  plan: ProposalText,
  claimant: string | undefined,
): Promise<Asked> {
  const {
    queue,
    worker,
    max,
    prefetch,
    maxBytes = STEP_BYTES,
    types,
    leaseMs,
    limits,
    grantTtlMs,
    confirm = [],
  } = request;
  const settled = outcomesOf(request.settle);
  // If the answer gets lost, the jobs that were started are known by it, and by the worker.
  const number = database.nextNumber();
  const text = JSON.stringify({
    claim: number,
    queue,
    worker,
    max: Math.min(max, MOST),
    prefetch: prefetch === undefined ? undefined : Math.min(prefetch, MOST - Math.min(max, MOST)),
    bytes: maxBytes,
    types,
    lease_ms: leaseMs,
    limits: limits.map(({ key, max: most, windowMs }) => ({ key, max: most, windowMs })),
    ...settling(settled),
    grant_ttl: grantTtlMs,
    ...confirmed(confirm),
    claimant,
    plan,
  });
  const answer = await database.once<Answer>("claim", [text], {
    as: "itself",
    number,
    undo: (steps) => giveBack(steps, number, worker),
  });
  return { ...answer, lost: settled.stale(answer.stale) };
}

interface Claimed {
  readonly leases: readonly (readonly [id: string, token: number])[];
  readonly grant: GrantRow | null;
}

/** No worker has received what the claim of this number has started: no handler was called, so no attempt is spent. */
async function giveBack(steps: Steps, number: string, worker: string): Promise<void> {
  const { leases, grant } = await steps.call<Claimed>("claimed_by", number, worker);
  const { text } = outcomesOf(leases.map(([id, token]): Outcome => ({ id, token, ...UNSTARTED })));
  if (grant !== null) await steps.call("confirm", JSON.stringify({ grants: [grant[0]], called: [0] }));
  if (leases.length > 0) await steps.call("settle", JSON.stringify(text));
  // Of some the leases may have run out before that.
  await steps.call("unspend_claim", number);
}

const UNSTARTED = { to: "back", inMs: 0, held: false, error: null, hold: null, unstarted: true } as const;

/** No claim takes more than this at once. */
const MOST = 10_000;

/** What is to be settled, if anything. */
const settling = ({ text }: Outcomes): object =>
  "ids" in text ? text : { settle: text.length > 0 ? text : undefined };

export function recordsOf(jobs: readonly JobRow[] | StartedJobs, request: ClaimRequest): JobRecord[] {
  return typeof jobs[0] === "number"
    ? startedRecords(jobs as StartedJobs, request)
    : (jobs as readonly JobRow[]).map((row) => toRecord(row));
}
