import { type Before, behindHeads, later, startsBefore, waitBehind } from "../../limits/behind.ts";
import { applies, type Charge, chargeOf, type LimitRule, mostOf, quotaOf, valueOf } from "../../limits/rule.ts";
import type { LimitCondition, StartConditions } from "../../storage/limit-storage.ts";
import { byTurn } from "../../planner/turns.ts";
import type { Book } from "./book.ts";
import { byDue } from "./lanes.ts";
import { toldRule, toldWait } from "./limits/reading.ts";
import { decisionOf } from "./limits/limit-state.ts";
import type { JobLane, JobUnit, MemoryQueue } from "./queues.ts";
import { copyOf, type StoredJob } from "./stored-job.ts";

/** Jobs that stand before a job are counted up to here. */
const COUNTED = 10_000;

/** Everything that decides when a job can start. */
export function explain(book: Book, id: string, now: number): StartConditions | undefined {
  const job = book.jobs.get(id);
  if (job === undefined) return undefined;
  const queue = book.queue(job.queue);
  book.promoteAll(queue, now);
  const time = book.toLedgerTime(now);
  const own = inGroup(queue, job);
  const ahead = { higher: higher(queue, job), ...own, turns: byTurns(queue, job, own.group, time) };
  const rules = rulesFor(book, queue, job.type);
  const before = beforeOf(queue, job, own.lane, time);
  return {
    job: copyOf(job, book.skew),
    now: now - book.skew,
    queuePaused: queue.paused,
    typePaused: queue.pausedTypes.has(job.type),
    workers: book.workers.counts(job.queue, job.type, now),
    ahead,
    limits: rules.map((rule) => conditionOf(book, rule, job, startsBefore(rule, rules, before), time, ahead.lane)),
  };
}

/** The rules that jobs of a type run under: those that are kept, and those that the latest claim brought along. */
export function rulesFor(book: Book, queue: MemoryQueue, type: string): LimitRule[] {
  return [...book.limits.inForce.filter((rule) => applies(rule, queue.name, type)), ...queue.claimLimits];
}

/** `ahead`: how many take of it before. `lane`: those of its own lane. */
function conditionOf(
  book: Book,
  rule: LimitRule,
  job: StoredJob,
  ahead: number,
  time: number,
  lane: number,
): LimitCondition {
  const own = valueOf(rule, job);
  const limitState = book.limits.find(rule, own);
  const quota = quotaOf(rule, own);
  const charge = chargeOf(rule, job.weights);
  const used = limitState?.used(quota, time) ?? 0;
  const verdict = (one: Charge) => decisionOf(limitState, rule, own, one, time);
  let longest = waitBehind(ahead, rule, own, used, charge, verdict);
  const head = lane > 0 ? job.lane?.first : undefined;
  if (head !== undefined) longest = later(longest, verdict(chargeOf(rule, head.weights)));
  if (rule.weight !== null && limitState !== undefined && isQueued(job)) {
    const asking = { lane: job.lane, looksAt: () => true };
    longest = later(longest, behindHeads(quota, book.heavy.longest(limitState, rule, time, job.priority, asking)));
  }
  const { wait, reason } = longest;
  return {
    rule: toldRule(book, rule),
    group: own,
    weight: quota.max === null ? charge.slots : charge.weight,
    used,
    held: limitState?.held(time).slots ?? 0,
    waitMs: toldWait(wait),
    reason,
    most: mostOf(quota, charge) ?? null,
  };
}

const isQueued = ({ state }: StoredJob) => state === "waiting" || state === "scheduled";

function higher(queue: MemoryQueue, job: StoredJob): number {
  let sum = 0;
  if (!isQueued(job)) return sum;
  for (const unit of queue.unitsAbove(job.priority)) {
    for (const { waiting } of lanesOf(unit)) sum += waiting;
    if (sum >= COUNTED) return COUNTED;
  }
  return sum;
}

function inGroup(queue: MemoryQueue, job: StoredJob): { readonly group: number; readonly lane: number } {
  let group = 0;
  let lane = 0;
  if (!isQueued(job)) return { group, lane };
  const place = { dueAt: job.firstDueAt ?? job.dueAt, seq: job.seq };
  const unit = queue.unit(job.priority, job.group);
  const own = queue.lines.get(job.type)?.lane(job.priority, job.group, job.keys);
  for (const one of unit === undefined ? [] : lanesOf(unit)) {
    let before = 0;
    for (
      let other = one.first;
      other !== undefined && byDue(other, place) < 0 && before < COUNTED;
      other = other.after
    ) {
      before += 1;
    }
    group = Math.min(COUNTED, group + before);
    if (one === own) lane = before;
  }
  return { group, lane };
}

/** Jobs of its own type that start before it, whatever types are asked for beside its own. */
function beforeOf(queue: MemoryQueue, job: StoredJob, lane: number, time: number): Before {
  if (!isQueued(job)) return { lane: 0, type: 0 };
  let type =
    lane +
    byTurns(queue, job, lane, time, (unit) => {
      return [...lanesOf(unit)].every((one) => one.waiting === 0 || one.type === job.type);
    });
  for (const unit of queue.unitsAbove(job.priority)) {
    for (const one of lanesOf(unit)) if (one.type === job.type && one.gate?.isOpen === true) type += one.waiting;
    if (type >= COUNTED) break;
  }
  return { lane, type: Math.min(COUNTED, type) };
}

/**
 * Jobs of other groups that come before it, since units take turns: of each as many as stand before it in its own (`ahead`), or
 * one more. `counts`: only of these groups.
 */
function byTurns(
  queue: MemoryQueue,
  job: StoredJob,
  ahead: number,
  time: number,
  counts: (unit: JobUnit) => boolean = () => true,
): number {
  if (!isQueued(job)) return 0;
  const isReady = ({ gate }: JobLane) => gate !== undefined && gate.until <= time;
  const unit = queue.unit(job.priority, job.group);
  // One that has no lane yet is served after all that never were.
  const own = (unit === undefined ? undefined : speakerOf(unit, () => true)) ?? { ...job, turn: 0, id: Infinity };
  let sum = 0;
  for (const other of queue.unitsAt(job.priority)) {
    const next = other === unit || !counts(other) ? undefined : speakerOf(other, isReady);
    if (next === undefined) continue;
    let waiting = 0;
    for (const lane of lanesOf(other)) if (isReady(lane)) waiting += lane.waiting;
    sum += Math.min(waiting, ahead + (byTurn(next, own) < 0 ? 1 : 0));
    if (sum >= COUNTED) return COUNTED;
  }
  return sum;
}

/** The lane that speaks for a unit. */
function speakerOf(unit: JobUnit, counts: (lane: JobLane) => boolean): JobLane | undefined {
  let found: JobLane | undefined;
  for (const lane of lanesOf(unit)) {
    if (lane.waiting > 0 && counts(lane) && (found === undefined || byTurn(lane, found) < 0)) found = lane;
  }
  return found;
}

function* lanesOf({ turns }: JobUnit): Iterable<JobLane> {
  for (const { lanes } of turns) yield* lanes;
}
