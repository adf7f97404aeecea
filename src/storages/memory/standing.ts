import { waitBehind } from "../../limits/behind.ts";
import { applies, chargeOf, type LimitRule, mostOf, quotaOf } from "../../limits/rule.ts";
import type { LimitStanding, Standing } from "../../storage/limit-storage.ts";
import type { Book } from "./book.ts";
import { byDue } from "./lanes.ts";
import { toldWait } from "./limits/reading.ts";
import { verdictOf } from "./limits/tally.ts";
import type { MemoryQueue } from "./queues.ts";
import { copyOf, type StoredJob } from "./stored-job.ts";

/** Those who stand before a job are counted up to here. */
const COUNTED = 10_000;

/** Everything that decides when a job can start. */
export function explain(book: Book, id: string, now: number): Standing | undefined {
  const job = book.jobs.get(id);
  if (job === undefined) return undefined;
  const queue = book.queue(job.queue);
  book.promoteAll(queue, now);
  const time = book.toLedgerTime(now);
  const ahead = { higher: higher(queue, job), ...inGroup(queue, job) };
  return {
    job: copyOf(job),
    now,
    queuePaused: queue.paused,
    typePaused: queue.pausedTypes.has(job.type),
    ahead,
    limits: rulesFor(book, queue, job.type).map((rule) => standing(book, rule, job, ahead.lane, time)),
  };
}

/** The rules that jobs of a type run under: those that are kept, and those that the latest claim brought along. */
export function rulesFor(book: Book, queue: MemoryQueue, type: string): LimitRule[] {
  return [...book.limits.inForce.filter((rule) => applies(rule, queue.name, type)), ...queue.claimLimits];
}

function standing(book: Book, rule: LimitRule, job: StoredJob, ahead: number, time: number): LimitStanding {
  const { group, weights } = job;
  const own = rule.byGroup ? group : null;
  const tally = book.limits.find(rule, own);
  const quota = quotaOf(rule, own);
  const charge = chargeOf(rule, weights);
  const used = tally?.used(quota, time) ?? 0;
  const verdict = (one: typeof charge) => verdictOf(tally, rule, own, one, time);
  const { wait, reason } = waitBehind(ahead, rule, own, used, charge, verdict);
  return {
    rule,
    group: own,
    weight: quota.max === null ? charge.slots : charge.weight,
    used,
    held: tally?.held(time).slots ?? 0,
    waitMs: toldWait(wait),
    reason,
    most: mostOf(quota, charge) ?? null,
  };
}

const isQueued = ({ state }: StoredJob) => state === "waiting" || state === "scheduled";

function higher(queue: MemoryQueue, job: StoredJob): number {
  let sum = 0;
  if (!isQueued(job)) return sum;
  for (const { lanes } of queue.unitsAbove(job.priority)) {
    for (const { waiting } of lanes) sum += waiting;
    if (sum >= COUNTED) return COUNTED;
  }
  return sum;
}

function inGroup(queue: MemoryQueue, job: StoredJob): { readonly group: number; readonly lane: number } {
  let group = 0;
  let lane = 0;
  if (!isQueued(job)) return { group, lane };
  for (const { first, type } of queue.unit(job.priority, job.group)?.lanes ?? []) {
    let before = 0;
    for (let other = first; other !== undefined && byDue(other, job) < 0 && before < COUNTED; other = other.after) {
      before += 1;
    }
    group = Math.min(COUNTED, group + before);
    if (type === job.type) lane = before;
  }
  return { group, lane };
}
