import { startsBefore } from "../../../limits/behind.ts";
import { valueOf } from "../../../limits/rule.ts";
import { limitConditionOf } from "../../../storage/inspected-key.ts";
import type { LimitCondition, StartConditions } from "../../../storage/limit-storage.ts";
import { workersFor } from "../../../storage/workers.ts";
import { NO_POSITION, type OtherGroup, type Position, positionOf } from "../../../planner/position.ts";
import { byTurn } from "../../../planner/turns.ts";
import { broughtBy } from "../limits/brought-limits.ts";
import { grpOf } from "../limits/groups.ts";
import { CLAIMED, waitForHeads } from "../../../planner/heavy-heads.ts";
import { SqliteKeys } from "../limits/keys.ts";
import type { Step } from "../step.ts";
import { liveWorkers } from "../workers.ts";
import { find } from "./list.ts";
import { type JobRow, weightsOf } from "./record.ts";

/** How far jobs and lanes that come before are counted. */
const MOST = 10_000;

const JOB = "SELECT seq, coalesce(first_due_at, due_at) AS due_at, priority, grp, keys FROM sluice_jobs WHERE id = ?";
// Of those at gates the ones that are open, or about to.
const READY = `waiting > 0
  AND (gate IS NULL OR EXISTS (SELECT 1 FROM sluice_gates WHERE sluice_gates.id = gate AND ifnull(until, 0) <= ?))`;
const HIGHER = `SELECT total(waiting) AS n FROM
  (SELECT waiting FROM sluice_lanes WHERE queue = ? AND priority > ? AND waiting > 0 LIMIT ${MOST})`;
const HIGHER_OF_TYPE = `SELECT total(waiting) AS n FROM (SELECT waiting FROM sluice_lanes
  WHERE queue = ? AND type = ? AND priority > ? AND ${READY} LIMIT ${MOST})`;
const LANES = `SELECT id, type, keys, turn, heavy, heavy_since AS since,
    (SELECT name FROM sluice_gates WHERE sluice_gates.id = gate AND front <> 0) AS by
  FROM sluice_lanes WHERE queue = ? AND priority = ? AND grp = ? AND waiting > 0`;
const BEFORE = `SELECT count(*) AS n FROM (SELECT 1 FROM sluice_jobs
  WHERE lane = ? AND state = 'waiting' AND (due_at, seq) < (?, ?) LIMIT +?)`;
const OTHERS = `SELECT id, type, priority, grp, turn, waiting, EXISTS (SELECT 1 FROM sluice_lanes AS other
    WHERE other.queue = own.queue AND other.priority = own.priority AND other.grp = own.grp AND other.type <> ?
      AND other.waiting > 0) AS mixed
  FROM sluice_lanes AS own WHERE queue = ? AND priority = ? AND grp <> ? AND ${READY} LIMIT ${MOST}`;
const HEAD = "SELECT weights FROM sluice_jobs WHERE lane = ? AND state = 'waiting' ORDER BY due_at, seq LIMIT 1";

/** The job that was too heavy when a claim looked at it; for which limit; and since when it waits. */
interface OwnRow {
  readonly id: number;
  readonly type: string;
  readonly turn: number;
  readonly keys: string;
  readonly heavy: number | null;
  readonly by: string | null;
  readonly since: number | null;
}

interface OtherRow {
  readonly id: number;
  readonly type: string;
  readonly priority: number;
  readonly grp: string;
  readonly turn: number;
  readonly waiting: number;
  readonly mixed: number;
}

type Job = Pick<JobRow, "seq" | "due_at" | "priority" | "grp" | "keys">;

/** The position of a job, and its lane. */
interface LanePosition extends Position {
  /** The lane that it waits in; undefined: it does not, or there is none yet. */
  readonly lane: OwnRow | undefined;
}

/** Everything that decides when a job can start. */
export function explain(step: Step, id: string): StartConditions | undefined {
  const [job] = find(step, [id]);
  if (job === undefined) return undefined;
  const { queue, type, weights, priority } = job;
  const pauses = step.pausesOf(queue);
  const queued = job.state === "waiting" || job.state === "scheduled";
  const position: LanePosition = queued
    ? positionIn(step, queue, type, id, pauses)
    : { ...NO_POSITION, lane: undefined };
  const { ahead, lane } = position;
  const first = ahead.lane > 0 && lane !== undefined ? headWeights(step, lane.id) : undefined;
  // Its lane waits for what its first job does, and no longer.
  const asking = (name: string) => ({
    id: lane?.id ?? 0,
    priority,
    since: lane !== undefined && lane.heavy !== null && lane.by === name ? lane.since! : Number.POSITIVE_INFINITY,
  });
  const keys = new SqliteKeys(step);
  const rules = [...step.rules.of(queue, type), ...broughtBy(step, queue)];
  const limits = rules.map((rule): LimitCondition => {
    const key = keys.key(rule, valueOf(rule, job));
    const before = startsBefore(rule, rules, position.before);
    const behind = rule.weight === null ? 0 : waitForHeads(key.heads, asking(rule.name), step.now, CLAIMED);
    return limitConditionOf(key, { weights, first, before, behind }, step.skew);
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

/** What the first of a lane weighs; undefined: there is none. */
function headWeights(step: Step, lane: number): Readonly<Record<string, number>> | null | undefined {
  const row = step.sql(HEAD).get(lane) as Pick<JobRow, "weights"> | undefined;
  return row && weightsOf(row);
}

function positionIn(step: Step, queue: string, type: string, id: string, pauses: ReadonlySet<string>): LanePosition {
  const { seq, due_at: dueAt, priority, grp, keys } = step.sql(JOB).get(id) as Job;
  const count = (sql: string, ...values: (string | number)[]) =>
    (step.sql(sql).get(...values) as { readonly n: number }).n;
  const lanes = step.sql(LANES).all(queue, priority, grpOf(grp)) as OwnRow[];
  const isOwn = (one: OwnRow) => one.type === type && one.keys === (keys ?? "");
  const others = step.sql(OTHERS).all(type, queue, priority, grpOf(grp), step.now) as OtherRow[];
  const position = positionOf({
    higher: count(HIGHER, queue, priority),
    higherOfType: count(HIGHER_OF_TYPE, queue, type, priority, step.now),
    own: lanes.map((one) => ({ ...one, isOwn: isOwn(one), before: count(BEFORE, one.id, dueAt, seq, MOST) })),
    others: groupsOf(others.filter((one) => !pauses.has(`:${one.type}`))),
  });
  return { ...position, lane: lanes.find(isOwn) };
}

function* groupsOf(rows: readonly OtherRow[]): Iterable<OtherGroup> {
  for (const lanes of Map.groupBy(rows, ({ grp }) => grp).values()) {
    const { turn, id, mixed } = lanes.reduce((first, lane) => (byTurn(lane, first) < 0 ? lane : first));
    yield { turn, id, waiting: lanes.reduce((sum, lane) => sum + lane.waiting, 0), isMixed: mixed !== 0 };
  }
}
