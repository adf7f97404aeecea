import { cancelCharge } from "../../../limits/key-state.ts";
import { type LimitRow, limitById } from "../limit-row.ts";
import type { Step } from "../step.ts";
import { shiftTotal } from "../totals.ts";
import { recordStarts } from "../windows.ts";
import { release, windowFreed } from "./freed.ts";
import { chargeMore, keyStateOf, saveKeyState } from "./key-state.ts";
import type { EndedHold } from "./holds.ts";

/** What the start of a job took of one limit. */
export interface Taken {
  /** The id of the limit. */
  readonly limit: number;
  /** Where in the log the start was written down (0: nowhere), and when, if that was not when the job started. */
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
const SLOTS = `SELECT name, limit_id, slots, at FROM sluice_holds JOIN sluice_limits ON id = limit_id WHERE token = ?`;
const SET_SLOTS = "UPDATE sluice_holds SET slots = ? WHERE limit_id = ? AND token = ?";

interface Entry {
  readonly at: number;
  readonly n: number;
}

/** It is kept with every job that runs: as a list of lists, without what goes without saying. */
export const textOfTaken = (taken: readonly Taken[]): string =>
  JSON.stringify(
    taken.map(({ limit, entry, at, weight, spent }) => {
      const said = [limit, entry, weight, spent, at];
      if (at === null) said.length = spent === 0 ? (weight === 1 ? (entry === 0 ? 1 : 2) : 3) : 4;
      return said;
    }),
  );

/** What is kept with a job; nothing, if that cannot be read. */
export function readTaken(text: string | null): readonly Taken[] {
  if (text === null) return [];
  try {
    const list: unknown = JSON.parse(text);
    return Array.isArray(list) ? list.filter(isTaken).map(toTaken) : [];
  } catch {
    return [];
  }
}

const isTaken = (one: unknown): one is number[] =>
  Array.isArray(one) && one.length > 0 && one.every((value) => typeof value === "number");

const toTaken = ([limit, entry = 0, weight = 1, spent = 0, at = null]: readonly (number | null)[]): Taken => ({
  limit: limit!,
  entry: entry!,
  weight: weight!,
  spent: spent!,
  at,
});

/** The start of this instant never was. What was cleared since has another id, and keeps its starts. */
export function cancelTaken(step: Step, text: string | null, startedAt: number): void {
  for (const taken of readTaken(text)) {
    const row = limitById(step, taken.limit);
    if (row === undefined) continue;
    const { entry: seq, weight } = taken;
    const entry = entryOf(step, taken, startedAt);
    if (entry !== undefined) changeEntry(step, row, seq, entry, -weight);
    const keyState = keyStateOf(row);
    cancelCharge(keyState, startedAt);
    saveKeyState(step, row.id, keyState);
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
export function settleTaken(step: Step, job: Weighed, weights: Readonly<Record<string, number>>): void {
  const before = readTaken(job.limits);
  const after = before.map((taken): Taken => {
    const row = limitById(step, taken.limit);
    const used = row && usedOf(step, row.name, weights, true);
    return used === undefined ? taken : settleEntry(step, row!, taken, job.started_at ?? 0, used);
  });
  if (after.some((taken, i) => taken !== before[i])) step.sql(KEEP).run(textOfTaken(after), job.seq);
  for (const held of step.sql(SLOTS).all(job.token) as (EndedHold & { readonly name: string })[]) {
    const used = usedOf(step, held.name, weights, false);
    if (used !== undefined) settleSlots(step, held, job.token, used);
  }
}

/** A service refused the start: it weighs nothing, but for what the job has said that it used. Its lease is about to end. */
export function giveWeightsBack(
  step: Step,
  { limits, started_at: startedAt }: Pick<Weighed, "limits" | "started_at">,
  settled: readonly string[],
): void {
  for (const taken of readTaken(limits)) {
    const row = limitById(step, taken.limit);
    const rule = row && step.rules.byName.get(row.name);
    if (rule === undefined || rule.weight === null || rule.quota.max === null || settled.includes(rule.weight))
      continue;
    settleEntry(step, row!, taken, startedAt ?? 0, 0);
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
function settleEntry(step: Step, row: LimitRow, taken: Taken, startedAt: number, used: number): Taken {
  const { entry: seq, weight, spent } = taken;
  const entry = entryOf(step, taken, startedAt);
  if (entry !== undefined && step.now - entry.at < row.longest) {
    const now = Math.max(0, used - spent);
    if (now === weight) return taken;
    changeEntry(step, row, seq, entry, now - weight);
    if (now < weight) windowFreed(step, row);
    else chargeMore(step, row, now - weight);
    return { ...taken, weight: now };
  }
  const gone = spent + weight;
  const expired = { ...taken, entry: 0, at: null, weight: 0, spent: gone };
  if (used <= gone) return expired;
  chargeMore(step, row, used - gone);
  const again = recordStarts(step, row, used - gone);
  return { ...expired, entry: again.seq, at: again.at, weight: used - gone };
}

function settleSlots(step: Step, held: EndedHold, token: number, used: number): void {
  if (held.slots === used) return;
  step.sql(SET_SLOTS).run(used, held.limit_id, token);
  if (used < held.slots) release(step, [{ ...held, slots: held.slots - used }]);
}

function entryOf(step: Step, { limit, entry, at }: Taken, startedAt: number): Entry | undefined {
  const when = at ?? startedAt;
  return entry === 0 ? undefined : (step.sql(ENTRY).get(entry, limit, when, when) as Entry | undefined);
}

function changeEntry(step: Step, row: LimitRow, seq: number, { at, n }: Entry, by: number): void {
  const now = Math.max(0, n + by);
  step.sql(CHANGE).run(now, seq);
  shiftTotal(step, row, at, now - n);
}
