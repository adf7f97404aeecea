import { knownWait } from "../../../limits/wait.ts";
import type { Claim, ClaimRequest } from "../../../storage/job-storage.ts";
import { Allowance, STEP_BYTES } from "../../../storage/step-bytes.ts";
import { isUnsaid, remember } from "../limits/claim-limits.ts";
import { confirm } from "../limits/grants.ts";
import type { Step } from "../step.ts";
import { ClaimRoom, isUniform } from "./claim-room.ts";
import { claimUnder, glanceUnder } from "./claim-under.ts";
import { catchUp, isAnyLate, nextDueAt } from "./due.ts";
import { type Giving, giving, isPrefetchable, type Wanted } from "./giving.ts";
import { emptyAfter, LOOK_AT_FIRST, recount } from "./lanes.ts";
import { OpenTypes } from "./ready.ts";
import { type JobRow, toRecord } from "./record.ts";
import { settle } from "./settle.ts";
import type { Started } from "./started.ts";

const START = `UPDATE sluice_jobs SET state = 'active', attempt = attempt + 1, started_at = ?, lease_until = ?, worker = ?,
  limits = ?, token = ? WHERE seq = ?`;
// The same for many jobs, as a list of numbers, each with a token of its own. OR FAIL, here and below: SQLite keeps a copy of every page that
// a statement for many rows changes, in case it fails in the middle. A step that fails is rolled back as a whole, so nothing needs the copy.
const MANY_STARTED = `UPDATE OR FAIL sluice_jobs SET state = 'active', attempt = attempt + 1, started_at = ?, lease_until = ?, worker = ?,
  limits = ?, token = ? + picked.key FROM json_each(?) AS picked WHERE sluice_jobs.seq = picked.value`;
// Neither the turn nor an empty lane: no index has what is changed.
const COUNTED = "UPDATE sluice_lanes SET waiting = waiting - ? WHERE id = ?";
const SERVED = `UPDATE sluice_lanes SET turn = ?, waiting = waiting - ?, ${emptyAfter("?")} WHERE id = ?`;
// The same for many lanes, as a list of [id, turn, how many it gave].
const MANY_SERVED = `UPDATE OR FAIL sluice_lanes SET turn = served.value ->> 1, waiting = waiting - (served.value ->> 2),
  ${emptyAfter("(served.value ->> 2)")} FROM json_each(?) AS served WHERE sluice_lanes.id = served.value ->> 0`;
/** From so many on it is less work to write jobs, or lanes, together: of a hundred a fifth less, of one twice as much. */
const MANY = 5;

/** Settles, then takes jobs and room together. */
export function claim(step: Step, request: ClaimRequest): Claim {
  confirm(step, request.confirm ?? []);
  const stale = settle(step, request.settle);
  catchUp(step, request.queue);
  remember(step, request);
  const types = new OpenTypes(step, request.queue, request.types);
  const rules = step.rules.forClaim(request);
  // Lanes with keys go by their first jobs: that is for the planner.
  if (!isUniform(rules, request) || types.keyed) return { stale, ...claimUnder(step, request, types, rules) };
  const room = new ClaimRoom(step, rules, request);
  room.prepare();
  const max = request.max > 0 && !types.paused ? Math.min(request.max, room.free) : 0;
  const ahead = types.paused || rules.length > 0 ? 0 : (request.ahead ?? 0);
  if (max + ahead === 0) return { jobs: [], stale, ...wakeUpOf(step, request, types, room, types.anyWaits) };
  // One more than starts, to see whether anything is left.
  const units = types.units(max + 1, max + ahead + 1);
  // Groups take turns when jobs start: nothing is prefetched then. Without groups the first units have most of the jobs.
  const want = units.every(({ lanes: [lane] }) => lane!.group === "") ? max + ahead : max;
  const wanted = { max, most: want, maxBytes: request.maxBytes ?? STEP_BYTES };
  const given = units.length === 0 || want === 0 ? [] : giving(step, types, units, wanted);
  const dealt = deal(given);
  const rows = allowed(dealt, wanted);
  const { jobs, grant } = rows.length === 0 ? NOTHING : start(step, request, given, rows, room);
  let counted = 0;
  for (const { waiting } of units) counted += waiting;
  // Fewer jobs were found than were counted: rows were deleted by hand, or many are too late to start.
  const wrong = rows.length === dealt.length && jobs.length < Math.min(want, counted);
  if (wrong) for (const { lanes } of units) for (const { id } of lanes) recount(step, id);
  // Where all that was seen has started there may be units that were not looked at.
  const unseen = counted === jobs.length && units.length > max;
  const found = wakeUpOf(step, request, types, room, wrong || unseen ? types.anyWaits : counted > jobs.length);
  return { jobs, stale, ...found, ...(grant !== undefined && { grant }) };
}

const NOTHING: Started = { jobs: [], grant: undefined };

/**
 * The same without any lock, where it takes nothing: the answer to a claim in vain, or to one that only looks.
 * Undefined: there is something to do.
 */
export function glance(step: Step, request: ClaimRequest): Claim | undefined {
  // Workers of one queue may differ in what they bring along: a claim in vain takes no lock for that.
  if (isAnyLate(step) || (request.limits.length > 0 && isUnsaid(step, request.queue))) return undefined;
  const types = new OpenTypes(step, request.queue, request.types);
  const rules = step.rules.forClaim(request);
  if (!isUniform(rules, request)) {
    const seen = glanceUnder(step, request, types, rules);
    return seen && { stale: [], ...seen };
  }
  const room = new ClaimRoom(step, rules, request);
  if (room.unprepared) return undefined;
  const waits = types.anyWaits || isDue(step, request, types);
  const prefetches = rules.length === 0 && (request.ahead ?? 0) > 0;
  if (waits && (prefetches || (request.max > 0 && room.free > 0))) return undefined;
  return { jobs: [], stale: [], ...wakeUpOf(step, request, types, room, waits) };
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
  room: ClaimRoom,
  waits: boolean,
): Pick<Claim, "more" | "nextInMs" | "blockedBy"> {
  const dueAt = types.paused ? null : waits ? step.now : nextDueAt(step, queue, (type) => types.has(type));
  if (dueAt === null) return { more: false, nextInMs: null, blockedBy: null };
  const { wait, blockedBy } = room.next;
  return {
    more: waits && wait === 0,
    nextInMs: knownWait(Math.max(wait, dueAt - step.now)),
    blockedBy: waits ? blockedBy : null,
  };
}

/** Starts the next jobs, in the order of turns. */
function start(
  step: Step,
  { worker, leaseMs }: ClaimRequest,
  units: readonly Giving[],
  rows: readonly JobRow[],
  room: ClaimRoom,
): Started {
  const { now } = step;
  const leaseUntil = now + leaseMs;
  let token = step.numbers(rows.length);
  const { limits, grant } = room.take(rows.length, token);
  if (rows.length >= MANY) {
    const list = JSON.stringify(rows.map(({ seq }) => seq));
    step.sql(MANY_STARTED).run(now, leaseUntil, worker, limits, token, list);
  } else {
    for (const [i, { seq }] of rows.entries()) step.sql(START).run(now, leaseUntil, worker, limits, token + i, seq);
  }
  const gave = new Map<number, { count: number; turn: number }>();
  const jobs = rows.map((row) => {
    const lease = { worker, startedAt: now, leaseUntil, token: token++ };
    const lane = gave.get(row.lane!);
    if (lane === undefined) gave.set(row.lane!, { count: 1, turn: lease.token });
    else {
      lane.count += 1;
      lane.turn = lease.token;
    }
    const { queue, id, type, attempt } = row;
    if (step.eventsWanted) step.event({ event: "started", queue, id, type, attempt: attempt + 1, worker });
    return toRecord(row, step.skew, lease);
  });
  const served: [lane: number, turn: number, gave: number][] = [];
  for (const { lanes, alone } of units) {
    const turn = Math.max(...lanes.map(({ id }) => gave.get(id)?.turn ?? 0));
    if (turn === 0) continue;
    for (const lane of lanes) {
      const count = gave.get(lane.id)?.count ?? 0;
      if (!alone || lane.turn === 0 || count >= lane.waiting) served.push([lane.id, turn, count]);
      else if (count > 0) step.sql(COUNTED).run(count, lane.id);
    }
  }
  if (served.length >= MANY) step.sql(MANY_SERVED).run(now, JSON.stringify(served));
  else for (const [lane, turn, count] of served) step.sql(SERVED).run(turn, count, count, now, lane);
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
function deal(units: readonly Giving[]): readonly JobRow[] {
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
