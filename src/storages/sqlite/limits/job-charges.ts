import { cancelCharge } from "../../../limits/key-state.ts";
import type { KeyCharge } from "../../../planner/claim-limits.ts";
import type { Step } from "../step.ts";
import type { SqliteKey } from "./keys.ts";
import { changeKeyState, chargeMore, type LimitRow, limitById } from "./limit-row.ts";
import type { SqliteLimitState } from "./limit-state.ts";
import { settleSlots, windowFreed } from "./release.ts";
import { type SlotsRow, takeJobSlots } from "./slots.ts";
import { shiftTotal } from "./totals.ts";
import { recordStarts } from "./windows.ts";

/** What the start of a job was charged under one limit. It is kept with the job while it runs. */
interface JobCharge {
  /** The id of the limit. */
  readonly limit: number;
  /** The row of the start in the log (0: none), and its time, if that is not when the job started. */
  readonly entry: number;
  readonly at: number | null;
  /** What it counts for there. */
  readonly weight: number;
  /** What was charged for it before, and has left every window. */
  readonly spent: number;
}

// The row number may be that of another entry by now: then its time differs.
const ENTRY = `SELECT at, n FROM sluice_starts
  WHERE seq = ? AND limit_id = ? AND since <= ? AND at >= ? AND token IS NULL`;
const CHANGE = "UPDATE sluice_starts SET n = ? WHERE seq = ?";
const KEEP = "UPDATE sluice_jobs SET limits = ? WHERE seq = ?";
const SLOTS = `SELECT name, limit_id, slots, at FROM sluice_slots JOIN sluice_limits ON id = limit_id WHERE token = ?`;

interface Entry {
  readonly at: number;
  readonly n: number;
}

/** Slots of one limit that starts take, so many each: the tokens of these. */
interface SlotsTaken {
  readonly id: number;
  readonly slots: number;
  readonly tokens: number[];
}

/**
 * Counts starts under all of their limits: what each of them charges, and the token of the first; the others follow. Answers
 * with what is kept of that with each job; null: nothing.
 */
export function chargeStarts(
  step: Step,
  starts: readonly (readonly KeyCharge[])[],
  first: number,
  ttlMs: number | undefined,
): (string | null)[] {
  const granting = ttlMs === undefined ? undefined : { number: first, ttlMs };
  const ids = new Map<SqliteLimitState, number>();
  const slots = new Map<SqliteKey, SlotsTaken[]>();
  const texts: (string | null)[] = [];
  for (const [i, charges] of starts.entries()) {
    for (const { key, charge } of charges) {
      const { limitState, takesSlots, pins } = key as SqliteKey;
      let id = ids.get(limitState);
      if (id === undefined) ids.set(limitState, (id = limitState.save(granting)));
      if (takesSlots || pins) addSlots(slots, key as SqliteKey, id, takesSlots ? charge.slots : 0, first + i);
    }
    // Almost always it is the same as for the one before.
    const same = i > 0 && areSame(charges, starts[i - 1]!);
    texts.push(same ? texts[i - 1]! : textOf(charges, ids));
  }
  for (const own of slots.values()) for (const one of own) takeJobSlots(step, one.id, one.slots, one.tokens);
  return texts;
}

function addSlots(all: Map<SqliteKey, SlotsTaken[]>, key: SqliteKey, id: number, slots: number, token: number): void {
  let own = all.get(key);
  if (own === undefined) all.set(key, (own = []));
  const alike = own.find((one) => one.slots === slots);
  if (alike === undefined) own.push({ id, slots, tokens: [token] });
  else alike.tokens.push(token);
}

function areSame(a: readonly KeyCharge[], b: readonly KeyCharge[]): boolean {
  if (a === b) return true;
  return (
    a.length === b.length && a.every(({ key, charge }, i) => key === b[i]!.key && charge.weight === b[i]!.charge.weight)
  );
}

/** Of limits that share a name the start counts once, for the most that any of them says. */
function textOf(charges: readonly KeyCharge[], ids: ReadonlyMap<SqliteLimitState, number>): string | null {
  const kept = new Map<SqliteLimitState, JobCharge>();
  for (const { key, charge } of charges) {
    const { limitState } = key as SqliteKey;
    const weight = Math.max(charge.weight, kept.get(limitState)?.weight ?? 0);
    kept.set(limitState, { limit: ids.get(limitState)!, entry: limitState.entry, at: null, weight, spent: 0 });
  }
  return kept.size === 0 ? null : textOfCharges([...kept.values()]);
}

/** A list of lists, without what goes without saying. */
const textOfCharges = (charges: readonly JobCharge[]): string =>
  JSON.stringify(
    charges.map(({ limit, entry, at, weight, spent }) => {
      const said = [limit, entry, weight, spent, at];
      if (at === null) said.length = spent === 0 ? (weight === 1 ? (entry === 0 ? 1 : 2) : 3) : 4;
      return said;
    }),
  );

/** What is kept with a job; nothing, if that cannot be read. */
function readCharges(text: string | null): readonly JobCharge[] {
  if (text === null) return [];
  try {
    const list: unknown = JSON.parse(text);
    return Array.isArray(list) ? list.filter(isCharge).map(toCharge) : [];
  } catch {
    return [];
  }
}

const isCharge = (one: unknown): one is number[] =>
  Array.isArray(one) && one.length > 0 && one.every((value) => typeof value === "number");

const toCharge = ([limit, entry = 0, weight = 1, spent = 0, at = null]: readonly (number | null)[]): JobCharge => ({
  limit: limit!,
  entry: entry!,
  weight: weight!,
  spent: spent!,
  at,
});

/** The start of this instant never was. What was cleared since has another id, and keeps its starts. */
export function cancelCharges(step: Step, text: string | null, startedAt: number): void {
  for (const charged of readCharges(text)) {
    const row = limitById(step, charged.limit);
    if (row === undefined) continue;
    const entry = entryOf(step, charged, startedAt);
    if (entry !== undefined) changeEntry(step, row, charged.entry, entry, -charged.weight);
    changeKeyState(step, row, (keyState) => cancelCharge(keyState, startedAt));
    windowFreed(step, row);
  }
}

/** A job, as far as its weights are concerned. */
export interface Weighed {
  readonly seq: number;
  readonly token: number;
  readonly started_at: number | null;
  readonly limits: string | null;
}

/** What a job that runs really used: its starts are corrected under every limit that weighs by one of these names. */
export function settleCharges(step: Step, job: Weighed, weights: Readonly<Record<string, number>>): void {
  const before = readCharges(job.limits);
  const after = before.map((charged): JobCharge => {
    const row = limitById(step, charged.limit);
    const used = row && usedOf(step, row.name, weights, true);
    return used === undefined ? charged : settleEntry(step, row!, charged, job.started_at ?? 0, used);
  });
  if (after.some((charged, i) => charged !== before[i])) step.sql(KEEP).run(textOfCharges(after), job.seq);
  for (const slots of step.sql(SLOTS).all(job.token) as (SlotsRow & { readonly name: string })[]) {
    const used = usedOf(step, slots.name, weights, false);
    if (used !== undefined) settleSlots(step, slots, job.token, used);
  }
}

/** A service refused the start: it weighs nothing, but for what the job has said that it used. Its lease is about to end. */
export function cancelWeights(
  step: Step,
  { limits, started_at: startedAt }: Pick<Weighed, "limits" | "started_at">,
  settled: readonly string[],
): void {
  for (const charged of readCharges(limits)) {
    const row = limitById(step, charged.limit);
    const rule = row && step.rules.byName.get(row.name);
    if (rule === undefined || rule.weight === null || rule.quota.max === null || settled.includes(rule.weight))
      continue;
    settleEntry(step, row!, charged, startedAt ?? 0, 0);
  }
}

/** What was used of a limit that weighs its window, or else its concurrency, by one of the names; undefined: it does not. */
function usedOf(
  step: Step,
  limit: string,
  weights: Readonly<Record<string, number>>,
  window: boolean,
): number | undefined {
  const rule = step.rules.byName.get(limit);
  if (rule === undefined || rule.weight === null || window !== (rule.quota.max !== null)) return undefined;
  return Object.hasOwn(weights, rule.weight) ? weights[rule.weight] : undefined;
}

/** As in `tokens.ts`, for a start that shares its entry with others. */
function settleEntry(step: Step, row: LimitRow, charged: JobCharge, startedAt: number, used: number): JobCharge {
  const entry = entryOf(step, charged, startedAt);
  if (entry !== undefined && step.now - entry.at < row.longest) {
    const weight = Math.max(0, used - charged.spent);
    const more = weight - charged.weight;
    if (more === 0) return charged;
    changeEntry(step, row, charged.entry, entry, more);
    if (more < 0) windowFreed(step, row);
    else chargeMore(step, row, more);
    return { ...charged, weight };
  }
  const spent = charged.spent + charged.weight;
  if (used <= spent) return { ...charged, entry: 0, at: null, weight: 0, spent };
  chargeMore(step, row, used - spent);
  const { seq, at } = recordStarts(step, row, used - spent);
  return { ...charged, entry: seq, at, weight: used - spent, spent };
}

function entryOf(step: Step, { limit, entry, at }: JobCharge, startedAt: number): Entry | undefined {
  const when = at ?? startedAt;
  return entry === 0 ? undefined : (step.sql(ENTRY).get(entry, limit, when, when) as Entry | undefined);
}

function changeEntry(step: Step, row: LimitRow, seq: number, { at, n }: Entry, by: number): void {
  const now = Math.max(0, n + by);
  step.sql(CHANGE).run(now, seq);
  shiftTotal(step, row, at, now - n);
}
