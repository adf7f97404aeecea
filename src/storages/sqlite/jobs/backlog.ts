import type { JobState } from "../../../core/job.ts";
import { applies } from "../../../limits/rule.ts";
import type { Backlog, LimitState, TypeBacklog } from "../../../storage/limit-storage.ts";
import { originOf, originOfClaim } from "../../../storage/stored-rules.ts";
import { broughtBy } from "../limits/brought-limits.ts";
import { allWaiting, stateOf } from "../limits/reading.ts";
import type { Step } from "../step.ts";
import { type JobRow, weightsOf } from "./record.ts";
import { jobsIn } from "./select.ts";
import { workersFor } from "../../../storage/workers.ts";
import { liveWorkers } from "../workers.ts";

/** So many jobs that wait are weighed, of each type; and so many of the queue that were completed are looked at. */
const WEIGHED = 1_000;
const COMPLETED = 1_000;

const LANES = "SELECT id, type, grp, waiting FROM sluice_lanes WHERE queue = ? AND waiting > 0";
// Along the index of the state: for inspection, not on the path of a job.
const countsIn = (state: JobState) => `SELECT type, count(*) AS n FROM ${jobsIn(state)} GROUP BY type`;
const WEIGHTS = `SELECT weights FROM sluice_jobs WHERE lane = ? AND state = 'waiting' ORDER BY due_at, seq LIMIT +?`;
const RAN = `SELECT type, finished_at - started_at AS ms FROM sluice_jobs
  WHERE queue = ? AND state = 'completed' AND lease_until IS NULL ORDER BY seq DESC LIMIT ${COMPLETED}`;

interface LaneCount {
  readonly id: number;
  readonly type: string;
  readonly grp: string;
  readonly waiting: number;
}

/** What of a queue has not started. */
export function backlog(step: Step, queue: string): Backlog {
  const pauses = step.pausesOf(queue);
  const lanes = Map.groupBy(step.sql(LANES).all(queue) as LaneCount[], ({ type }) => type);
  const scheduled = countsOf(step, queue, "scheduled");
  const active = countsOf(step, queue, "active");
  const ran = durations(step, queue);
  const workers = liveWorkers(step, queue);
  const names = [...new Set([...lanes.keys(), ...scheduled.keys(), ...active.keys()])].toSorted();
  const types = names.map((type): TypeBacklog => {
    const own = lanes.get(type) ?? [];
    const groups = new Map<string, number>();
    for (const { grp, waiting } of own) groups.set(grp, (groups.get(grp) ?? 0) + waiting);
    let mostInGroup = 0;
    for (const waiting of groups.values()) mostInGroup = Math.max(mostInGroup, waiting);
    return {
      type,
      paused: pauses.has(`:${type}`),
      workers: workersFor(workers, type).handling,
      waiting: own.reduce((sum, { waiting }) => sum + waiting, 0),
      scheduled: scheduled.get(type) ?? 0,
      active: active.get(type) ?? 0,
      groups: groups.size,
      mostInGroup,
      weights: meanWeights(step, own),
      ranMs: ran.get(type) ?? null,
    };
  });
  return { queue, paused: pauses.has(""), types, limits: limitsOf(step, queue, names) };
}

function limitsOf(step: Step, queue: string, types: readonly string[]): LimitState[] {
  const waiting = allWaiting(step);
  const kept = step.rules.inForce.filter((rule) => types.some((type) => applies(rule, queue, type)));
  // A claim speaks for its own queue.
  const own = waiting.filter((one) => one.queue === queue);
  const brought = types.length === 0 ? [] : broughtBy(step, queue);
  const states = [
    ...kept.map((rule) => stateOf(step, rule, originOf(step.rules.stored.get(rule.name)!), null, waiting)),
    ...brought.map((rule) => stateOf(step, rule, originOfClaim(rule), null, own)),
  ];
  return states.toSorted((a, b) => (a.rule.name < b.rule.name ? -1 : 1));
}

function countsOf(step: Step, queue: string, state: "scheduled" | "active"): Map<string, number> {
  const rows = step.sql(countsIn(state)).all(queue, state) as { readonly type: string; readonly n: number }[];
  return new Map(rows.map(({ type, n }) => [type, n]));
}

function meanWeights(step: Step, lanes: readonly LaneCount[]): TypeBacklog["weights"] {
  const sums = new Map<string, { sum: number; count: number }>();
  let left = WEIGHED;
  for (const { id } of lanes) {
    if (left <= 0) break;
    const rows = step.sql(WEIGHTS).all(id, left) as Pick<JobRow, "weights">[];
    left -= rows.length;
    for (const row of rows) {
      for (const [name, weight] of Object.entries(weightsOf(row) ?? {})) {
        const own = sums.get(name) ?? { sum: 0, count: 0 };
        sums.set(name, { sum: own.sum + weight, count: own.count + 1 });
      }
    }
  }
  const seen = WEIGHED - left;
  return Object.fromEntries(
    Array.from(sums, ([name, { sum, count }]) => [name, { part: count / seen, mean: sum / count }]),
  );
}

/** How long the latest completed jobs of each type ran, on average. */
function durations(step: Step, queue: string): Map<string, number> {
  const rows = step.sql(RAN).all(queue) as { readonly type: string; readonly ms: number }[];
  const byType = Map.groupBy(rows, ({ type }) => type);
  return new Map(Array.from(byType, ([type, own]) => [type, own.reduce((sum, { ms }) => sum + ms, 0) / own.length]));
}
