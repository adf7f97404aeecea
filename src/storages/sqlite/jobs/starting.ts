import type { JobRecord } from "../../../core/job.ts";
import type { Grant } from "../../../storage/grants.ts";
import type { ClaimRequest } from "../../../storage/job-storage.ts";
import { neverFits } from "../../../storage/stored-rules.ts";
import { isAnyBehind, openBehind } from "../limits/gates.ts";
import { grantOf } from "../limits/grants.ts";
import { chargeStarts } from "../limits/job-charges.ts";
import { hasReleased } from "../limits/release.ts";
import type { Step } from "../step.ts";
import { endUnstarted } from "./ended.ts";
import type { ClaimLanes, Refused } from "./claim-lanes.ts";
import { emptyAfter, HEAD, LaneMoves, LOOK_AT_FIRST, MANY, recount, type Served, writeServed } from "./lanes.ts";
import { type JobRow, toRecord } from "./record.ts";

const STARTED = "state = 'active', attempt = attempt + 1, started_at = ?, lease_until = ?, worker = ?";
const START = `UPDATE sluice_jobs SET ${STARTED}, limits = ?, token = ? WHERE seq = ?`;
// The same for a list of jobs, each with a token of its own. OR FAIL, here and elsewhere: SQLite keeps a copy of every page that a statement
// for many rows changes, in case it fails in the middle. A step that fails is rolled back as a whole, so nothing needs the copy.
const START_MANY = `UPDATE OR FAIL sluice_jobs SET ${STARTED}, limits = ?, token = ? + picked.key FROM json_each(?) AS picked
  WHERE sluice_jobs.seq = picked.value`;
// The same for a list of [job, what it was charged].
const START_CHARGED = `UPDATE OR FAIL sluice_jobs SET ${STARTED}, limits = picked.value ->> 1, token = ? + picked.key
  FROM json_each(?) AS picked WHERE sluice_jobs.seq = picked.value ->> 0`;
// A lane at another gate than before, and one with keys.
const MOVED = `UPDATE sluice_lanes SET turn = ?, waiting = waiting - ?, served = ?, ${emptyAfter("?")}, gate = ?`;
const MOVED_ONE = `${MOVED} WHERE id = ?`;
const KEYED = `${MOVED}, ${HEAD} WHERE id = ?`;
const WEIGHED = "UPDATE sluice_lanes SET heavy = ?, heavy_since = ? WHERE id = ?";
const LATEST = `SELECT max(one.heavy_since) AS since FROM sluice_gates AS gate CROSS JOIN sluice_lanes AS one ON one.id = gate.front
  WHERE gate.name = ? AND gate.grp = ? AND gate.front > 0`;

/** Distinguishes heads that a key refused at one instant. */
const NEXT_MS = 0.001;

/** Jobs that have started, and what of that is to be confirmed. */
export interface Started {
  readonly jobs: readonly JobRecord[];
  readonly grant: Grant | undefined;
}

/** Writes down what a claim has planned. Answers with the jobs that have started. */
export function writeDown(step: Step, request: ClaimRequest, plan: ClaimLanes): Started {
  const started = plan.started.length === 0 ? { jobs: [], grant: undefined } : start(step, request, plan);
  if (plan.refused.length > 0) endRefused(step, plan.refused);
  for (const reserved of plan.unreserved) letOthersLook(step, reserved, plan);
  writeLanes(step, plan);
  for (const { id } of plan.miscounted) recount(step, id);
  return started;
}

function start(step: Step, request: ClaimRequest, { started }: ClaimLanes): Started {
  const { grantTtlMs } = request;
  const first = step.numbers(started.length);
  const charges = started.map((one) => one.charges);
  const charged = chargeStarts(step, charges, first, grantTtlMs);
  const rows = started.map(({ row }) => row);
  const jobs = startJobs(step, request, rows, charged, first);
  return { jobs, grant: grantTtlMs === undefined ? undefined : grantOf(first, new Set(charges.flat())) };
}

/** Jobs are active from now on. `charged`: what is kept of their charges (`chargeStarts`), if anything is; `first`: the token of the first. */
export function startJobs(
  step: Step,
  { worker, leaseMs }: ClaimRequest,
  rows: readonly JobRow[],
  charged: readonly (string | null)[],
  first: number,
): JobRecord[] {
  const { now } = step;
  const leaseUntil = now + leaseMs;
  const seqs = rows.map(({ seq }) => seq);
  if (seqs.length < MANY) {
    for (const [i, seq] of seqs.entries())
      step.sql(START).run(now, leaseUntil, worker, charged[i] ?? null, first + i, seq);
  } else if (charged.every((text) => text === charged[0])) {
    step.sql(START_MANY).run(now, leaseUntil, worker, charged[0] ?? null, first, JSON.stringify(seqs));
  } else {
    const list = JSON.stringify(seqs.map((seq, i) => [seq, charged[i]]));
    step.sql(START_CHARGED).run(now, leaseUntil, worker, first, list);
  }
  return rows.map((row, i) => {
    const { queue, id, type, attempt } = row;
    if (step.eventsWanted) step.event({ event: "started", queue, id, type, attempt: attempt + 1, worker });
    return toRecord(row, step.skew, { worker, startedAt: now, leaseUntil, token: first + i });
  });
}

/** Lanes that had their turn, or stand somewhere else; and the gates. */
function writeLanes(step: Step, plan: ClaimLanes): void {
  const { gates, written, queue } = plan;
  for (const lane of gates.sendHome()) written.add(lane);
  for (const lane of plan.stale) written.add(lane);
  gates.writeClosed(step, queue);
  const plain: Served[] = [];
  for (const lane of written) {
    const { id, turn, gave, gate, turned, unit } = lane;
    const served = turned ? unit!.served : lane.served;
    if (lane.keyed || lane.moved) {
      step.sql(lane.keyed ? KEYED : MOVED_ONE).run(turn, gave, served, gave, step.now, gate?.id ?? null, id);
    } else plain.push([id, turn, gave, served]);
  }
  writeServed(step, plain);
  for (const { id, many, gave } of written) if (many && gave > 0) step.sql(LOOK_AT_FIRST).run(id);
  writeHeads(step, plan.weighed);
  gates.writeRanks(step);
}

/** The heads that have become too heavy, or are so no more. Of one key each is refused later than those before it, at one instant too. */
function writeHeads(step: Step, weighed: ClaimLanes["weighed"]): void {
  const latest = new Map<string, number>();
  for (const [{ id, gate }, heavy] of weighed) {
    let since: number | null = null;
    if (heavy !== null && gate !== undefined) {
      const { name, grp } = gate;
      const key = `${name.length} ${name}${grp}`;
      const before =
        latest.get(key) ?? (step.sql(LATEST).get(name, grp) as { readonly since: number | null }).since ?? 0;
      since = Math.max(step.now, before + NEXT_MS);
      latest.set(key, since);
    }
    step.sql(WEIGHED).run(heavy, since, id);
  }
}

/** Lanes that waited only for a head which reserves nothing any more are looked at again, and workers are woken up. */
function letOthersLook(
  step: Step,
  { name, grp }: { readonly name: string; readonly grp: string },
  plan: ClaimLanes,
): void {
  // The step may have opened their gates before, and the head takes what the step has returned: workers have to look again all the same.
  if (isAnyBehind(step, name, grp) || hasReleased(step, name, grp)) step.wakesAll = true;
  plan.letLook(openBehind(step, name, grp));
}

/** That is no attempt. */
function endRefused(step: Step, refused: readonly Refused[]): void {
  const lanes = new LaneMoves(step, false);
  for (const { row, decision } of refused) {
    const { seq, queue, id, type, attempt } = row;
    const { by, charge } = decision;
    const error = neverFits(by, by.rule.quota.max === null ? charge.slots : charge.weight);
    endUnstarted(step, seq, error);
    lanes.leave(row.lane!);
    step.event({ event: "dead", queue, id, type, attempt, error });
  }
  lanes.write();
}
