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
 * Here this process makes the call and reports it at once; `window.ts` adds what other starts need.
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
  /** What the starts weigh together that are granted and not called yet. */
  grantedWeight: number;
  /** undefined: this process calls every granted start itself, and reports each call at once. */
  unconfirmed: Unconfirmed | undefined;
}

/** How granted starts are counted whose calls are confirmed later, or never. */
export interface Unconfirmed {
  /** The first `until` of them. */
  until: number;
  /** How long the latest call that was confirmed took from its grant. */
  calledIn: number;
  /** Moves the starts into the log that may not be called any more. */
  enterPassed(now: number): void;
  /** When to look whether `excess` has left the window, if some of it is not called yet. */
  wait(view: WindowView, now: number, excess: number): Wait;
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
}

export const NOT_CALLED = -1;
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
    newestFrom: -Infinity,
    head: 0,
    tail: 0,
    forgottenAt: -Infinity,
    views: [],
    grantedWeight: 0,
    unconfirmed: undefined,
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
  const { windowMs } = view;
  const blind = Math.max(0, windowMs - (now - view.blindFor));
  let excess = view.total + log.grantedWeight + weight - max;
  if (excess <= 0) return blind;
  if (log.grantedWeight > 0 && log.unconfirmed !== undefined) {
    return Math.max(blind, log.unconfirmed.wait(view, now, excess));
  }
  let last = view.from - 1;
  while (excess > 0 && ++last < log.tail) excess -= log.weight[last & log.mask]!;
  // What is not in the log is called now at the earliest.
  return Math.max(blind, excess > 0 ? windowMs : windowMs - (now - log.at[last & log.mask]!));
}

/** A start is granted, and will be called (`enterStart`), or cancelled. */
export function reserveStart(log: StartLog, weight: number): StartEntry {
  log.grantedWeight += weight;
  return { log, seq: NOT_CALLED, weight, expired: 0 };
}

/** A granted start was called at this instant and counts from there. */
export function enterStart(entry: StartEntry, at: number): void {
  const { weight } = entry;
  changeStart(entry, 0);
  moveStart(entry, at, weight);
}

/** From now on the start is part of the entry of this instant, and counts for so much. */
export function moveStart(entry: StartEntry, at: number, weight: number): void {
  entry.seq = place(entry.log, at);
  entry.weight = 0;
  changeStart(entry, weight);
}

/** The entry that a start of this instant is part of. */
export function place(log: StartLog, now: number): number {
  const newest = log.tail - 1;
  const shares = now - log.newestFrom < log.resolution && newest >= log.head && isSeen(log, newest);
  const seq = shares ? newest : append(log, now);
  if (now > log.at[seq & log.mask]!) log.at[seq & log.mask] = now;
  return seq;
}

/** Is it still inside every window? A view does not count an entry again that its cursor has passed. */
export function isSeen(log: StartLog, seq: number): boolean {
  return log.views.every(({ from }) => from <= seq);
}

/** A new entry, still without weight. */
export function append(log: StartLog, now: number): number {
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

/** Sets what a start counts for, in the log or beside it. */
export function changeStart(entry: StartEntry, weight: number): void {
  const { log, seq } = entry;
  const more = weight - entry.weight;
  entry.weight = weight;
  if (seq === NOT_CALLED) {
    log.grantedWeight += more;
    return;
  }
  log.weight[seq & log.mask]! += more;
  for (let i = 0; i < log.views.length; i++) if (seq >= log.views[i]!.from) log.views[i]!.total += more;
}

/**
 * Sets what a start really used; the latest call holds. Inside the window the start's own entry changes, so the difference
 * counts at once. After the entry has expired, more is charged from now on, and less is not returned.
 */
export function settleStart(entry: StartEntry, now: number, used: number): void {
  const { log } = entry;
  for (const view of log.views) expire(log, view, now);
  forget(log);
  if (isKept(entry)) {
    changeStart(entry, Math.max(0, used - entry.expired));
  } else {
    entry.expired += entry.weight;
    entry.weight = 0;
    if (used > entry.expired) moveStart(entry, now, used - entry.expired);
  }
}

/** As if the start had never been. */
export function cancelStart(entry: StartEntry): void {
  if (isKept(entry)) changeStart(entry, 0);
  if (entry.seq === NOT_CALLED) entry.seq = CANCELLED;
}

/** Is it in the log, or beside it? */
export const isKept = ({ log, seq }: StartEntry): boolean => seq >= log.head || seq === NOT_CALLED;

/** Moves the view past all entries that have left the window. */
export function expire(log: StartLog, view: WindowView, now: number): void {
  if (log.unconfirmed !== undefined && now >= log.unconfirmed.until) log.unconfirmed.enterPassed(now);
  const { at, weight, mask, tail } = log;
  let { from } = view;
  while (from < tail && now - at[from & mask]! >= view.windowMs) view.total -= weight[from++ & mask]!;
  view.from = from;
  if (from === tail && mask >= LARGE) forget(log);
}

/** Drops entries that no view can see any more. Without a view nothing is dropped, because the longest window is not known yet. */
function forget(log: StartLog): void {
  let first = Infinity;
  for (const view of log.views) first = Math.min(first, view.from);
  if (first === log.head || first > log.tail) return;
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
