import type { JobRecord } from "../../src/core/job.ts";
import { applies, chargeOf, type LimitRule, type Quota, quotaOf, valueOf } from "../../src/limits/rule.ts";
import { type Digest, groupBy, takenBack } from "../history/digest.ts";
import type { Final } from "../history/final.ts";
import { Finding, round, type Verdict } from "./verdict.ts";

/** Instants are floating-point numbers of milliseconds since 1970: a quarter of a microsecond is as fine as they go. */
const EPSILON_MS = 0.001;

/** A limit by weight is full when next to nothing fits any more. */
const FULL = 0.9;

/** One start under a limit, as the storage itself recorded it, even if its process died. */
interface Start {
  readonly from: number;
  /** When its lease ended: it was settled, or taken away. */
  readonly to: number;
  /** What was reserved for it. */
  readonly reserved: number;
  /** The least that it may have counted for later: what its handler settled, or would have. */
  readonly used: number;
}

/**
 * I5 and I7 for shared limits as granted, by the clock and the records of the storage: claims that were never answered count
 * like all others. What a start reserves must fit beside what all others in the window have used at least; and beside
 * no more than so many others that have not ended. Starts that were taken back do not count: the record of a job keeps the instant of
 * its latest start in any case.
 */
export function shared(history: Digest, final: Final): Verdict[] {
  const undone = takenBack(history);
  const windows = new Finding("I5", "starts");
  const slots = new Finding("I7", "starts");
  let full = 0;
  let all = 0;
  for (const { rule } of final.limits) {
    const jobs = final.jobs.filter(({ queue, type }) => applies(rule, queue, type));
    for (const [group, mine] of groupBy(jobs, (job) => valueOf(rule, job) ?? "")) {
      const starts = mine.flatMap((job) => startsOf(job, rule, final, undone)).toSorted((a, b) => a.from - b.from);
      const quota = quotaOf(rule, group === "" ? null : group);
      const name = group === "" ? rule.name : `${rule.name}[${group}]`;
      const shares = [checkWindows(windows, name, quota, starts), checkSlots(slots, name, quota, starts)];
      for (const share of shares.filter((one) => one !== undefined)) {
        all += 1;
        if (share >= FULL) full += 1;
      }
    }
  }
  windows.note = `${full} of ${all} shared limits were full at some time`;
  return [windows.verdict, slots.verdict];
}

function startsOf(job: JobRecord, rule: LimitRule, final: Final, undone: ReadonlySet<number>): Start[] {
  const { weight: reserved } = chargeOf(rule, job.weights);
  const data = JSON.parse(job.data) as { readonly tokens?: number };
  const used = rule.weight === null ? reserved : Math.min(reserved, data.tokens ?? reserved);
  const starts = (final.attempts.get(job.id) ?? []).map(({ startedAt, endedAt }) => ({ from: startedAt, to: endedAt }));
  if (job.startedAt !== null && !undone.has(job.token)) {
    starts.push({ from: job.startedAt, to: job.finishedAt ?? Number.POSITIVE_INFINITY });
  }
  // The last attempt of a dead job is among both.
  const once = new Map(starts.map((start) => [start.from, start]));
  return Array.from(once.values(), ({ from, to }) => ({ from, to, reserved, used }));
}

/** The highest use of the limit; undefined: it has none of this kind. */
function checkWindows(found: Finding, name: string, { max, windowMs }: Quota, starts: readonly Start[]) {
  if (max === null || windowMs === null) return undefined;
  let oldest = 0;
  let inWindow = 0;
  let most = 0;
  for (const [i, { from, reserved }] of starts.entries()) {
    while (from - starts[oldest]!.from >= windowMs - EPSILON_MS) inWindow -= starts[oldest++]!.used;
    found.check(
      inWindow + reserved <= max,
      () => `${name}: ${reserved} more started at ${round(from)} beside ${inWindow}, ${max} allowed`,
    );
    most = Math.max(most, inWindow + reserved);
    inWindow += starts[i]!.used;
  }
  return most / max;
}

function checkSlots(found: Finding, name: string, { concurrency }: Quota, starts: readonly Start[]) {
  if (concurrency === null) return undefined;
  let running: Start[] = [];
  let most = 0;
  for (const start of starts) {
    running = running.filter(({ to }) => to > start.from);
    running.push(start);
    found.check(
      running.length <= concurrency,
      () => `${name}: ${running.length} ran at ${round(start.from)}, ${concurrency} allowed`,
    );
    most = Math.max(most, running.length);
  }
  return most / concurrency;
}

/** One call under a limit, by the stamp of the called function. */
interface Call {
  readonly at: number;
  /** What was reserved for it: its weight as known at the call. */
  readonly reserved: number;
  /** What its handler settled instead, and when. */
  readonly said: { readonly at: number; readonly used: number } | undefined;
}

/**
 * I5 for shared limits as called, by the monotonic clock that all processes share: whenever something is called, what counts in
 * the window before it, and itself, is no more than the limit; and it is no sooner after the one before than `every`. A start
 * counts for what was reserved, until its handler says otherwise. Nothing is allowed for.
 */
export function sharedAsCalled(history: Digest, final: Final): Verdict {
  const found = new Finding("I5", "calls");
  const jobs = new Map(final.jobs.map((job) => [job.id, job]));
  const uses = new Map(history.uses.map(({ token, hr, tokens }) => [token, { at: hr, used: tokens }]));
  const worst: string[] = [];
  for (const { rule } of final.limits) {
    const calls: { readonly group: string; readonly call: Call }[] = [];
    for (const { job: id, token, from: at } of history.runs) {
      const job = jobs.get(id);
      if (job === undefined || !applies(rule, job.queue, job.type)) continue;
      const said = rule.weight === null ? undefined : uses.get(token);
      const { weight: reserved } = chargeOf(rule, job.weights);
      calls.push({ group: valueOf(rule, job) ?? "", call: { at, reserved, said } });
    }
    for (const { hr: at, under } of history.calls) {
      if (!under.includes(rule.name)) continue;
      calls.push({ group: "", call: { at, reserved: rule.weight === null ? 1 : rule.estimate, said: undefined } });
    }
    for (const [group, mine] of groupBy(calls, (one) => one.group)) {
      const inOrder = mine.map(({ call }) => call).toSorted((a, b) => a.at - b.at);
      const quota = quotaOf(rule, group === "" ? null : group);
      const name = group === "" ? rule.name : `${rule.name}[${group}]`;
      worst.push(...checkCalls(found, name, quota, inOrder), ...checkSpacing(found, name, quota, inOrder));
    }
  }
  found.note = `as called: ${worst.join(", ")}`;
  return found.verdict;
}

function checkCalls(found: Finding, name: string, { max, windowMs }: Quota, calls: readonly Call[]): string[] {
  if (max === null || windowMs === null) return [];
  let oldest = 0;
  let most = 0;
  for (const [i, { at, reserved }] of calls.entries()) {
    while (at - calls[oldest]!.at >= windowMs) oldest += 1;
    const others = calls.slice(oldest, i).reduce((sum, call) => sum + knownAt(call, at), 0);
    most = Math.max(most, others + reserved);
    found.check(
      others + reserved <= max,
      () => `${name}: ${reserved} more called at ${round(at)} beside ${others}, ${max} allowed in ${windowMs} ms`,
    );
  }
  return [`${name} at most ${most} of ${max}`];
}

const knownAt = ({ reserved, said }: Call, at: number): number =>
  said === undefined || said.at > at ? reserved : Math.min(reserved, said.used);

function checkSpacing(found: Finding, name: string, { everyMs }: Quota, calls: readonly Call[]): string[] {
  if (everyMs === null) return [];
  let closest = Number.POSITIVE_INFINITY;
  for (const [i, { at }] of calls.entries()) {
    if (i === 0) continue;
    const apart = at - calls[i - 1]!.at;
    closest = Math.min(closest, apart);
    found.check(apart >= everyMs, () => `${name}: two calls ${round(apart)} ms apart, ${everyMs} needed`);
  }
  return [`${name} never closer than ${round(closest)} of ${everyMs} ms`];
}

/** I7, no leak: when all work is done no slot is in use, and all slots are available. */
export function slotsBack(final: Final): Verdict {
  const found = new Finding("I7", "limits");
  for (const { rule, states } of final.limits) {
    for (const { group, held } of states) {
      found.check(
        held === 0,
        () => `${rule.name}${group === null ? "" : `[${group}]`}: ${held} slots in use without a job`,
      );
    }
  }
  return found.verdict;
}
