import { LimitNotFoundError } from "../../../core/errors.ts";
import { gaugeCancel } from "../../../limits/gauge.ts";
import { type Charge, mostOf, weighed } from "../../../limits/rule.ts";
import { NEVER, WHEN_RELEASED } from "../../../limits/wait.ts";
import type { LimitGiven, LimitTake, LimitTaken } from "../../../storage/limit-storage.ts";
import { type LimitRow, limitById } from "../limit-row.ts";
import { pruneStarts } from "../prune.ts";
import type { Step } from "../step.ts";
import { cancelStart, forgetStart, isIssued, settleHeld } from "../tokens.ts";
import { release, windowFreed } from "./freed.ts";
import { gaugeOf, saveGauge } from "./gauges.ts";
import { type EndedHold, hold } from "./holds.ts";
import { Meters, type SqliteMeter } from "./meter.ts";

/** Every so many permits, old starts are deleted by whoever takes one: there may be nobody who sweeps. */
const PRUNE_EVERY = 64;

const HELD = "token = ? AND until IS NOT NULL AND until > ?";
const FIND = `SELECT limit_id, slots, at FROM sluice_holds WHERE ${HELD}`;
const END = `DELETE FROM sluice_holds WHERE ${HELD} RETURNING limit_id, slots, at`;
const CORRECT = `UPDATE sluice_holds SET slots = ? WHERE ${HELD}`;
const RENEW = `UPDATE sluice_holds SET until = ? WHERE ${HELD}`;
const NAME = "UPDATE sluice_starts SET token = ? WHERE seq = ?";

function meterOf(step: Step, { name, group, weight }: LimitTake): { meter: SqliteMeter; charge: Charge } {
  const rule = step.rules.byName.get(name);
  if (rule === undefined) throw new LimitNotFoundError(name);
  const meter = new Meters(step).meter(rule, rule.byGroup ? group : null);
  return { meter, charge: weighed(rule.quota, weight ?? rule.estimate) };
}

/** What a request is told that gets nothing, or only asks; undefined: it fits. */
export function ask(step: Step, request: LimitTake): LimitTaken | undefined {
  const { meter, charge } = meterOf(step, request);
  if (meter.unprepared) return undefined;
  return refusal(meter, charge) ?? (request.weight === 0 ? { granted: true, token: "", held: false } : undefined);
}

function refusal(meter: SqliteMeter, charge: Charge): LimitTaken | undefined {
  const wait = meter.wait(charge);
  if (wait === 0) return undefined;
  return {
    granted: false,
    retryInMs: wait === NEVER || wait === WHEN_RELEASED ? null : wait,
    most: mostOf(meter.quota, charge) ?? null,
  };
}

/** Checks and takes. The lock is held, so nobody comes in between. */
export function take(step: Step, request: LimitTake): LimitTaken {
  const { meter, charge } = meterOf(step, request);
  meter.prepare();
  const refused = refusal(meter, charge);
  if (refused !== undefined) return refused;
  if (request.weight === 0) return { granted: true, token: "", held: false };
  const number = step.numbers(1);
  meter.take(charge);
  const id = meter.account.save({ alone: true });
  if (meter.account.entry > 0) step.sql(NAME).run(number, meter.account.entry);
  if (meter.holds) hold(step, id, number, charge.slots, step.now + request.ttlMs);
  if (number % PRUNE_EVERY === 0) pruneStarts(step, id);
  // What is only counted can be taken back for as long as it is.
  const until = meter.holds ? 0 : step.now + Math.max(request.ttlMs, meter.quota.windowMs ?? 0);
  return { granted: true, token: [id, number, charge.weight, step.now, until].join(":"), held: meter.holds };
}

/** What a permit says about itself. */
interface Permit {
  readonly row: LimitRow | undefined;
  readonly number: number;
  /** What its start counts for. */
  readonly weight: number;
  readonly at: number;
  /** What it holds; undefined: nothing. */
  readonly held: EndedHold | undefined;
}

export function give(step: Step, token: string, given: LimitGiven): void {
  const permit = read(step, token);
  if (permit === undefined) return;
  if (given === "released") end(step, permit);
  else if (given === "cancelled") cancel(step, permit);
  else settle(step, permit, given.used);
}

/** Keeps what is held. Answers with the tokens that are lost. */
export function renew(step: Step, tokens: readonly string[], ttlMs: number): string[] {
  const until = step.now + ttlMs;
  return tokens.filter((token) => {
    const [, number] = partsOf(token);
    return number === undefined || step.sql(RENEW).run(until, number, step.now).changes === 0;
  });
}

function end(step: Step, { number, held }: Permit): void {
  forgetStart(step, number);
  letGo(step, number, held);
}

function letGo(step: Step, number: number, held: EndedHold | undefined): void {
  if (held === undefined) return;
  step.sql(END).all(number, step.now);
  release(step, [held]);
}

function cancel(step: Step, permit: Permit): void {
  const { row, number, weight, at, held } = permit;
  letGo(step, number, held);
  if (row === undefined || (!cancelStart(step, row, number) && row.window_ms !== null)) return;
  const gauge = gaugeOf(row);
  gaugeCancel(gauge, { weight, slots: 1 }, at);
  saveGauge(step, row.id, gauge);
  windowFreed(step, row);
}

function settle(step: Step, { row, number, held }: Permit, used: number): void {
  // After a reset what is held is kept elsewhere; what was counted is nowhere.
  const name = (held === undefined ? row : limitById(step, held.limit_id))?.name;
  const rule = name === undefined ? undefined : step.rules.byName.get(name);
  if (rule === undefined) return;
  if (rule.quota.max !== null) {
    if (row !== undefined) settleHeld(step, row, number, used);
  } else if (held !== undefined && held.slots !== used) {
    step.sql(CORRECT).run(used, number, step.now);
    if (used < held.slots) release(step, [{ ...held, slots: held.slots - used }]);
  }
}

/** What there is of a permit, unless it has ended or expired. */
function read(step: Step, token: string): Permit | undefined {
  const [id, number, weight, at, until] = partsOf(token);
  if (id === undefined || number === undefined || weight === undefined || at === undefined) return undefined;
  if (!isIssued(step, number)) return undefined;
  const held = step.sql(FIND).get(number, step.now) as EndedHold | undefined;
  if (held === undefined && step.now >= until!) return undefined;
  return { row: limitById(step, id), number, weight, at, held };
}

function partsOf(token: string): readonly (number | undefined)[] {
  if (typeof token !== "string") return [];
  const parts = token.split(":").map(Number);
  return parts.length === 5 && parts.every((part) => part >= 0) ? parts : [];
}
