import { type Clock, systemClock } from "../../core/clock.ts";
import type { MachineClock } from "./machine.ts";

/**
 * The wall clock with fractions of a millisecond. Processes of one host share the wall clock, but it is read in whole
 * milliseconds; the monotonic clock has fractions, but starts anywhere. What lies between the two is known within a
 * millisecond from one reading, and better with every further one: the largest lower bound is used, so the time is never
 * ahead of the real one. When no value fits any more, the clock was set, and it starts anew.
 */
export class FineWallClock {
  readonly #clock: Clock;
  #least = Number.NEGATIVE_INFINITY;
  #most = Number.POSITIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** How much later than `now()` it may really be, what rounding makes of it included. A clock that is moved by hand is exact. */
  get error(): number {
    return this.#clock === systemClock ? this.#most - this.#least + ROUNDING : 0;
  }

  now(): number {
    let now = this.#read();
    if (this.error <= CLOSE_MS) return now;
    // Known within a millisecond, which is too little for windows: what lies between the two clocks is seen when the wall clock
    // moves on. That is once in the life of a process, and whenever the clock is set. Clocks that stand still show no more, nor
    // does a wall clock alone that does.
    const began = this.#clock.now();
    for (let reads = 0, passed = 0; this.error > CLOSE_MS && passed < LONGEST_MS; reads++) {
      now = this.#read();
      passed = this.#clock.now() - began;
      if (reads >= STILL && passed === 0) break;
    }
    return now;
  }

  #read(): number {
    const before = this.#clock.now();
    const wall = this.#clock.wall();
    const after = this.#clock.now();
    // A clock that has fractions itself needs no help.
    if (!Number.isInteger(wall)) {
      this.#least = this.#most = wall - after;
      return wall;
    }
    const least = wall - after;
    const most = wall + 1 - before;
    if (least - this.#most > ROUNDING || this.#least - most > ROUNDING) {
      this.#least = least;
      this.#most = most;
    } else {
      if (least > this.#least) this.#least = Math.min(least, this.#most);
      if (most < this.#most) this.#most = Math.max(most, this.#least);
    }
    const now = this.#least + after;
    return now - wall < ROUNDING ? wall : now;
  }
}

/** A clock that has not moved after so many readings stands still. */
const STILL = 1_000;

/** A wall clock moves on within a millisecond, unless the process is held up. It is not waited for inside of a transaction for ever. */
const LONGEST_MS = 50;

/** So well it is known what lies between the two clocks. */
const CLOSE_MS = 0.1;

/** Numbers of this size are that coarse, and a little. */
const ROUNDING = 0.001;

/** What a storage knows about its clock: the latest time seen, and what is added to the wall clock. */
export interface ClockState {
  readonly last: number;
  readonly skew: number;
  /** Grows with every start: so a process can tell whether another one has granted any since it last looked. */
  readonly sequence: number;
  /** Grows when the clock is repaired: what a process remembers of before means nothing then. */
  readonly repairs: number;
  /** What the clock of the computer said at `last` (machine.ts). */
  readonly boot: string | null;
  readonly awake: number;
  readonly asleep: number;
}

/** Readings of two processes may lie so far apart although no clock was set. */
const TOLERANCE_MS = 5;
/** The wall clock and a monotonic clock may differ so much over a while, in parts of it or at least. */
const DRIFT = 0.01;
const DRIFT_MS = 250;

/** How long a computer slept is known within hundredths of a second: less than this is none, for time must not run ahead. */
const LEAST_SLEEP_MS = 1_000;

/** What lies between two monotonic clocks changes by less, as it is read. */
const APART_MS = 100;

/** Clocks that were read within this were read at once. */
const AT_ONCE_MS = 1;
/** A process that is held up so often in a row sees clocks that disagree. */
const MOST_READS = 10;

/** `last` is written down when it has moved on by so much: often enough to notice a step, and free on the hot path. */
const REMEMBER_MS = 250;

/**
 * The clock of a storage: the wall clock, plus a skew that all processes share. When the wall clock is set, the skew changes by as
 * much the other way, so that ages stay what they are: windows, leases and delays go on as if nothing had happened.
 *
 * How much time has really passed is read from the clock of the computer, where there is one that all processes share. Where there is
 * none, or the computer was started anew, a process has its own monotonic clock, and a step forward is taken for time that
 * passed, unless it only takes back a step back: a computer that slept looks the same. What one process expects by its own clock
 * counts only while no other has granted anything: such starts are stamped with the clock as it was set, and would grow older
 * by what the skew is raised.
 */
export class StorageClock {
  readonly #clock: Clock;
  readonly #wall: FineWallClock;
  #machine: MachineClock | undefined;
  /** What lies between the monotonic clock of this process and the clock of the computer: at least, at most. */
  #apart: readonly [number, number] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  /** The time when it was last read, and what the monotonic clock said after that. */
  #latest = Number.NEGATIVE_INFINITY;
  #latestAt = 0;
  #sequence = -1;
  #repairs = -1;

  constructor(clock: Clock, machine?: MachineClock) {
    this.#clock = clock;
    this.#wall = new FineWallClock(clock);
    this.#machine = machine;
  }

  /** This process has granted starts: the sequence is where it has put it. */
  granted(sequence: number): void {
    this.#sequence = sequence;
  }

  /** The time, and what is to be written down of it. The same `last` and `skew` mean: nothing. */
  read(state: ClockState): { readonly now: number; readonly error: number } & ClockState {
    const { last, skew: written, sequence, repairs } = state;
    if (sequence !== this.#sequence || repairs !== this.#repairs) this.#latest = Number.NEGATIVE_INFINITY;
    this.#sequence = sequence;
    this.#repairs = repairs;
    const { before, wall, awake, after } = this.#readAll();
    const floor = Math.max(last, this.#latest);
    const readings = { wall, error: this.#wall.error, floor };
    const since = before - this.#latestAt;
    const skew =
      this.#skewByMachine(state, awake, readings) ?? skewByProcess(written, readings, this.#latest + since, since);
    const now = Math.max(floor, wall + skew);
    this.#latest = now;
    this.#latestAt = after;
    // However long it took: no more time seems to have passed between two readings of the wall clock than did.
    const awakeAfter = awake + (after - before);
    const remembers = skew !== written || now - last >= REMEMBER_MS;
    return {
      now,
      error: this.#wall.error,
      skew,
      sequence,
      repairs,
      boot: this.#machine?.boot ?? null,
      awake: awakeAfter,
      last: remembers ? now : last,
      asleep: remembers ? (this.#machine?.asleep() ?? 0) : state.asleep,
    };
  }

  /**
   * All clocks, as good as at once. Where the process is held up between two of them, they disagree by as much, and the wall clock
   * would seem to have been set: then they are read again.
   */
  #readAll(): Reading {
    let best: Reading | undefined;
    for (let reads = 0; reads < MOST_READS && (best === undefined || best.after - best.before > AT_ONCE_MS); reads++) {
      this.#wall.now();
      const before = this.#clock.now();
      const awake = this.#awake(before);
      const wall = this.#wall.now();
      const after = this.#clock.now();
      if (best === undefined || after - before < best.after - best.before) best = { before, awake, wall, after };
    }
    return best!;
  }

  /** What the clock of the computer says. Where the two monotonic clocks go apart, one is moved by hand, as fake timers are: it alone counts. */
  #awake(before: number): number {
    if (this.#machine === undefined) return 0;
    const awake = this.#machine.awake();
    const [least, most] = [awake - this.#clock.now(), awake - before];
    if (least > this.#apart[1] + APART_MS || most < this.#apart[0] - APART_MS) {
      this.#machine = undefined;
      return 0;
    }
    this.#apart = [Math.max(least, this.#apart[0]), Math.min(most, this.#apart[1])];
    return awake;
  }

  /** The skew, by the time that has passed for the computer since `last`; undefined: unknown. */
  #skewByMachine(state: ClockState, awake: number, readings: WallReading): number | undefined {
    const { wall, floor } = readings;
    const machine = this.#machine;
    if (machine === undefined || state.boot !== machine.boot || awake < state.awake) return undefined;
    const passed = awake - state.awake;
    const drift = Math.max(DRIFT_MS, passed * DRIFT);
    const time = wall + state.skew;
    const least = state.last + passed;
    if (time < floor - TOLERANCE_MS || time < least - drift) return skewFor(least, readings);
    if (time <= least + drift) return state.skew;
    const slept = machine.asleep() - state.asleep;
    const most = slept < LEAST_SLEEP_MS ? least : least + slept;
    return time > most + drift ? skewFor(most, readings) : state.skew;
  }
}

/** What the clocks said, the monotonic one of this process before and after the others. */
interface Reading {
  readonly before: number;
  readonly awake: number;
  readonly wall: number;
  readonly after: number;
}

interface WallReading {
  readonly wall: number;
  /** How much later than `wall` it may be. */
  readonly error: number;
  /** The time cannot be before this. */
  readonly floor: number;
}

/** The skew with which it is `time` now, or a little less: the wall clock may show more than was read, and others may know better. */
const skewFor = (time: number, { wall, error, floor }: WallReading): number => Math.max(floor, time) - wall - error;

/**
 * What has to be added to the wall clock. So far it was `written`; by the monotonic clock, on which `since` has passed, the time is
 * `expected` (-Infinity, if this process has not read it yet).
 */
function skewByProcess(written: number, readings: WallReading, expected: number, since: number): number {
  const { wall, floor } = readings;
  const drift = Math.max(DRIFT_MS, since * DRIFT);
  const time = wall + written;
  if (time < floor - TOLERANCE_MS || time < expected - drift) return skewFor(expected, readings);
  const ahead = time - expected;
  return written > 0 && ahead > drift && Number.isFinite(ahead) ? Math.max(0, written - ahead) : written;
}
