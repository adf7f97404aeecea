import { LimitNotFoundError } from "../../../core/errors.ts";
import { cancelCharge } from "../../../limits/key-state.ts";
import { type Charge, mostOf, weighed } from "../../../limits/rule.ts";
import { PERMITS } from "../../../limits/starved.ts";
import { NEVER, WHEN_RELEASED } from "../../../limits/wait.ts";
import type { LimitGiven, LimitTake, LimitTaken } from "../../../storage/limit-storage.ts";
import { refuseOtherNames } from "../../../storage/stored-rules.ts";
import { changeKeyState, type LimitRow, limitById } from "./limit-row.ts";
import { pruneStarts } from "./prune.ts";
import type { Step } from "../step.ts";
import { cancelStart, endStart, isEnded, isIssued, type PermitStart, settleStart } from "./tokens.ts";
import { release, settleSlots, windowFreed } from "./release.ts";
import { grantOf } from "./grants.ts";
import { type SlotsRow, takeSlots } from "./slots.ts";
import { SqliteKeys, type SqliteKey } from "./keys.ts";

/** Every so many permits, old starts are deleted: there may be no worker that sweeps. */
const PRUNE_EVERY = 64;

/** What is only counted may be corrected for so long at least. */
const CORRECTED_MS = 600_000;

/** Of all that waits for a limit, callers outside of jobs come last. */
const LAST = Number.NEGATIVE_INFINITY;

const LIVE = "token = ? AND until IS NOT NULL AND until > ?";
const FIND = `SELECT limit_id, slots, at FROM sluice_slots WHERE ${LIVE}`;
const END = `DELETE FROM sluice_slots WHERE ${LIVE}`;
const RENEW = `UPDATE sluice_slots SET until = max(until, ?) WHERE ${LIVE}`;
const NAME = "UPDATE sluice_starts SET token = ? WHERE seq = ?";

function keyOf(step: Step, request: LimitTake): { key: SqliteKey; charge: Charge } {
  const { name, group, weight, grantTtlMs } = request;
  const rule = step.rules.byName.get(name);
  if (rule === undefined) throw new LimitNotFoundError(name);
  const key = new SqliteKeys(step, PERMITS, grantTtlMs).key(rule, rule.byGroup ? group : null);
  return { key, charge: weighed(rule.quota, weight ?? rule.estimate) };
}

/** The answer to a request that is refused, or only asks; undefined: it fits, or its refusal has to be written. */
export function ask(step: Step, request: LimitTake): LimitTaken | undefined {
  const { key, charge } = keyOf(step, request);
  if (key.unprepared) return undefined;
  const refused = refusal(key, charge, request);
  if (refused !== undefined) return key.isUnmarked && !onlyAsks(request) ? undefined : refused;
  return onlyAsks(request) ? NOTHING_TAKEN : undefined;
}

const NOTHING_TAKEN: LimitTaken = { granted: true, token: "", held: false };

const onlyAsks = ({ weight, dry }: LimitTake): boolean => weight === 0 || dry === true;

function refusal(key: SqliteKey, charge: Charge, request: LimitTake): LimitTaken | undefined {
  const others = refuseOtherNames(key.rule, request);
  if (others !== undefined) return others;
  const { weight } = request;
  const wait = key.wait(charge, weight === 0 ? undefined : LAST);
  if (wait === 0) return undefined;
  return {
    granted: false,
    retryInMs: wait === NEVER || wait === WHEN_RELEASED ? null : wait,
    most: mostOf(key.quota, charge) ?? null,
  };
}

/** Checks and charges under the lock. */
export function take(step: Step, request: LimitTake): LimitTaken {
  const { key, charge } = keyOf(step, request);
  key.prepare();
  const refused = refusal(key, charge, request);
  if (refused !== undefined) {
    if (!onlyAsks(request)) key.mark();
    return refused;
  }
  if (onlyAsks(request)) return NOTHING_TAKEN;
  const number = step.numbers(1);
  key.take(charge);
  const { grantTtlMs: ttlMs } = request;
  const id = key.limitState.save(ttlMs === undefined ? undefined : { number, ttlMs }, { alone: true });
  if (key.limitState.entry > 0) step.sql(NAME).run(number, key.limitState.entry);
  const until = key.takesSlots ? 0 : step.now + Math.max(request.ttlMs, key.quota.windowMs ?? 0, CORRECTED_MS);
  if (key.takesSlots) takeSlots(step, id, number, charge.slots, step.now + request.ttlMs);
  // A group that is idle would be forgotten before.
  else if (key.rule.byGroup && key.limitState.entry > 0) takeSlots(step, id, number, 0, until);
  if (number % PRUNE_EVERY === 0) pruneStarts(step, id);
  const token = [id, number, charge.weight, step.now, until].join(":");
  const grant = ttlMs === undefined ? undefined : grantOf(number, [{ key, charge }]);
  return { granted: true, token, held: key.takesSlots, ...(grant !== undefined && { grant }) };
}

/** What a permit says about itself. */
interface Permit {
  readonly row: LimitRow | undefined;
  readonly start: PermitStart;
  /** Its slots; undefined: it has none. */
  readonly slots: SlotsRow | undefined;
  /** It has ended, and can only be corrected. */
  readonly ended: boolean;
}

export function give(step: Step, token: string, given: LimitGiven): void {
  const permit = read(step, token);
  if (permit === undefined || (permit.ended && typeof given === "string")) return;
  if (given === "released") end(step, permit);
  else if (given === "cancelled") cancel(step, permit);
  else settle(step, permit, given.used);
}

/** Keeps slots for longer. Answers with the tokens that are lost. */
export function renew(step: Step, tokens: readonly string[], ttlMs: number): string[] {
  const until = step.now + ttlMs;
  return tokens.filter((token) => {
    const [, number, , , corrected] = partsOf(token);
    return number === undefined || corrected !== 0 || step.sql(RENEW).run(until, number, step.now).changes === 0;
  });
}

function end(step: Step, permit: Permit): void {
  if (permit.row !== undefined) endStart(step, permit.row, permit.start);
  endSlots(step, permit);
}

function endSlots(step: Step, { start, slots }: Permit): void {
  if (slots === undefined) return;
  step.sql(END).run(start.number, step.now);
  release(step, [slots]);
}

function cancel(step: Step, permit: Permit): void {
  const { row, start } = permit;
  endSlots(step, permit);
  if (row === undefined) return;
  const cancelled = cancelStart(step, row, start.number);
  endStart(step, row, start);
  if (!cancelled && row.window_ms !== null) return;
  changeKeyState(step, row, (keyState) => cancelCharge(keyState, start.at));
  windowFreed(step, row);
}

function settle(step: Step, { row, start, slots }: Permit, used: number): void {
  // After a reset the slots are kept under another id; what was counted is nowhere.
  const name = (slots === undefined ? row : limitById(step, slots.limit_id))?.name;
  const rule = name === undefined ? undefined : step.rules.byName.get(name);
  if (rule === undefined) return;
  if (rule.quota.max !== null) {
    if (row !== undefined) settleStart(step, row, start, used, start.until);
  } else if (slots !== undefined) settleSlots(step, slots, start.number, used);
}

/** What there is of a permit, unless it has ended or expired. */
function read(step: Step, token: string): Permit | undefined {
  const [id, number, reserved, at, until] = partsOf(token);
  if (id === undefined || number === undefined) return undefined;
  if (!isIssued(step, number)) return undefined;
  const slots = step.sql(FIND).get(number, step.now) as SlotsRow | undefined;
  const ended = slots === undefined && isEnded(step, number);
  if (slots === undefined && !ended && step.now >= until!) return undefined;
  return { row: limitById(step, id), start: { number, reserved: reserved!, at: at!, until: until! }, slots, ended };
}

function partsOf(token: string): readonly (number | undefined)[] {
  if (typeof token !== "string") return [];
  const parts = token.split(":").map(Number);
  return parts.length === 5 && parts.every((part) => part >= 0) ? parts : [];
}
