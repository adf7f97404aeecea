import { ENDED, type JobState } from "../core/job.ts";
import { MOST_COUNTED } from "../limits/behind.ts";
import { availableNow, type Reason } from "../limits/key-state.ts";
import { labelOf, type Quota, quotaOf, weighed } from "../limits/rule.ts";
import type { LimitCondition, StartConditions } from "./limit-storage.ts";
import { dateAt, spanText } from "./span.ts";

/** The explanation why a job does not start, or that it could. */
export interface Explanation {
  readonly id: string;
  readonly queue: string;
  readonly type: string;
  readonly state: JobState;
  /**
   * The job certainly starts if a worker claims all waiting jobs now: a live worker handles its type, nothing blocks it, and either no
   * job comes before it or every limit that applies to it has enough available for these jobs and for it.
   */
  readonly runnable: boolean;
  /**
   * All blockers: that no live worker handles its type comes first, then the blocker that lasts the longest, and last the jobs
   * before it that may start instead.
   */
  readonly blockers: readonly Blocker[];
  /**
   * The job does not start before this instant, whether or not a live worker handles its type, unless something is cancelled, changed or
   * added with a higher priority. Jobs of its type that start before it are counted, other groups by turns too; not counted are other
   * types, other queues, weights of other jobs, how long jobs run, and other groups if a limit is by group or weighs. undefined: after a
   * resume, a release or a change; or never, because it runs already or has ended.
   */
  readonly earliest: Date | undefined;
  /** How many waiting jobs start before it, counted up to 10,000 of each. */
  readonly position: {
    /** Of a higher priority. */
    readonly higher: number;
    /** Of its own priority and group. */
    readonly group: number;
    /** Of its own priority and other groups, whose turn comes before its own. */
    readonly turns: number;
  };
}

/** One blocker: a reason why a job does not start. */
export type Blocker = LimitBlocker | OtherBlocker;

export interface OtherBlocker {
  readonly kind: "no-worker" | "queue-paused" | "type-paused" | "delay" | "order" | "dependency" | "running" | "ended";
  /** Until when it blocks. undefined: not known. */
  readonly until: Date | undefined;
  /** The blocker as a sentence. */
  readonly text: string;
}

export interface LimitBlocker {
  readonly kind: "limit";
  /** The name of the limit. */
  readonly limit: string;
  /** What it counts the job for: its group, or the value of its keys, where the limit is by these and the job has one. */
  readonly group: string | undefined;
  /** The part of the limit that blocks. undefined: the job can never fit. */
  readonly reason: Reason | undefined;
  /** How much of its window is in use, of how much; `max` is undefined if it has none. */
  readonly used: number;
  readonly max: number | undefined;
  /** How many of its slots are in use, of how many; `concurrency` is undefined if it has none. */
  readonly held: number;
  readonly concurrency: number | undefined;
  /** The weight of the job. */
  readonly weight: number;
  /** When the job fits. undefined: after a release, a resume or a change. */
  readonly until: Date | undefined;
  /** The blocker as a sentence. */
  readonly text: string;
}

/** Explains why a job does not start, from its state in the storage at one instant. */
export function explainJob(conditions: StartConditions): Explanation {
  const { job, ahead } = conditions;
  const { id, queue, type, state } = job;
  const { higher, group, turns } = ahead;
  const about = { id, queue, type, state, position: { higher, group, turns } };
  const over = overOf(conditions);
  if (over !== undefined) return { ...about, runnable: false, blockers: [over], earliest: undefined };
  const blockers = [...pausesOf(conditions), ...delayOf(conditions), ...limitsOf(conditions)].toSorted(byLength);
  const missing = workersOf(conditions);
  const runnable =
    blockers.length === 0 && missing.length === 0 && conditions.limits.every((limit) => fitsAll(limit, ahead));
  return {
    ...about,
    runnable,
    blockers: runnable ? [] : [...missing, ...blockers, ...orderOf(conditions)],
    earliest: blockers.length === 0 ? dateAt(conditions.now) : blockers[0]?.until,
  };
}

const NOTHING_BLOCKS = { remaining: null, remainingUntil: null, openUntil: null };

/** Has the limit enough available for a job and for all jobs before it, whatever these are? Nothing blocks the job itself. */
function fitsAll({ rule, group, used, held }: LimitCondition, ahead: StartConditions["ahead"]): boolean {
  // Other groups are not charged to the state of this one.
  const others = ahead.higher + ahead.group + (rule.byGroup ? 0 : ahead.turns);
  if (others === 0) return true;
  // The weights of other jobs are not known, nor whether one of them would be the last probe of a breaker.
  if (rule.weight !== null || rule.breaker !== null) return false;
  const available = availableNow(rule, quotaOf(rule, group), NOTHING_BLOCKS, { slots: held, probes: 0 }, used, 0);
  const uncounted = Object.values(ahead).some((count) => count >= MOST_COUNTED);
  return available === Number.POSITIVE_INFINITY || (!uncounted && available > others);
}

/** The blocker of a job that is not waiting to start: it runs, has ended, or awaits its flow. */
function overOf({ job }: StartConditions): OtherBlocker | undefined {
  if (job.state === "active") {
    const since = job.startedAt === null ? "" : ` since ${dateAt(job.startedAt).toISOString()}`;
    return blocker("running", `It is running${since}.`);
  }
  if (ENDED.includes(job.state)) return blocker("ended", `It has ended: ${job.state}.`);
  return job.state === "awaiting" ? blocker("dependency", "It waits for other jobs of its flow.") : undefined;
}

const blocker = (kind: OtherBlocker["kind"], text: string, until?: Date): OtherBlocker => ({ kind, until, text });

function workersOf({ job, workers: { live, handling } }: StartConditions): OtherBlocker[] {
  if (handling > 0) return [];
  const queue = `the queue "${job.queue}"`;
  const why =
    live === 0
      ? `${queue} has no live worker`
      : live === 1
        ? `the live worker of ${queue} handles other types`
        : `the ${live} live workers of ${queue} handle other types`;
  return [blocker("no-worker", `No live worker handles type "${job.type}": ${why}.`)];
}

function pausesOf({ job, queuePaused, typePaused }: StartConditions): OtherBlocker[] {
  return [
    ...(queuePaused ? [blocker("queue-paused", `The queue "${job.queue}" is paused.`)] : []),
    ...(typePaused ? [blocker("type-paused", `Jobs of type "${job.type}" are paused.`)] : []),
  ];
}

function delayOf({ job, now }: StartConditions): OtherBlocker[] {
  if (job.dueAt <= now) return [];
  const until = dateAt(job.dueAt);
  return [blocker("delay", `It is due at ${until.toISOString()}.`, until)];
}

function limitsOf({ limits, now }: StartConditions): LimitBlocker[] {
  return limits.flatMap((condition) => {
    const { rule, group, weight, used, held, waitMs, reason, most } = condition;
    if (waitMs === 0 && most === null) return [];
    const quota = quotaOf(rule, group);
    // Slots come back by a release; when their leases would expire says nothing about that.
    const untold = waitMs === null || most !== null || reason === "concurrency";
    const until = untold ? undefined : dateAt(now + waitMs);
    return {
      kind: "limit",
      limit: rule.name,
      group: group ?? undefined,
      reason: most === null ? (reason ?? undefined) : undefined,
      used,
      max: quota.max ?? undefined,
      held,
      concurrency: quota.concurrency ?? undefined,
      weight,
      until,
      text: limitText(condition, quota, until),
    };
  });
}

function orderOf({ ahead: { higher, group, turns } }: StartConditions): OtherBlocker[] {
  const before = [
    ...(higher > 0 ? [`${howMany(higher)} of a higher priority`] : []),
    ...(group > 0 ? [`${howMany(group)} of its own priority and group`] : []),
    ...(turns > 0 ? [`${howMany(turns)} of other groups by turns`] : []),
  ];
  if (before.length === 0) return [];
  const last = before.pop()!;
  const all = before.length === 0 ? last : `${before.join(", ")} and ${last}`;
  const wait = higher + group + turns === 1 ? "waits" : "wait";
  return [blocker("order", `Before it ${all} ${wait}, and may start first.`)];
}

function howMany(count: number): string {
  return count >= MOST_COUNTED ? `${MOST_COUNTED} or more` : String(count);
}

/** The blocker that lasts the longest first; one without a known end before that. */
function byLength(a: Blocker, b: Blocker): number {
  const length = ({ until }: Blocker) => until?.getTime() ?? Number.MAX_VALUE;
  return length(b) - length(a);
}

/** The limit may have enough available for the job, and the jobs before it will use that. */
function fullOr(withIt: number, most: number | null): string {
  return most !== null && withIt <= most ? "goes to the jobs before it" : "is full";
}

function limitText(condition: LimitCondition, quota: Quota, until: Date | undefined): string {
  const { rule, group, weight, used, held, reason, most } = condition;
  const limit = `The limit ${labelOf(rule.name, group)}`;
  const then = until === undefined ? "until that is changed" : `until ${until.toISOString()}`;
  if (most !== null) return `${limit} lets ${most} start at the most, and the job weighs ${weight}: it never fits.`;
  const { slots } = weighed(quota, weight);
  const needs = weight === 1 ? "" : `, and the job needs ${weight}`;
  switch (reason) {
    case "window":
      if (quota.max === 0) return `${limit} lets nothing start ${then}.`;
      return `${limit} ${fullOr(used + weight, quota.max)} ${then}: ${used} of ${quota.max} per ${spanText(quota.windowMs ?? 0)} in use${needs}.`;
    case "spacing":
      return `${limit} lets one start every ${spanText(quota.everyMs ?? 0)}: not ${then}.`;
    case "concurrency":
      if (quota.concurrency === 0) return `${limit} lets nothing start ${then}.`;
      return `${limit} ${fullOr(held + slots, quota.concurrency)} until one ends: ${held} of ${quota.concurrency} at a time are running${needs}.`;
    case "paused":
      return `The limit ${rule.name} is paused until it is resumed.`;
    case "held":
      return `${limit} is held ${then}: the service or an operator asked for that.`;
    case "remaining":
      return `${limit} waits ${then}: the service said that not enough remains${needs}.`;
    case "breaker":
      if (until === undefined) return `${limit} had too many failures in a row, and waits for the end of a probe.`;
      return `${limit} had too many failures in a row, and lets nothing start ${then}.`;
    case null:
      break;
  }
  return `${limit} is full ${then}.`;
}
