import { ENDED, type JobState } from "../core/job.ts";
import type { Reason } from "../limits/gauge.ts";
import { labelOf, type Quota, quotaOf, weighed } from "../limits/rule.ts";
import type { LimitStanding, Standing } from "./limit-storage.ts";
import { spanText } from "./span.ts";

/** Why a job does not start, or that it could. */
export interface Explanation {
  readonly id: string;
  readonly queue: string;
  readonly type: string;
  readonly state: JobState;
  /** It would start now if workers asked for as many as wait: nothing holds it but those ahead, who may start as well. */
  readonly runnable: boolean;
  /** All that keeps it from starting now; what lasts the longest first, and the others ahead of it last. */
  readonly heldBy: readonly Holdup[];
  /**
   * When it can start at the earliest, if a worker asks and those ahead of it are quick. undefined: when somebody resumes,
   * gives back or changes something; or never, for it runs already or has ended.
   */
  readonly earliest: Date | undefined;
  /** How many wait and start before it, counted up to 10,000 of each. */
  readonly position: {
    /** Of a higher priority. */
    readonly higher: number;
    /** Of its own priority and group. */
    readonly group: number;
  };
}

/** One thing that keeps a job from starting. */
export type Holdup = LimitHoldup | OtherHoldup;

export interface OtherHoldup {
  readonly kind: "queue-paused" | "type-paused" | "delay" | "order" | "dependency" | "running" | "ended";
  /** Until when. undefined: nobody can tell. */
  readonly until: Date | undefined;
  /** A sentence for people. */
  readonly text: string;
}

export interface LimitHoldup {
  readonly kind: "limit";
  /** The name of the limit. */
  readonly limit: string;
  /** The group that it counts for, where it is by group and the job has one. */
  readonly group: string | undefined;
  /** What in it is in the way. undefined: the job can never fit. */
  readonly reason: Reason | undefined;
  /** How much of its window is in use, of how much; `max` is undefined if it has none. */
  readonly used: number;
  readonly max: number | undefined;
  /** How much of its concurrency is held, of how much; `concurrency` is undefined if it has none. */
  readonly held: number;
  readonly concurrency: number | undefined;
  /** What the job would take. */
  readonly weight: number;
  /** When it has room for the job. undefined: when something is given back, resumed or changed. */
  readonly until: Date | undefined;
  /** A sentence for people. */
  readonly text: string;
}

/** Says why a job does not start, from what the storage knows about it at one instant. */
export function explainJob(standing: Standing): Explanation {
  const { job, ahead } = standing;
  const about = {
    id: job.id,
    queue: job.queue,
    type: job.type,
    state: job.state,
    position: { higher: ahead.higher, group: ahead.group },
  };
  const over = overOf(standing);
  if (over !== undefined) return { ...about, runnable: false, heldBy: [over], earliest: undefined };
  const holdups = [...pausesOf(standing), ...delayOf(standing), ...limitsOf(standing)].toSorted(byLength);
  return {
    ...about,
    runnable: holdups.length === 0,
    heldBy: [...holdups, ...orderOf(standing)],
    earliest: holdups.length === 0 ? new Date(Math.ceil(standing.now)) : holdups[0]?.until,
  };
}

/** Nobody waits for its start any more, or not yet. */
function overOf({ job }: Standing): OtherHoldup | undefined {
  if (job.state === "active") {
    const since = job.startedAt === null ? "" : ` since ${at(job.startedAt).toISOString()}`;
    return { kind: "running", until: undefined, text: `It is running${since}.` };
  }
  if (ENDED.includes(job.state)) return { kind: "ended", until: undefined, text: `It has ended: ${job.state}.` };
  if (job.state !== "awaiting") return undefined;
  return { kind: "dependency", until: undefined, text: "It waits for other jobs of its flow." };
}

function pausesOf({ job, queuePaused, typePaused }: Standing): OtherHoldup[] {
  const until = undefined;
  const paused: OtherHoldup[] = [];
  if (queuePaused) paused.push({ kind: "queue-paused", until, text: `The queue "${job.queue}" is paused.` });
  if (typePaused) paused.push({ kind: "type-paused", until, text: `Jobs of type "${job.type}" are paused.` });
  return paused;
}

function delayOf({ job, now }: Standing): OtherHoldup[] {
  if (job.dueAt <= now) return [];
  const until = at(job.dueAt);
  return [{ kind: "delay", until, text: `It is due at ${until.toISOString()}.` }];
}

function limitsOf({ limits, now }: Standing): LimitHoldup[] {
  return limits.flatMap((standing) => {
    const { rule, group, weight, used, held, waitMs, reason, most } = standing;
    if (waitMs === 0 && most === null) return [];
    const quota = quotaOf(rule, group);
    // What is held comes back when somebody gives it back; that it would run out by itself some day says nothing.
    const untold = waitMs === null || most !== null || reason === "concurrency";
    const until = untold ? undefined : at(now + waitMs);
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
      text: limitText(standing, quota, until),
    };
  });
}

function orderOf({ ahead: { higher, group } }: Standing): OtherHoldup[] {
  if (higher === 0 && group === 0) return [];
  const before = [
    ...(higher > 0 ? [`${howMany(higher)} of a higher priority`] : []),
    ...(group > 0 ? [`${howMany(group)} of its own priority and group`] : []),
  ];
  return [
    {
      kind: "order",
      until: undefined,
      text: `Before it ${before.join(" and ")} ${higher + group === 1 ? "waits" : "wait"}.`,
    },
  ];
}

const MOST_COUNTED = 10_000;

function howMany(count: number): string {
  return count >= MOST_COUNTED ? `${MOST_COUNTED} or more` : String(count);
}

/** What lasts the longest first; what nobody can tell the end of before that. */
function byLength(a: Holdup, b: Holdup): number {
  const length = ({ until }: Holdup) => until?.getTime() ?? Number.MAX_VALUE;
  return length(b) - length(a);
}

/** By the clock of the storage, rounded up to the whole milliseconds that dates hold. */
function at(instant: number): Date {
  return new Date(Math.ceil(instant));
}

/** There may be room for it that those before it will take. */
function fullOr(withIt: number, most: number | null): string {
  return most !== null && withIt <= most ? "goes to those before it" : "is full";
}

function limitText(standing: LimitStanding, quota: Quota, until: Date | undefined): string {
  const { rule, group, weight, used, held, reason, most } = standing;
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
      return `${limit} is paused, until somebody resumes it.`;
    case "held":
      return `${limit} is held ${then}: the service, or somebody, asked for that.`;
    case "told":
      return `${limit} waits ${then}: the service said that not enough is left${needs}.`;
    case "breaker":
      if (until === undefined) return `${limit} had too many failures in a row, and waits for how a probe ends.`;
      return `${limit} had too many failures in a row, and lets nothing start ${then}.`;
    case null:
      break;
  }
  return `${limit} has no room ${then}.`;
}
