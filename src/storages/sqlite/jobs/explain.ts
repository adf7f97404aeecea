import { type Before, later, startsBefore, waitBehind } from "../../../limits/behind.ts";
import { chargeOf, mostOf, valueOf, wallRule } from "../../../limits/rule.ts";
import type { JobRecord } from "../../../core/job.ts";
import type { LimitCondition, StartConditions } from "../../../storage/limit-storage.ts";
import { byTurn } from "../../../planner/turns.ts";
import { remembered } from "../limits/claim-limits.ts";
import { grpOf } from "../limits/groups.ts";
import { SqliteKeys } from "../limits/keys.ts";
import { instantOf } from "../limits/reading.ts";
import type { Step } from "../step.ts";
import { find } from "./list.ts";
import { type JobRow } from "./record.ts";
import { readWeights } from "../../../storage/kept.ts";
import { workersFor } from "../../../storage/workers.ts";
import { liveWorkers } from "../workers.ts";

/** How far jobs that come before are counted. */
const MOST = 10_000;

const PLACE = "SELECT seq, coalesce(first_due_at, due_at) AS due_at, priority, grp, keys FROM sluice_jobs WHERE id = ?";
// Of those at gates the ones that are open, or about to.
const READY = `waiting > 0
  AND (gate IS NULL OR EXISTS (SELECT 1 FROM sluice_gates WHERE sluice_gates.id = gate AND ifnull(until, 0) <= ?))`;
const PAUSES = "SELECT type FROM sluice_pauses WHERE queue = ?";
const HIGHER = `SELECT total(waiting) AS n FROM
  (SELECT waiting FROM sluice_lanes WHERE queue = ? AND priority > ? AND waiting > 0 LIMIT ${MOST})`;
const HIGHER_OF_TYPE = `SELECT total(waiting) AS n FROM (SELECT waiting FROM sluice_lanes
  WHERE queue = ? AND type = ? AND priority > ? AND ${READY} LIMIT ${MOST})`;
const LANES = `SELECT id, type, keys, turn, heavy, heavy_since AS since,
    (SELECT name FROM sluice_gates WHERE sluice_gates.id = gate AND front <> 0) AS by
  FROM sluice_lanes WHERE queue = ? AND priority = ? AND grp = ? AND waiting > 0`;
const BEFORE = `SELECT count(*) AS n FROM (SELECT 1 FROM sluice_jobs
  WHERE lane = ? AND state = 'waiting' AND (due_at, seq) < (?, ?) LIMIT +?)`;
const OTHERS = `SELECT id, type, grp, turn, waiting FROM sluice_lanes
  WHERE queue = ? AND priority = ? AND ${READY} LIMIT ${MOST}`;
const HEAD = "SELECT weights FROM sluice_jobs WHERE lane = ? AND state = 'waiting' ORDER BY due_at, seq LIMIT 1";

interface LaneRow {
  readonly id: number;
  readonly type: string;
  readonly turn: number;
}

/** The job that was too heavy when a claim looked at it; for which limit; and since when it waits. */
interface OwnRow extends LaneRow {
  readonly keys: string;
  readonly heavy: number | null;
  readonly by: string | null;
  readonly since: number | null;
}

interface OtherRow extends LaneRow {
  readonly grp: string;
  readonly waiting: number;
}

type Place = Pick<JobRow, "seq" | "due_at" | "priority" | "grp" | "keys">;

/** Where a job stands. */
interface Ahead {
  readonly ahead: StartConditions["ahead"];
  readonly before: Before;
  /** The lane that it waits in; undefined: it does not, or there is none yet. */
  readonly lane: OwnRow | undefined;
}

const NOWHERE: Ahead = {
  ahead: { higher: 0, group: 0, lane: 0, turns: 0 },
  before: { lane: 0, type: 0 },
  lane: undefined,
};

/** Everything that decides when a job can start. */
export function explain(step: Step, id: string): StartConditions | undefined {
  const [job] = find(step, [id]);
  if (job === undefined) return undefined;
  const { queue, type, weights, priority } = job;
  const pauses = new Set((step.sql(PAUSES).all(queue) as { readonly type: string }[]).map((row) => row.type));
  const queued = job.state === "waiting" || job.state === "scheduled";
  const { ahead, before, lane } = queued ? standOf(step, queue, type, id, pauses) : NOWHERE;
  const first = ahead.lane > 0 && lane !== undefined ? headOf(step, lane.id) : undefined;
  // Its lane waits for what its first job does, and no longer.
  const asking = (name: string) => ({
    id: lane?.id ?? 0,
    priority,
    since: lane !== undefined && lane.heavy !== null && lane.by === name ? lane.since! : Number.POSITIVE_INFINITY,
  });
  const keys = new SqliteKeys(step);
  const rules = [...step.rules.of(queue, type), ...remembered(step, queue)];
  const limits = rules.map((rule): LimitCondition => {
    const own = valueOf(rule, job);
    const key = keys.key(rule, own);
    const charge = chargeOf(rule, weights);
    const { used, held } = key;
    const ask = (weighs: typeof charge) => key.decisionFor(asking(rule.name), weighs);
    const behind = waitBehind(startsBefore(rule, rules, before), rule, own, used, charge, ask);
    // No job starts before the first of its lane, which may be heavier.
    const { wait, reason } = first === undefined ? behind : later(behind, ask(chargeOf(rule, first.weights)));
    const weight = key.quota.max === null ? charge.slots : charge.weight;
    const most = mostOf(key.quota, charge) ?? null;
    return { rule: wallRule(rule, step.skew), group: own, weight, used, held, waitMs: instantOf(wait), reason, most };
  });
  const workers = workersFor(liveWorkers(step, queue), type);
  return {
    job,
    now: step.wall,
    queuePaused: pauses.has(""),
    typePaused: pauses.has(`:${type}`),
    workers,
    ahead,
    limits,
  };
}

/** What the first of a lane weighs. */
function headOf(step: Step, lane: number): Pick<JobRecord, "weights"> | undefined {
  const row = step.sql(HEAD).get(lane) as Pick<JobRow, "weights"> | undefined;
  return row && { weights: row.weights === null ? null : readWeights(row.weights) };
}

function standOf(step: Step, queue: string, type: string, id: string, pauses: ReadonlySet<string>): Ahead {
  const { seq, due_at: dueAt, priority, grp, keys } = step.sql(PLACE).get(id) as Place;
  const { n: higher } = step.sql(HIGHER).get(queue, priority) as { readonly n: number };
  const lanes = step.sql(LANES).all(queue, priority, grpOf(grp)) as OwnRow[];
  const isOwn = (one: OwnRow) => one.type === type && one.keys === (keys ?? "");
  let group = 0;
  let before = 0;
  for (const one of lanes) {
    const { n } = step.sql(BEFORE).get(one.id, dueAt, seq, MOST) as { readonly n: number };
    group += n;
    if (isOwn(one)) before = n;
  }
  const own = lanes.find(isOwn);
  const others = (step.sql(OTHERS).all(queue, priority, step.now) as OtherRow[]).filter(
    (one) => one.grp !== grpOf(grp) && !pauses.has(`:${one.type}`),
  );
  // The lane that was served the longest ago speaks for its group. Where there is none yet, all that never were come first.
  const [speaker = { id: Number.POSITIVE_INFINITY, turn: 0 }] = lanes.toSorted(inTurn);
  const turns = turnsBefore(others, group, speaker);
  const mixed = new Set(others.flatMap((one) => (one.type === type ? [] : [one.grp])));
  const alike = others.filter((one) => !mixed.has(one.grp));
  const { n: above } = step.sql(HIGHER_OF_TYPE).get(queue, type, priority, step.now) as { readonly n: number };
  const ofType = Math.min(MOST, before + turnsBefore(alike, before, speaker) + above);
  return {
    ahead: { higher: Math.min(MOST, higher), group: Math.min(MOST, group), lane: before, turns },
    before: { lane: before, type: ofType },
    lane: own,
  };
}

/** Every other group has its turn as often as the job's own does before it; once more, if it is the other's turn first. */
function turnsBefore(others: readonly OtherRow[], before: number, own: Ranked): number {
  let turns = 0;
  for (const lanes of Map.groupBy(others, ({ grp }) => grp).values()) {
    let waiting = 0;
    for (const lane of lanes) waiting += lane.waiting;
    turns += Math.min(waiting, before + (lanes.some((lane) => inTurn(lane, own) < 0) ? 1 : 0));
  }
  return Math.min(MOST, turns);
}

type Ranked = Pick<LaneRow, "id" | "turn">;

/** Of one priority. */
const inTurn = (a: Ranked, b: Ranked): number => byTurn({ ...a, priority: 0 }, { ...b, priority: 0 });
