import { expectedDelay, lookAgainIn } from "./look-again.ts";
import { NEVER, type Wait } from "./wait.ts";

/**
 * At most `max` in any `windowMs`, exactly, by the instants of the calls.
 *
 * The log keeps the starts, oldest first, in a ring of two arrays. Looking at it moves a cursor past the entries that
 * have left the window; each entry is passed once, so a decision costs O(1) whatever `max` is. No fixed windows, no
 * estimate. Starts within a thousandth of the window (0.1 ms at the most) share an entry, stamped with the latest of
 * them: never over, hardly later, and the log is bounded by time and not by `max`.
 *
 * A start that is granted and not called yet is kept beside the log: it counts, and leaves no window before it was called.
 * Where this process does not learn of the call, it counts from the latest instant at which it may have been made (`until`).
 *
 * One log may serve several windows ("10 a second and 300 a minute under one name"): each length has a view of its
 * own, and entries are kept for the longest.
 *
 * Ages are compared by subtraction (`now - at >= windowMs`), which is exact for doubles this near to each other;
 * `at + windowMs <= now` is not.
 */
export interface StartLog {
  /** When the latest start of entry `i` was: `at[i & mask]`. Never decreases from one entry to the next. */
  at: Float64Array;
  /** What entry `i` counts for: `weight[i & mask]`. */
  weight: Float64Array;
  mask: number;
  /** Starts that are less than this apart share an entry, counted from the first of the newest entry. */
  resolution: number;
  newestFrom: number;
  /** Number of the oldest entry kept, and of the next one to come. They only ever grow. */
  head: number;
  tail: number;
  /** When the newest entry that is no longer kept started. */
  forgottenAt: number;
  readonly views: WindowView[];
  /** Starts that are granted and not called yet, linked, oldest first; what they weigh together; the first `until` of them. */
  firstGranted: StartEntry | undefined;
  lastGranted: StartEntry | undefined;
  grantedWeight: number;
  grantedUntil: number;
  /** How long the latest call that was confirmed took from its grant. */
  calledIn: number;
}

/** What one window length sees of a log. */
export interface WindowView {
  readonly windowMs: number;
  /** Number of the oldest entry inside the window. */
  from: number;
  /** Sum of the weights from there on. */
  total: number;
  /** The latest start that the log had dropped when this view was made. Until it has left the window, the window counts as full. */
  blindFor: number;
}

/** One start in the log, and what it counts for. */
export interface StartEntry {
  readonly log: StartLog;
  /** The entry that it is part of; `NOT_CALLED`: none yet. */
  seq: number;
  /** Its part of the weight of that entry. */
  weight: number;
  /** The part of its charge that has left every window. It is never returned. */
  expired: number;
  /** When it was granted, and the latest instant at which it may be called. */
  readonly since: number;
  readonly until: number;
  /** The granted starts before and after it, while it is not called. */
  before: StartEntry | undefined;
  after: StartEntry | undefined;
}

const NOT_CALLED = -1;
const CANCELLED = -2;

const FINEST_MS = 0.1;

/** The initial number of entries; from the second number on an empty log frees its memory. */
const SMALLEST = 16;
const LARGE = 1_024;

/** `capacity`: the initial number of entries, a power of two. */
export function createLog(capacity: number = SMALLEST): StartLog {
  return {
    at: new Float64Array(capacity),
    weight: new Float64Array(capacity),
    mask: capacity - 1,
    resolution: FINEST_MS,
    newestFrom: Number.NEGATIVE_INFINITY,
    head: 0,
    tail: 0,
    forgottenAt: Number.NEGATIVE_INFINITY,
    views: [],
    firstGranted: undefined,
    lastGranted: undefined,
    grantedWeight: 0,
    grantedUntil: Number.POSITIVE_INFINITY,
    calledIn: 0,
  };
}

/** The view of this length, made on first use. */
export function viewOf(log: StartLog, windowMs: number): WindowView {
  for (const view of log.views) if (view.windowMs === windowMs) return view;
  let total = 0;
  for (let i = log.head; i < log.tail; i++) total += log.weight[i & log.mask]!;
  const view = { windowMs, from: log.head, total, blindFor: log.forgottenAt };
  log.views.push(view);
  log.resolution = Math.min(log.resolution, windowMs / 1_000);
  return view;
}

/** When does `weight` more fit under `max` in this view? */
export function windowWait(log: StartLog, view: WindowView, max: number, now: number, weight: number): Wait {
  if (weight > max) return NEVER;
  expire(log, view, now);
  const blind = Math.max(0, view.windowMs - (now - view.blindFor));
  let excess = view.total + log.grantedWeight + weight - max;
  if (excess <= 0) return blind;
  if (log.grantedWeight > 0) return Math.max(blind, hopefulWait(log, view, now, excess));
  let last = view.from - 1;
  while (excess > 0) excess -= log.weight[++last & log.mask]!;
  return Math.max(blind, view.windowMs - (now - log.at[last & log.mask]!));
}

/** When to look whether `excess` has left the window, if some of it is not called yet. */
function hopefulWait(log: StartLog, view: WindowView, now: number, excess: number): Wait {
  const { windowMs } = view;
  const delay = expectedDelay(log.calledIn, windowMs);
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
  if (until < log.grantedUntil) log.grantedUntil = until;
  return entry;
}

/** The start was called at this instant and counts from there. A start that is in the log already only moves later. */
export function callStart(entry: StartEntry, at: number): void {
  if (entry.seq === NOT_CALLED) {
    // A start that was cancelled was never called, so `calledIn` is not updated.
    if (entry.weight > 0) entry.log.calledIn = Math.max(0, at - entry.since);
    enter(entry, at);
  } else if (entry.weight > 0 && at > entry.until) delayStart(entry, at);
}

/** Moves a granted start into the log. */
function enter(entry: StartEntry, at: number): void {
  leave(entry);
  entry.seq = place(entry.log, at);
  weigh(entry.log, entry.seq, entry.weight);
}

/** Unlinks a granted start. */
function leave(entry: StartEntry): void {
  const { log, before, after } = entry;
  if (before === undefined) log.firstGranted = after;
  else before.after = after;
  if (after === undefined) log.lastGranted = before;
  else after.before = before;
  entry.before = undefined;
  entry.after = undefined;
  log.grantedWeight -= entry.weight;
}

/** Starts whose `until` has passed count from it. */
function enterPassed(log: StartLog, now: number): void {
  const passed: StartEntry[] = [];
  log.grantedUntil = Number.POSITIVE_INFINITY;
  for (let entry = log.firstGranted; entry !== undefined; entry = entry.after) {
    if (entry.until <= now) passed.push(entry);
    else log.grantedUntil = Math.min(log.grantedUntil, entry.until);
  }
  for (const entry of passed.toSorted((a, b) => a.until - b.until)) enter(entry, entry.until);
}

/** Writes a start into the log, whether or not it fits. */
export function recordStart(log: StartLog, now: number, weight: number): StartEntry {
  return add(log, place(log, now), weight);
}

/** The entry that a start of this instant is part of. */
function place(log: StartLog, now: number): number {
  const newest = log.tail - 1;
  const shares = now - log.newestFrom < log.resolution && newest >= log.head && seenByAll(log, newest);
  const seq = shares ? newest : append(log, now);
  if (now > log.at[seq & log.mask]!) log.at[seq & log.mask] = now;
  return seq;
}

/** The same with an entry of its own, which is identified by its number alone. */
export function recordAlone(log: StartLog, now: number, weight: number): StartEntry {
  const seq = append(log, now);
  log.newestFrom = Number.NEGATIVE_INFINITY;
  return add(log, seq, weight);
}

function add(log: StartLog, seq: number, weight: number): StartEntry {
  weigh(log, seq, weight);
  return entryAt(log, seq, weight);
}

/** A start that is part of this entry, with this share of its weight. */
export function entryAt(log: StartLog, seq: number, weight: number): StartEntry {
  const at = seq < log.head ? log.forgottenAt : log.at[seq & log.mask]!;
  return { log, seq, weight, expired: 0, since: at, until: at, before: undefined, after: undefined };
}

/** The entry counts for so much more. */
function weigh(log: StartLog, seq: number, weight: number): void {
  log.weight[seq & log.mask]! += weight;
  for (let i = 0; i < log.views.length; i++) log.views[i]!.total += weight;
}

/** One more start of the same instant, kept in one piece with those before it. */
export function growStart(entry: StartEntry, weight: number): void {
  change(entry, entry.weight + weight);
}

/** Removes so much from starts that share one entry. */
export function shrinkStart(entry: StartEntry, weight: number): void {
  if (isKept(entry)) change(entry, Math.max(0, entry.weight - weight));
}

/**
 * Sets what a start really used; the latest call holds. Inside the window the start's own entry changes, so the difference
 * counts at once. After the entry has expired, more is charged from now on, and less is not returned.
 */
export function settleStart(entry: StartEntry, now: number, used: number): void {
  const { log } = entry;
  for (const view of log.views) expire(log, view, now);
  forget(log);
  if (!isKept(entry)) {
    entry.expired += entry.weight;
    entry.weight = 0;
    if (used > entry.expired) move(entry, now, used - entry.expired);
  } else {
    change(entry, Math.max(0, used - entry.expired));
  }
}

/** As if the start had never been. */
export function cancelStart(entry: StartEntry): void {
  if (isKept(entry)) change(entry, 0);
  if (entry.seq !== NOT_CALLED) return;
  leave(entry);
  entry.seq = CANCELLED;
}

/** Is it in the log, or beside it? */
export const isKept = ({ log, seq }: StartEntry): boolean => seq >= log.head || seq === NOT_CALLED;

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
  const newest = seq === log.tail - 1 && seenByAll(log, seq);
  const alone = log.weight[seq & log.mask] === entry.weight;
  if (newest && (alone || now - log.newestFrom < log.resolution)) {
    log.at[seq & log.mask] = now;
    if (alone) log.newestFrom = now;
  } else {
    const { weight } = entry;
    if (kept) change(entry, 0);
    move(entry, now, weight);
  }
}

/** Is it still inside every window? A view does not count an entry again that its cursor has passed. */
function seenByAll(log: StartLog, seq: number): boolean {
  for (let i = 0; i < log.views.length; i++) if (log.views[i]!.from > seq) return false;
  return true;
}

/** From now on the start is part of another entry. */
function move(entry: StartEntry, now: number, weight: number): void {
  const moved = recordStart(entry.log, now, weight);
  entry.seq = moved.seq;
  entry.weight = moved.weight;
}

/** A new entry, still without weight. */
function append(log: StartLog, now: number): number {
  if (log.tail - log.head > log.mask) {
    forget(log);
    if (log.tail - log.head > log.mask) resize(log, (log.mask + 1) * 2);
  }
  const seq = log.tail++;
  // Time does not run backwards in a log, whatever the clock does: no entry lies before the one it follows.
  log.at[seq & log.mask] = seq === log.head ? now : Math.max(now, log.at[(seq - 1) & log.mask]!);
  log.weight[seq & log.mask] = 0;
  log.newestFrom = now;
  return seq;
}

function change(entry: StartEntry, weight: number): void {
  const { log } = entry;
  if (entry.seq === NOT_CALLED) {
    log.grantedWeight += weight - entry.weight;
    entry.weight = weight;
    return;
  }
  for (const view of log.views) if (entry.seq >= view.from) view.total += weight - entry.weight;
  log.weight[entry.seq & log.mask]! += weight - entry.weight;
  entry.weight = weight;
}

/** Moves the view past all entries that have left the window. */
function expire(log: StartLog, view: WindowView, now: number): void {
  if (now >= log.grantedUntil) enterPassed(log, now);
  const { at, weight, mask, tail } = log;
  let { from } = view;
  while (from < tail && now - at[from & mask]! >= view.windowMs) view.total -= weight[from++ & mask]!;
  view.from = from;
  if (from === tail && mask >= LARGE) forget(log);
}

/** Drops entries that no view can see any more. Without a view nothing is dropped, because the longest window is not known yet. */
function forget(log: StartLog): void {
  let first = log.tail;
  for (const view of log.views) if (view.from < first) first = view.from;
  if (log.views.length === 0 || first === log.head) return;
  log.forgottenAt = log.at[(first - 1) & log.mask]!;
  log.head = first;
  if (first === log.tail && log.mask >= LARGE) resize(log, SMALLEST);
}

function resize(log: StartLog, capacity: number): void {
  const at = new Float64Array(capacity);
  const weight = new Float64Array(capacity);
  for (let i = log.head; i < log.tail; i++) {
    at[i & (capacity - 1)] = log.at[i & log.mask]!;
    weight[i & (capacity - 1)] = log.weight[i & log.mask]!;
  }
  log.at = at;
  log.weight = weight;
  log.mask = capacity - 1;
}
