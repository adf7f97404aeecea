import { expectedDelay, lookAgainIn } from "./look-again.ts";
import {
  append,
  cancelStart as cancelCalled,
  createLog as createStartLog,
  changeStart,
  enterStart,
  expire,
  isKept,
  isSeen,
  moveStart,
  NOT_CALLED,
  place,
  type StartEntry as CalledStart,
  type StartLog as CalledStarts,
  type Unconfirmed,
  type WindowView,
} from "./start-log.ts";
import type { Wait } from "./wait.ts";

export { isKept, settleStart, viewOf, type WindowView, windowWait } from "./start-log.ts";

/**
 * A log of starts that others call, and that are confirmed later or never: where no more is known of a start, it counts from the
 * latest instant at which it may have been called (`until`).
 */
export interface StartLog extends CalledStarts {
  /** Starts that are granted and not called yet, linked, oldest first. */
  firstGranted: StartEntry | undefined;
  lastGranted: StartEntry | undefined;
}

export interface StartEntry extends CalledStart {
  readonly log: StartLog;
  /** When it was granted, and the latest instant at which it may be called. */
  readonly since: number;
  readonly until: number;
  /** The granted starts before and after it, while it is not called. */
  before: StartEntry | undefined;
  after: StartEntry | undefined;
}

/** `capacity`: the initial number of entries, a power of two. */
export function createLog(capacity?: number): StartLog {
  return { ...createStartLog(capacity), firstGranted: undefined, lastGranted: undefined };
}

/** The weight that the window counts now. */
export function windowUsed(log: StartLog, view: WindowView, now: number): number {
  expire(log, view, now);
  return view.total + log.grantedWeight;
}

/** A start is granted, and will be called (`callStart`) by `until`, or cancelled. */
export function grantStart(
  log: StartLog,
  now: number,
  weight: number,
  until: number = Number.POSITIVE_INFINITY,
): StartEntry {
  const before = log.lastGranted;
  const entry: StartEntry = { log, seq: NOT_CALLED, weight, expired: 0, since: now, until, before, after: undefined };
  if (before === undefined) log.firstGranted = entry;
  else before.after = entry;
  log.lastGranted = entry;
  log.grantedWeight += weight;
  const unconfirmed = (log.unconfirmed ??= new UnconfirmedStarts(log));
  if (until < unconfirmed.until) unconfirmed.until = until;
  return entry;
}

/** The start was called at this instant and counts from there. A start that is in the log already only moves later. */
export function callStart(entry: StartEntry, at: number): void {
  // A start that was cancelled was never called.
  if (entry.seq === NOT_CALLED) {
    const { unconfirmed } = entry.log;
    if (entry.weight > 0 && unconfirmed !== undefined) unconfirmed.calledIn = Math.max(0, at - entry.since);
    enter(entry, at);
  } else if (entry.weight > 0 && at > entry.until) delayStart(entry, at);
}

/** Moves a granted start into the log. */
function enter(entry: StartEntry, at: number): void {
  unlink(entry);
  enterStart(entry, at);
}

function unlink(entry: StartEntry): void {
  const { log, before, after } = entry;
  if (before === undefined) log.firstGranted = after;
  else before.after = after;
  if (after === undefined) log.lastGranted = before;
  else after.before = before;
  entry.before = undefined;
  entry.after = undefined;
}

/** As if the start had never been. */
export function cancelStart(entry: StartEntry): void {
  if (entry.seq === NOT_CALLED) unlink(entry);
  cancelCalled(entry);
}

/** Granted starts that are not confirmed yet. */
class UnconfirmedStarts implements Unconfirmed {
  readonly #log: StartLog;
  until = Number.POSITIVE_INFINITY;
  calledIn = 0;

  constructor(log: StartLog) {
    this.#log = log;
  }

  /** Starts whose `until` has passed count from it. */
  enterPassed(now: number): void {
    const passed: StartEntry[] = [];
    this.until = Number.POSITIVE_INFINITY;
    for (let entry = this.#log.firstGranted; entry !== undefined; entry = entry.after) {
      if (entry.until <= now) passed.push(entry);
      else this.until = Math.min(this.until, entry.until);
    }
    for (const entry of passed.toSorted((a, b) => a.until - b.until)) enter(entry, entry.until);
  }

  wait(view: WindowView, now: number, excess: number): Wait {
    const log = this.#log;
    const { windowMs } = view;
    const delay = expectedDelay(this.calledIn, windowMs);
    const waitFor = ({ since, until }: StartEntry): Wait =>
      lookAgainIn(now - (since + delay), windowMs, windowMs - (now - until));
    // Starts that should have left already are looked at again by `lookAgainIn`; the others leave in the order of their grants.
    const overdue: { readonly wait: Wait; readonly weight: number }[] = [];
    let granted = log.firstGranted;
    for (; granted !== undefined && now - (granted.since + delay) >= windowMs; granted = granted.after) {
      overdue.push({ wait: waitFor(granted), weight: granted.weight });
    }
    overdue.sort((a, b) => b.wait - a.wait);
    let wait = 0;
    for (let seq = view.from, left = excess; left > 0;) {
      const called = seq < log.tail ? windowMs - (now - log.at[seq & log.mask]!) : Number.POSITIVE_INFINITY;
      const next = granted === undefined ? Number.POSITIVE_INFINITY : waitFor(granted);
      const late = overdue.at(-1)?.wait ?? Number.POSITIVE_INFINITY;
      wait = Math.min(called, next, late);
      if (wait === late) left -= overdue.pop()!.weight;
      else if (wait === next) {
        left -= granted!.weight;
        granted = granted!.after;
      } else left -= log.weight[seq++ & log.mask]!;
    }
    return wait;
  }
}

/** Writes a start into the log, whether or not it fits. */
export function recordStart(log: StartLog, now: number, weight: number): StartEntry {
  return add(log, place(log, now), weight);
}

/** The same with an entry of its own, which is identified by its number alone. */
export function recordAlone(log: StartLog, now: number, weight: number): StartEntry {
  const seq = append(log, now);
  log.newestFrom = Number.NEGATIVE_INFINITY;
  return add(log, seq, weight);
}

function add(log: StartLog, seq: number, weight: number): StartEntry {
  const entry = entryAt(log, seq, 0);
  changeStart(entry, weight);
  return entry;
}

/** A start that is part of this entry, with this share of its weight. */
export function entryAt(log: StartLog, seq: number, weight: number): StartEntry {
  const at = seq < log.head ? log.forgottenAt : log.at[seq & log.mask]!;
  return { log, seq, weight, expired: 0, since: at, until: at, before: undefined, after: undefined };
}

/** One more start of the same instant, kept in one piece with those before it. */
export function growStart(entry: StartEntry, weight: number): void {
  changeStart(entry, entry.weight + weight);
}

/** Removes so much from starts that share one entry. */
export function shrinkStart(entry: StartEntry, weight: number): void {
  if (isKept(entry)) changeStart(entry, Math.max(0, entry.weight - weight));
}

/** The latest instant at which it can have happened, or what was charged for it later did; undefined: it has left the log. */
export function startedAt(entry: StartEntry): number | undefined {
  const { log, seq, until } = entry;
  if (!isKept(entry)) return undefined;
  return seq === NOT_CALLED ? until : log.at[seq & log.mask];
}

/** The start happened later than its decision: `now`. Those that share its entry keep their time. */
function delayStart(entry: StartEntry, now: number): void {
  const { log, seq } = entry;
  const kept = seq >= log.head;
  if (kept && now <= log.at[seq & log.mask]!) return;
  const newest = seq === log.tail - 1 && isSeen(log, seq);
  const alone = log.weight[seq & log.mask] === entry.weight;
  if (newest && (alone || now - log.newestFrom < log.resolution)) {
    log.at[seq & log.mask] = now;
    if (alone) log.newestFrom = now;
  } else {
    const { weight } = entry;
    if (kept) changeStart(entry, 0);
    moveStart(entry, now, weight);
  }
}
