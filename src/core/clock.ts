/**
 * The one place where time enters. Everything else takes `now` as an argument or a `Clock` as an option,
 * so that tests can set the time and decisions never depend on a wall clock, which may be changed.
 */
export interface Clock {
  /** Monotonic milliseconds, with fractions. Only differences between two readings mean anything. */
  now(): number;
  /** The wall clock, in milliseconds since 1970. Only for dates given by people or shown to them. */
  wall(): number;
  /**
   * Calls `callback` once, about `ms` milliseconds from now; it may come a little early, so look at `now()` again.
   * The timer keeps the process alive until it fires or the returned function cancels it.
   */
  after(ms: number, callback: () => void): () => void;
}

/** Timers of every platform wrap around above this. A longer wait wakes up early, looks again and goes back to sleep. */
const LONGEST_TIMER = 2 ** 31 - 1;

/**
 * Timers count whole milliseconds. For the rest of a wait the clock is read at every turn of the event loop, if the platform has
 * `setImmediate`: measured under a saturated window, starts are then 0.1 ms late in the median and not 1 ms.
 */
interface Immediates {
  readonly setImmediate?: (callback: () => void) => unknown;
  readonly clearImmediate?: (immediate: unknown) => void;
}

/** Looked up once, when first used: importing must do nothing. */
let stopwatch: Pick<Performance, "now"> | undefined;

/** The real clock: `performance.now()`, `Date.now()` and `setTimeout`. */
export const systemClock: Clock = {
  now: () => (stopwatch ??= performance).now(),
  wall: () => Date.now(),
  after(ms, callback) {
    const { setImmediate, clearImmediate } = globalThis as Immediates;
    if (ms < 1 && setImmediate !== undefined && clearImmediate !== undefined) {
      const immediate = setImmediate(callback);
      return () => clearImmediate(immediate);
    }
    const timer = setTimeout(callback, Math.min(Math.floor(ms), LONGEST_TIMER));
    return () => clearTimeout(timer);
  },
};

/** Calls `callback` once, when `ms` milliseconds have really passed: timers may come early, and long ones wrap around. */
export function afterAll(clock: Clock, ms: number, callback: () => void): () => void {
  const due = clock.now() + ms;
  let cancel = clock.after(ms, look);
  function look(): void {
    const left = due - clock.now();
    if (left > 0) cancel = clock.after(left, look);
    else callback();
  }
  return () => cancel();
}

/** An instant, by both clocks. */
export interface Mark {
  readonly now: number;
  readonly wall: number;
}

export const markOf = (clock: Clock): Mark => ({ now: clock.now(), wall: clock.wall() });

/** The rates of two clocks differ by less than this. */
const RATE_ERROR = 0.01;
/** The wall clock counts whole milliseconds, and is corrected in small steps. */
const WALL_ERROR_MS = 5;

/**
 * The most time that can have passed since `mark` by either clock: the monotonic clock stops while a machine sleeps, so the wall clock
 * is read as well, and the rate of either may be slightly off.
 */
export function mostSince(clock: Clock, mark: Mark): number {
  const monotonic = clock.now() - mark.now;
  const wall = clock.wall() - mark.wall;
  return (wall > monotonic + WALL_ERROR_MS ? wall : monotonic) * (1 + RATE_ERROR);
}

/** The date `ms` milliseconds from now, rounded up to the whole milliseconds that dates hold. */
export function dateIn(clock: Clock, ms: number): Date {
  return new Date(Math.min(Math.ceil(clock.wall() + ms), LATEST_DATE));
}

/** The last instant a `Date` can hold. */
const LATEST_DATE = 8.64e15;
