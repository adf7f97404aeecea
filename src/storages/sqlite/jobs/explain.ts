import { waitBehind } from "../../../limits/behind.ts";
import { chargeOf, mostOf } from "../../../limits/rule.ts";
import type { LimitStanding, Standing } from "../../../storage/limit-storage.ts";
import { remembered } from "../limits/claim-limits.ts";
import { Meters } from "../limits/meter.ts";
import { instantOf } from "../limits/reading.ts";
import type { Step } from "../step.ts";
import { find } from "./list.ts";
import type { JobRow } from "./record.ts";

/** How far jobs that come before are counted. */
const MOST = 10_000;

const PLACE = "SELECT seq, due_at, priority, grp FROM sluice_jobs WHERE id = ?";
const PAUSES = "SELECT type FROM sluice_pauses WHERE queue = ?";
const HIGHER = `SELECT total(waiting) AS n FROM
  (SELECT waiting FROM sluice_lanes WHERE queue = ? AND priority > ? AND waiting > 0 LIMIT ${MOST})`;
const LANES = "SELECT id, type FROM sluice_lanes WHERE queue = ? AND priority = ? AND grp = ? AND waiting > 0";
const BEFORE = `SELECT count(*) AS n FROM (SELECT 1 FROM sluice_jobs
  WHERE lane = ? AND state = 'waiting' AND (due_at, seq) < (?, ?) LIMIT +?)`;

interface LaneRow {
  readonly id: number;
  readonly type: string;
}
type Place = Pick<JobRow, "seq" | "due_at" | "priority" | "grp">;

/** Everything that decides when a job can start. */
export function explain(step: Step, id: string): Standing | undefined {
  const [job] = find(step, [id]);
  if (job === undefined) return undefined;
  const { queue, type, group, weights } = job;
  const pauses = new Set((step.sql(PAUSES).all(queue) as { readonly type: string }[]).map((row) => row.type));
  const queued = job.state === "waiting" || job.state === "scheduled";
  const before = queued ? ahead(step, queue, type, id) : { higher: 0, group: 0, lane: 0 };
  const meters = new Meters(step);
  const rules = [...step.rules.of(queue, type), ...remembered(step, queue)];
  const limits = rules.map((rule): LimitStanding => {
    const own = rule.byGroup ? group : null;
    const meter = meters.meter(rule, own);
    const charge = chargeOf(rule, weights);
    const { used, held } = meter;
    const { wait, reason } = waitBehind(before.lane, rule, own, used, charge, (one) => meter.verdict(one));
    const weight = meter.quota.max === null ? charge.slots : charge.weight;
    const most = mostOf(meter.quota, charge) ?? null;
    return { rule, group: own, weight, used, held, waitMs: instantOf(wait), reason, most };
  });
  return {
    job,
    now: step.now,
    queuePaused: pauses.has(""),
    typePaused: pauses.has(`:${type}`),
    ahead: before,
    limits,
  };
}

function ahead(step: Step, queue: string, type: string, id: string): Standing["ahead"] {
  const { seq, due_at: dueAt, priority, grp } = step.sql(PLACE).get(id) as Place;
  const { n: higher } = step.sql(HIGHER).get(queue, priority) as { readonly n: number };
  const lanes = step.sql(LANES).all(queue, priority, grp === null ? "" : `:${grp}`) as LaneRow[];
  let group = 0;
  let lane = 0;
  for (const one of lanes) {
    const { n } = step.sql(BEFORE).get(one.id, dueAt, seq, MOST) as { readonly n: number };
    group += n;
    if (one.type === type) lane = n;
  }
  return { higher: Math.min(MOST, higher), group: Math.min(MOST, group), lane };
}
