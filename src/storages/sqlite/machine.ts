import { readFileSync } from "node:fs";
import { uptime } from "node:os";
import process from "node:process";
import { type Clock, systemClock } from "../../core/clock.ts";

/**
 * The clock that all processes of a computer share and that is never set: it says how much time has passed since the computer was
 * started. It distinguishes a wall clock that was set forward from time that has passed.
 */
export interface MachineClock {
  /** Which start of which computer: readings of another one cannot be compared. */
  readonly boot: string;
  /** Milliseconds since then, without those in which the computer slept. */
  awake(): number;
  /** In how many it slept, more or less. Takes longer to find out. */
  asleep(): number;
}

const BOOT_ID = "/proc/sys/kernel/random/boot_id";
/** How far the clocks of this time namespace are from those of the computer: a container may have its own, as one that was moved has. */
const OFFSETS = "/proc/self/timens_offsets";

/** A clock that is not the system's, but whose monotonic part is, carries the clock of the computer under this name. */
export const MACHINE: unique symbol = Symbol("sluice.machine");

/** The clock of the computer that belongs to a clock, if one does: a clock that is moved by hand has none. */
export function machineOf(clock: Clock & { readonly [MACHINE]?: MachineClock }): MachineClock | undefined {
  return clock === systemClock ? machineClock() : clock[MACHINE];
}

/** The clock of this computer. Undefined where the system does not say which start it is: only Linux does. */
export function machineClock(read: (path: string) => string | undefined = readText): MachineClock | undefined {
  const id = read(BOOT_ID)?.trim();
  if (id === undefined || id === "") return undefined;
  const offsets = (read(OFFSETS) ?? "").match(/-?\d+/g) ?? [];
  const boot = offsets.some((offset) => Number(offset) !== 0) ? `${id} ${offsets.join(" ")}` : id;
  return { boot, awake, asleep: () => uptime() * 1_000 - awake() };
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

function awake(): number {
  // Asked of the object, for fake timers of test runners replace the function.
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1_000 + nanoseconds / 1e6;
}
