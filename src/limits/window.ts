import { NEVER, type Wait } from "./wait.ts";

/**
 * At most `max` in any `windowMs`, exactly.
 *
 * The log keeps the starts, oldest first, in a ring of two arrays. Looking at it moves a cursor past the entries that
 * have left the window; each entry is passed once, so a decision costs O(1) whatever `max` is. No fixed windows, no
 * estimate. Starts within a thousandth of the window (0.1 ms at the most) share an entry, stamped with the latest of
 * them: never over, hardly later, and the log is bounded by time and not by `max`.
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
}

/** What one window length sees of a log. */
export interface WindowView {
  readonly windowMs: number;
  /** Number of the oldest entry inside the window. */
  from: number;
  /** Sum of the weights from there on. */
  total: number;
  /** The latest start that the log no longer knew when this view was made: until it has left the window, all counts as full. */
  blindFor: number;
}

/** One start in the log, and what it counts for. */
export interface StartEntry {
  readonly log: StartLog;
  /** The entry that it is part of. */
  seq: number;
  /** What it holds of that entry. */
  weight: number;
  /** What was charged for it and has left every window. It is never given back. */
  expired: number;
}

const FINEST_MS = 0.1;

/** Room for so many entries at first; from the second number on an empty log gives its memory back. */
const SMALLEST = 16;
const LARGE = 1_024;

/** `capacity`: room for so many entries at first, a power of two. */
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
  let excess = view.total + weight - max;
  if (excess <= 0) return blind;
  let last = view.from - 1;
  while (excess > 0) excess -= log.weight[++last & log.mask]!;
  return Math.max(blind, view.windowMs - (now - log.at[last & log.mask]!));
}

/** How much of the window is in use. */
export function windowUsed(log: StartLog, view: WindowView, now: number): number {
  expire(log, view, now);
  return view.total;
}

/** Writes a start into the log, whether or not there was room. */
export function recordStart(log: StartLog, now: number, weight: number): StartEntry {
  const newest = log.tail - 1;
  const shares = now - log.newestFrom < log.resolution && newest >= log.head && seenByAll(log, newest);
  const seq = shares ? newest : append(log, now);
  if (now > log.at[seq & log.mask]!) log.at[seq & log.mask] = now;
  return add(log, seq, weight);
}

/** The same with an entry of its own, which its number alone then names. */
export function recordAlone(log: StartLog, now: number, weight: number): StartEntry {
  const seq = append(log, now);
  log.newestFrom = Number.NEGATIVE_INFINITY;
  return add(log, seq, weight);
}

function add(log: StartLog, seq: number, weight: number): StartEntry {
  log.weight[seq & log.mask]! += weight;
  for (let i = 0; i < log.views.length; i++) log.views[i]!.total += weight;
  return { log, seq, weight, expired: 0 };
}

/** One more start of the same instant, kept in one piece with those before it. */
export function growStart(entry: StartEntry, weight: number): void {
  change(entry, entry.weight + weight);
}

/** Of starts that are kept in one piece, so much never was. */
export function shrinkStart(entry: StartEntry, weight: number): void {
  if (entry.seq >= entry.log.head) change(entry, Math.max(0, entry.weight - weight));
}

/**
 * What a start really used, the last word holds. Inside the window the start's own entry changes, so the difference
 * counts at once; what becomes known after it has expired is charged from now on, and what has expired is not given back.
 */
export function settleStart(entry: StartEntry, now: number, used: number): void {
  const { log } = entry;
  for (const view of log.views) expire(log, view, now);
  forget(log);
  if (entry.seq < log.head) {
    entry.expired += entry.weight;
    entry.weight = 0;
    if (used > entry.expired) move(entry, now, used - entry.expired);
  } else {
    change(entry, Math.max(0, used - entry.expired));
  }
}

/** As if the start had never been. */
export function cancelStart(entry: StartEntry): void {
  if (entry.seq >= entry.log.head) change(entry, 0);
}

/** The start happened later than its decision: `now`. Those that share its entry keep their time. */
export function delayStart(entry: StartEntry, now: number): void {
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

/** Is it still inside every window? What a view has passed it will not count again. */
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
  for (const view of log.views) if (entry.seq >= view.from) view.total += weight - entry.weight;
  log.weight[entry.seq & log.mask]! += weight - entry.weight;
  entry.weight = weight;
}

/** Moves the view past all entries that have left the window. */
function expire(log: StartLog, view: WindowView, now: number): void {
  const { at, weight, mask, tail } = log;
  let { from } = view;
  while (from < tail && now - at[from & mask]! >= view.windowMs) view.total -= weight[from++ & mask]!;
  view.from = from;
  if (from === tail && mask >= LARGE) forget(log);
}

/** Drops what no view can see any more. Without a view nothing is dropped: nobody has said yet how long it matters. */
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
