import { isAmong, type LimitRule, ONE } from "../../../limits/rule.ts";
import { claimantOf, waitOfOthers } from "../../../limits/starved.ts";
import { knownWait, type Wait } from "../../../limits/wait.ts";
import type { Grant } from "../../../storage/grants.ts";
import type { Claim, ClaimRequest } from "../../../storage/job-storage.ts";
import { Allowance, STEP_BYTES } from "../../../storage/step-bytes.ts";
import { grantOf } from "../limits/grants.ts";
import { chargeStarts } from "../limits/job-charges.ts";
import { type SqliteKey, SqliteKeys } from "../limits/keys.ts";
import type { Step } from "../step.ts";
import { nextDueAt } from "./due.ts";
import { LOOK_AT_FIRST, recount, type Served, writeGave, writeServed } from "./lanes.ts";
import { isPrefetchable, nextJobs, type ServedUnit, type Wanted } from "./next-jobs.ts";
import type { OpenTypes } from "./open-types.ts";
import type { JobRow } from "./record.ts";
import { type Started, startJobs } from "./starting.ts";

/*
 * The fast path of a claim: all jobs that it may take run under the same limits, and count for one under each of them. So it is known
 * beforehand how many start, and which lanes they come from.
 */

/** Do all jobs that a claim may take run under the same limits, and count for one under each of them? */
export function isUniform(rules: readonly LimitRule[], { types }: ClaimRequest): boolean {
  return rules.every(
    ({ byGroup, weight, types: of }) =>
      !byGroup && weight === null && (of === null || (types !== null && types.every((type) => isAmong(of, type)))),
  );
}

const NOTHING: Started = { jobs: [], grant: undefined };

export function claimUniform(
  step: Step,
  request: ClaimRequest,
  types: OpenTypes,
  rules: readonly LimitRule[],
): Omit<Claim, "stale"> {
  const limits = new UniformLimits(step, rules, request);
  limits.prepare();
  const max = request.max > 0 && !types.paused ? Math.min(request.max, limits.available) : 0;
  const prefetch = types.paused || rules.length > 0 ? 0 : (request.prefetch ?? 0);
  const after = (waits: boolean) => {
    const found = wakeUpOf(step, request, types, limits, waits);
    limits.mark();
    return { ...found, ...waitOfOthers(limits.othersWaitMs) };
  };
  if (max + prefetch === 0) return { jobs: [], ...after(types.anyWaits) };
  // One more than starts, to see whether anything is left.
  const units = types.units(max + 1, max + prefetch + 1);
  // Groups take turns when jobs start: nothing is prefetched then. Without groups the first units have most of the jobs.
  const want = units.every(({ lanes: [lane] }) => lane!.group === "") ? max + prefetch : max;
  const wanted = { max, most: want, maxBytes: request.maxBytes ?? STEP_BYTES };
  const served = units.length === 0 || want === 0 ? [] : nextJobs(step, types, units, wanted);
  const dealt = deal(served);
  const rows = allowed(dealt, wanted);
  const { jobs, grant } = rows.length === 0 ? NOTHING : start(step, request, served, rows, limits);
  let counted = 0;
  for (const { waiting } of units) counted += waiting;
  // Fewer jobs were found than were counted: rows were deleted by hand, or many are too late to start.
  const wrong = rows.length === dealt.length && jobs.length < Math.min(want, counted);
  if (wrong) for (const { lanes } of units) for (const { id } of lanes) recount(step, id);
  // Where all that was seen has started there may be units that were not looked at.
  const unseen = counted === jobs.length && units.length > max;
  const found = after(wrong || unseen ? types.anyWaits : counted > jobs.length);
  return { jobs, ...found, ...(grant !== undefined && { grant }) };
}

export function glanceUniform(
  step: Step,
  request: ClaimRequest,
  types: OpenTypes,
  rules: readonly LimitRule[],
): Omit<Claim, "stale"> | undefined {
  const limits = new UniformLimits(step, rules, request);
  if (limits.unprepared) return undefined;
  const waits = types.anyWaits || isDue(step, request, types);
  const prefetches = rules.length === 0 && (request.prefetch ?? 0) > 0;
  if (waits && (prefetches || (request.max > 0 && limits.available > 0))) return undefined;
  const found = wakeUpOf(step, request, types, limits, waits);
  return limits.areUnmarked ? undefined : { jobs: [], ...found, ...waitOfOthers(limits.othersWaitMs) };
}

function isDue(step: Step, { queue }: ClaimRequest, types: OpenTypes): boolean {
  const dueAt = types.paused ? null : nextDueAt(step, queue, (type) => types.has(type));
  return dueAt !== null && dueAt <= step.now;
}

/** What comes after a claim. While the limits are full it makes no sense to ask again, even if a job comes due before. */
function wakeUpOf(
  step: Step,
  { queue }: ClaimRequest,
  types: OpenTypes,
  limits: UniformLimits,
  waits: boolean,
): Pick<Claim, "more" | "nextInMs" | "blockedBy"> {
  const dueAt = types.paused ? null : waits ? step.now : nextDueAt(step, queue, (type) => types.has(type));
  if (dueAt === null) return { more: false, nextInMs: null, blockedBy: null };
  const { wait, blockedBy } = limits.next;
  return {
    more: waits && wait === 0,
    nextInMs: knownWait(Math.max(wait, dueAt - step.now)),
    blockedBy: waits ? blockedBy : null,
  };
}

/** Starts the next jobs, in the order of turns. */
function start(
  step: Step,
  request: ClaimRequest,
  units: readonly ServedUnit[],
  rows: readonly JobRow[],
  limits: UniformLimits,
): Started {
  const first = step.numbers(rows.length);
  const { charged, grant } = limits.take(rows.length, first);
  const jobs = startJobs(step, request, rows, charged, first);
  const gave = new Map<number, { count: number; turn: number }>();
  for (const [i, { lane }] of rows.entries()) {
    const count = (gave.get(lane!)?.count ?? 0) + 1;
    gave.set(lane!, { count, turn: first + i });
  }
  const served: Served[] = [];
  for (const { lanes, alone } of units) {
    const turn = Math.max(...lanes.map(({ id }) => gave.get(id)?.turn ?? 0));
    if (turn === 0) continue;
    for (const lane of lanes) {
      const count = gave.get(lane.id)?.count ?? 0;
      if (!alone || lane.turn === 0 || (count > 0 && count >= lane.waiting)) served.push([lane.id, turn, count, 0]);
      else if (count > 0) writeGave(step, lane.id, count);
    }
  }
  writeServed(step, served);
  for (const { lanes, many } of units) if (many) for (const { id } of lanes) step.sql(LOOK_AT_FIRST).run(id);
  return { jobs, grant };
}

/** As many of the first as the claim may answer with: what comes behind one that is left, for whatever reason, is left, too. */
function allowed(rows: readonly JobRow[], { max, most, maxBytes }: Wanted): readonly JobRow[] {
  const allowance = new Allowance({ max: most, maxBytes });
  const end = rows.findIndex((row, i) => (i >= max && !isPrefetchable(row)) || !allowance.take(row.data));
  return end < 0 ? rows : rows.slice(0, end);
}

/** Units of a priority give one each, then another one each, and so on. They come in the order of their turns. */
function deal(units: readonly ServedUnit[]): readonly JobRow[] {
  if (units.length === 1) return units[0]!.rows;
  const dealt: JobRow[] = [];
  for (let from = 0, to = 0; from < units.length; from = to) {
    while (to < units.length && units[to]!.priority === units[from]!.priority) to += 1;
    let level = units.slice(from, to);
    for (let round = 0; level.length > 0; round++) {
      level = level.filter(({ rows }) => rows.length > round);
      for (const { rows } of level) dealt.push(rows[round]!);
    }
  }
  return dealt;
}

/** Limits that are the same for all jobs of a claim: how many may start is a number. */
class UniformLimits {
  readonly #step: Step;
  readonly #keys: SqliteKeys;
  readonly #all: readonly SqliteKey[];

  constructor(step: Step, rules: readonly LimitRule[], request: ClaimRequest) {
    this.#step = step;
    this.#keys = new SqliteKeys(step, claimantOf(request), request.grantTtlMs);
    this.#all = rules.map((rule) => this.#keys.key(rule, null));
  }

  /** Starts are not kept long enough for one of the windows: a step has to write down that they must be. */
  get unprepared(): boolean {
    return this.#all.some((key) => key.unprepared);
  }

  prepare(): void {
    for (const key of this.#all) key.prepare();
  }

  /** See `SqliteKeys`. */
  get areUnmarked(): boolean {
    return this.#keys.areUnmarked;
  }

  mark(): void {
    this.#keys.mark();
  }

  get othersWaitMs(): number {
    return this.#keys.othersWaitMs;
  }

  /** How many may start. */
  get available(): number {
    let available = Number.POSITIVE_INFINITY;
    for (const key of this.#all) available = Math.min(available, key.available);
    return available;
  }

  /** Counts so many starts, the first with this token. Answers with what is kept of that with each job. */
  take(
    count: number,
    first: number,
  ): { readonly charged: readonly (string | null)[]; readonly grant: Grant | undefined } {
    if (this.#all.length === 0) return { charged: [], grant: undefined };
    const charges = this.#all.map((key) => ({ key, charge: ONE }));
    for (let i = 0; i < count; i++) {
      for (const { key } of charges) key.take(ONE);
      this.#keys.start += 1;
    }
    const { ttlMs } = this.#keys;
    const starts = Array.from({ length: count }, () => charges);
    const charged = chargeStarts(this.#step, starts, first, ttlMs);
    return { charged, grant: ttlMs === undefined ? undefined : grantOf(first, charges) };
  }

  /** When one more may start, and what is in its way until then: of several, the one that is so the longest. */
  get next(): { readonly wait: Wait; readonly blockedBy: string | null } {
    let wait: Wait = 0;
    let blockedBy: string | null = null;
    for (const key of this.#all) {
      const own = key.wait(ONE);
      if (own <= wait) continue;
      wait = own;
      blockedBy = key.rule.name;
    }
    return { wait, blockedBy };
  }
}
