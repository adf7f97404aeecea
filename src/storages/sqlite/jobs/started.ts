import type { JobRecord } from "../../../core/job.ts";
import type { Grant } from "../../../storage/grants.ts";
import type { ClaimRequest } from "../../../storage/job-storage.ts";
import { neverFits } from "../../../storage/stored-rules.ts";
import { openBehind } from "../limits/gates.ts";
import { grantOf } from "../limits/grants.ts";
import { takeLimits } from "../limits/taking.ts";
import type { Step } from "../step.ts";
import { KEPT_MS } from "./ended.ts";
import type { ClaimLanes, Refused } from "./claim-lanes.ts";
import { emptyAfter, HEAD, LaneMoves, LOOK_AT_FIRST, recount } from "./lanes.ts";
import { toRecord } from "./record.ts";

// One statement for all, each with a token of its own: a list of [number of the job, what it took], or of numbers alone. (OR FAIL: claim.ts.)
const STARTED = `state = 'active', attempt = attempt + 1, started_at = ?, lease_until = ?, worker = ?,
  token = ? + picked.key`;
const START = `UPDATE OR FAIL sluice_jobs SET ${STARTED}, limits = picked.value ->> 1 FROM json_each(?) AS picked
  WHERE sluice_jobs.seq = picked.value ->> 0`;
const START_ALIKE = `UPDATE OR FAIL sluice_jobs SET ${STARTED}, limits = ? FROM json_each(?) AS picked
  WHERE sluice_jobs.seq = picked.value`;
const SERVED = `UPDATE sluice_lanes SET turn = ?, waiting = waiting - ?, served = ?, ${emptyAfter("?")}
  WHERE id = ?`;
// The same for many lanes, as a list of [id, turn, how many it gave, how many were served].
const MANY_SERVED = `UPDATE OR FAIL sluice_lanes SET turn = served.value ->> 1, waiting = waiting - (served.value ->> 2),
  ${emptyAfter("(served.value ->> 2)")}, served = served.value ->> 3
  FROM json_each(?) AS served WHERE sluice_lanes.id = served.value ->> 0`;
// The same for a lane that stands somewhere else now, and for one with keys.
const MOVED = `UPDATE sluice_lanes SET turn = ?, waiting = waiting - ?, served = ?, ${emptyAfter("?")}, gate = ?`;
const MOVED_ONE = `${MOVED} WHERE id = ?`;
const KEYED = `${MOVED}, ${HEAD} WHERE id = ?`;
const WEIGHED = "UPDATE sluice_lanes SET heavy = ?, heavy_since = ? WHERE id = ?";
const END = `UPDATE sluice_jobs SET state = 'dead', finished_at = ?, error = ?,
  delete_at = ? + coalesce(keep_for, ${KEPT_MS.dead}) WHERE seq = ?`;

/** From so many on it is less work to write lanes together. */
const MANY = 5;

/** Jobs that have started, and what of that is to be confirmed. */
export interface Started {
  readonly jobs: readonly JobRecord[];
  readonly grant: Grant | undefined;
}

/** Writes down what a claim has planned. Answers with the jobs that have started. */
export function writeDown(step: Step, request: ClaimRequest, plan: ClaimLanes): Started {
  const started = plan.started.length === 0 ? { jobs: [], grant: undefined } : start(step, request, plan);
  if (plan.refused.length > 0) endRefused(step, plan.refused);
  for (const waited of plan.heavy) letOthersLook(step, waited, plan);
  writeLanes(step, plan);
  for (const { id } of plan.miscounted) recount(step, id);
  return started;
}

function start(step: Step, request: ClaimRequest, { started }: ClaimLanes): Started {
  const { worker, leaseMs, grantTtlMs } = request;
  const first = step.numbers(started.length);
  const taken = takeLimits(
    step,
    started.map(({ charges }) => charges),
    first,
    grantTtlMs,
  );
  const { now } = step;
  const leaseUntil = now + leaseMs;
  if (taken.every((text) => text === taken[0])) {
    const list = JSON.stringify(started.map(({ row }) => row.seq));
    step.sql(START_ALIKE).run(now, leaseUntil, worker, first, taken[0]!, list);
  } else {
    const list = JSON.stringify(started.map(({ row }, i) => [row.seq, taken[i]]));
    step.sql(START).run(now, leaseUntil, worker, first, list);
  }
  const jobs = started.map(({ row }, i) => {
    const { queue, id, type, attempt } = row;
    if (step.eventsWanted) step.event({ event: "started", queue, id, type, attempt: attempt + 1, worker });
    return toRecord(row, step.skew, { worker, startedAt: now, leaseUntil, token: first + i });
  });
  const charges = new Set(started.flatMap((one) => one.charges));
  return { jobs, grant: grantTtlMs === undefined ? undefined : grantOf(first, charges) };
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
  for (const [lane, heavy] of plan.weighed) step.sql(WEIGHED).run(heavy, heavy === null ? null : step.now, lane);
  gates.writePlaces(step);
}

type Served = readonly [id: number, turn: number, gave: number, served: number];

function writeServed(step: Step, lanes: readonly Served[]): void {
  if (lanes.length >= MANY) step.sql(MANY_SERVED).run(step.now, JSON.stringify(lanes));
  else for (const [id, turn, gave, served] of lanes) step.sql(SERVED).run(turn, gave, served, gave, step.now, id);
}

/** Lanes that waited only for what has started now are looked at again, and workers are woken up. */
function letOthersLook(
  step: Step,
  { name, grp }: { readonly name: string; readonly grp: string },
  plan: ClaimLanes,
): void {
  for (const other of openBehind(step, name, grp)) {
    step.wakesAll = true;
    plan.othersMayLook ||= plan.takes(other);
  }
}

/** That is no attempt. */
function endRefused(step: Step, refused: readonly Refused[]): void {
  const lanes = new LaneMoves(step, false);
  for (const { row, decision } of refused) {
    const { seq, queue, id, type, attempt } = row;
    const { by, charge } = decision;
    const error = neverFits(by, by.rule.quota.max === null ? charge.slots : charge.weight);
    step.sql(END).run(step.now, JSON.stringify(error), step.now, seq);
    lanes.leave(row.lane!);
    step.event({ event: "dead", queue, id, type, attempt, error });
  }
  lanes.write();
}
