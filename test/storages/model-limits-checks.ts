import { expect } from "vitest";
import type { Claim, ClaimRequest, JobStorage } from "../../src/storage/job-storage.ts";
import { isSameLane, type LimitedJob, type LimitModel } from "./model-limits-jobs.ts";
import { GROUPS, QUEUES } from "./model-limits-life.ts";
import { type Asked, finite, labelOf, NEVER } from "./model-limits-state.ts";

/** A storage, and what it must be like. */
export interface Both {
  readonly model: LimitModel;
  readonly storage: JobStorage;
}

/**
 * What started must be what the model starts, in the same order, and so must be what is said besides. Which of several groups
 * that have never had a turn comes first, nobody promises.
 */
export async function checkClaim(both: Both, request: ClaimRequest, answer: Claim, exactly: boolean): Promise<void> {
  const { model } = both;
  const ids = answer.jobs.map(({ id }) => id);
  const expected = model.claim(request, true, ids);
  expect(ids).toEqual(expected.started.map(({ id }) => id));
  expect(answer.more).toBe(expected.more);
  await bury(both, request);
  // Where jobs are weighed, come due or wait for their group it may be that somebody else has to start before them.
  const later = model.jobs.some(
    (job) => !model.isPaused(job) && job.state === "queued" && job.queue === request.queue && job.dueAt > model.now,
  );
  // What a permit holds may run out and not be enough.
  const timed = [...model.limits.values()].some((limit) => limit.holdsForATime(model.now));
  const exact = exactly && !later && !timed;
  if (exact) expect(answer.nextInMs).toBe(expected.nextInMs);
  else isInTime(answer, expected.nextInMs);
  isNamed(model, request, answer, exact);
}

/** Whatever is said to be in the way is: of a job that is due, and until the promised instant. */
function isNamed(model: LimitModel, request: ClaimRequest, answer: Claim, exact: boolean): void {
  const { more, nextInMs, blockedBy } = answer;
  const waiting = model.waiting(request);
  const asked = waiting.flatMap((job) => model.ask(job, request.limits));
  const inTheWay = asked.filter(({ wait }) => wait > 0 && (!exact || more || finite(wait) === nextInMs)).map(labelOf);
  if (blockedBy !== null) expect(inTheWay).toContain(blockedBy);
  else if (!more) expect(waiting.map(({ id }) => id)).toEqual([]);
}

/** Whoever asks again at the promised instant does not come too late, and does not ask all the time. */
function isInTime({ more, nextInMs }: Claim, latest: number | null): void {
  if (more || nextInMs === null) expect(nextInMs).toBe(latest);
  else expect(nextInMs).toBeGreaterThan(0);
  if (latest !== null) expect(nextInMs).toBeLessThanOrEqual(latest);
}

/** Who can never start is dead, and nobody else is. A claim may find that out about jobs that were not next. */
async function bury({ model, storage }: Both, { limits }: ClaimRequest): Promise<void> {
  const jobs = model.jobs.filter(({ gone }) => !gone);
  const found = await storage.find(jobs.map(({ id }) => id));
  for (const [i, job] of jobs.entries()) {
    const { state, error } = found[i]!;
    if (job.dead) expect([job.id, state]).toEqual([job.id, "dead"]);
    if (job.state !== "queued" || state !== "dead") continue;
    expect([job.id, error?.code, model.ask(job, limits).some(({ wait }) => wait === NEVER)]).toEqual([
      job.id,
      "SLUICE_OPTIONS",
      true,
    ]);
    Object.assign(job, { state: "ended", dead: true });
  }
}

/** For so long others wait for a heavy one whose time has come. */
const MOMENT_MS = 100;

/** Everything that started had room under all of its limits at that moment; what is left waits for something. */
export async function follow(both: Both, request: ClaimRequest, answer: Claim, weighed: boolean): Promise<void> {
  const { model } = both;
  await bury(both, request);
  for (const { id } of answer.jobs) {
    const job = model.jobs.find((one) => one.id === id)!;
    const before = model.waiting(request).filter((one) => isSameLane(one, job) && isBefore(one, job));
    expect(before.map((one) => one.id)).toEqual([]);
    const asked = model.ask(job, request.limits);
    expect(asked.filter(({ wait }) => wait !== 0).map(({ limit }) => limit.name)).toEqual([]);
    model.start(job, request, asked);
  }
  expect(answer.jobs.length).toBeLessThanOrEqual(request.max);
  if (answer.more) {
    expect(answer.nextInMs).toBe(0);
    return;
  }
  // No waste: whoever could start is behind somebody of its lane, or shares a limit with somebody who waits for it.
  const waiting = model.jobs.filter((job) => job.state === "queued" && job.dueAt <= model.now && !model.isPaused(job));
  const heads = waiting.filter((job) => !waiting.some((one) => isSameLane(one, job) && isBefore(one, job)));
  const awaited = heads.flatMap((job) => model.ask(job, request.limits).filter(({ wait }) => wait !== 0));
  // Whoever claims a heavy one, elsewhere, whose time has come has a moment to come by.
  const own = model.waiting(request);
  const others = heads.filter((job) => !own.includes(job)).flatMap((job) => model.ask(job));
  const moment = (one: Asked) => one.limit.declared.weight !== null && others.some((other) => same(one, other));
  const inAMoment = weighed && !answer.more && (answer.nextInMs ?? MOMENT_MS + 1) <= MOMENT_MS;
  const free = own
    .filter((job) => heads.includes(job))
    .filter((job) => {
      const asked = model.ask(job, request.limits);
      if (inAMoment && asked.some(moment)) return false;
      return asked.every(({ wait }) => wait === 0) && !asked.some((one) => awaited.some((other) => same(one, other)));
    });
  expect(free.map(({ id }) => id)).toEqual([]);
  if (answer.nextInMs !== null) expect(answer.nextInMs).toBeGreaterThan(0);
  // Somebody of these starts when the longest wait is over, at the latest.
  const longest = Math.max(weighed ? MOMENT_MS : 0, ...awaited.map(({ wait }) => wait));
  if (
    model.waiting(request).length > 0 &&
    longest < Number.POSITIVE_INFINITY &&
    !awaited.some(({ wait }) => wait === NEVER)
  ) {
    expect(answer.nextInMs ?? Number.POSITIVE_INFINITY).toBeLessThanOrEqual(longest);
  }
}

/** Does the storage say about a job what a claim would find? */
export async function checkStanding({ model, storage }: Both, job: LimitedJob): Promise<void> {
  const conditions = (await storage.explain(job.id))!;
  const waiting = model.due(job.queue).filter((one) => isBefore(one, job));
  const ahead = {
    higher: model.due(job.queue).filter(({ priority }) => priority > job.priority).length,
    group: waiting.filter(({ priority, group }) => priority === job.priority && group === job.group).length,
    lane: waiting.filter((one) => isSameLane(one, job)).length,
  };
  const { turns, ...own } = conditions.ahead;
  expect([conditions.job.id, own]).toEqual([job.id, ahead]);
  const others = model.due(job.queue);
  const ofOthers = others.filter(({ priority, group }) => priority === job.priority && group !== job.group);
  expect([job.id, turns >= 0 && turns <= ofOthers.length, turns]).toEqual([job.id, true, turns]);
  const found = conditions.limits.filter(({ rule }) => !rule.name.startsWith("queue:"));
  const asked = model.ask(job);
  expect(found.map(({ rule }) => rule.name).toSorted()).toEqual(asked.map(({ limit }) => limit.name).toSorted());
  for (const { limit, group, charge, wait } of asked) {
    const told = found.find(({ rule }) => rule.name === limit.name)!;
    const weight = limit.declared.quota.max === null ? charge.slots : charge.weight;
    const used = limit.used(group, model.now);
    const most = limit.most(group, charge);
    expect([limit.name, told.group, told.weight, told.used, told.most]).toEqual([
      limit.name,
      group,
      weight,
      used,
      most,
    ]);
    if (wait === NEVER) continue;
    // Behind all that may start before it, of whatever type.
    const before = ahead.higher + ahead.group + turns;
    const latest =
      limit.declared.weight === null ? limit.waitBehind(group, before, model.now) : longestOf(model, limit, group);
    const [from, at, to] = [wait, told.waitMs ?? Number.POSITIVE_INFINITY, latest];
    expect([limit.name, from <= at && at <= to, from, at, to]).toEqual([limit.name, true, from, at, to]);
  }
}

/** How long anybody who is due waits for a limit. */
function longestOf(model: LimitModel, limit: Asked["limit"], group: string | null): number {
  const asked = model.jobs.filter((job) => job.state === "queued").flatMap((job) => model.ask(job));
  return Math.max(0, ...asked.filter((one) => one.limit === limit && one.group === group).map(({ wait }) => wait));
}

/** What is counted under every limit, for every group. */
export async function checkCounts({ model, storage }: Both): Promise<void> {
  const { limits, now } = model;
  const found = await storage.limits.read({ name: null, group: null });
  expect(found.map(({ rule }) => rule.name)).toEqual([...limits.keys()].toSorted());
  for (const { rule, declared, revision, states, waiting } of found) {
    const limit = limits.get(rule.name)!;
    expect([declared, revision]).toEqual([limit.declared, limit.revision]);
    const counted = new Map(states.map((state) => [state.group, state]));
    for (const group of rule.byGroup ? GROUPS : [null]) {
      const state = counted.get(group);
      const held = rule.quota.concurrency === null ? 0 : limit.held(group, now);
      const wait = limit.wait(group, { weight: 1, slots: 1 }, now);
      expect([rule.name, group, state?.used ?? 0]).toEqual([rule.name, group, limit.used(group, now)]);
      if (rule.quota.concurrency !== null)
        expect([rule.name, group, state?.held ?? 0]).toEqual([rule.name, group, held]);
      if (state !== undefined) expect([rule.name, group, state.nextInMs]).toEqual([rule.name, group, finite(wait)]);
    }
    const due = model.jobs.filter((job) => job.state === "queued" && limit.applies(job.queue, job.type));
    // One that has come due may be found so only by the next claim.
    expect(waiting).toBeLessThanOrEqual(due.filter((job) => job.dueAt <= now).length);
  }
  const active = model.jobs.filter((job) => job.state === "active").length;
  const overviews = await Promise.all(QUEUES.map((queue) => storage.overview(queue)));
  expect(overviews.flat().reduce((sum, { counts }) => sum + counts.active, 0)).toBe(active);
}

const isBefore = (a: LimitedJob, b: LimitedJob) =>
  a.firstDueAt < b.firstDueAt || (a.firstDueAt === b.firstDueAt && a.seq < b.seq);
const same = (a: Asked, b: Asked) => a.limit === b.limit && a.group === b.group;

/** Jobs that could start at once, and wait behind nobody. */
export function freeNow(model: LimitModel, request: ClaimRequest): LimitedJob[] {
  const waiting = model.jobs.filter((job) => job.state === "queued" && job.dueAt <= model.now && !model.isPaused(job));
  const heads = waiting.filter((job) => !waiting.some((one) => isSameLane(one, job) && isBefore(one, job)));
  const own = model.waiting(request);
  return own
    .filter((job) => heads.includes(job))
    .filter((job) => {
      const asked = model.ask(job, request.limits);
      if (!asked.every(({ wait }) => wait === 0)) return false;
      const others = heads.filter((one) => one !== job).flatMap((one) => model.ask(one));
      return !asked.some((one) =>
        others.some((other) => same(one, other) && (other.wait !== 0 || one.limit.declared.weight !== null)),
      );
    });
}
