import type { LimitDefinitions } from "../../src/limits/definition.ts";
import type { LimiterOptions } from "../../src/worker/options.ts";
import type { ClockKind } from "./clocks.ts";

/** Where a process ends or stops itself: at the `nth` time that this step comes to its begin or its commit. */
export interface CrashPoint {
  readonly step: "add" | "claim" | "settle" | "heartbeat" | "sweep";
  readonly at: "begin" | "before-commit" | "after-commit";
  readonly nth: number;
  readonly signal: "SIGKILL" | "SIGSTOP";
}

/** Bugs that the harness must find. Each is put between the product and its storage, in the processes ordered to plant it. */
export const PLANTS = [
  "no-token-check",
  "two-step-limiter",
  "client-clock",
  "double-release",
  "rescue-without-predicate",
  "lost-wake-up",
  "late-wake-up",
  "claim-not-atomic",
  "early-acknowledgement",
  "key-check-then-insert",
  "bulk-in-pieces",
  "forgotten-settle",
  "attempts-not-counted",
  "pruned-too-early",
  "slot-leak",
  "stamped-at-the-grant",
  "confirmed-too-low",
  "confirmed-before-the-last-call",
] as const;

/**
 * The same soil as that of a bug, without the bug: its checker must find nothing. Else it is the soil that is found, and not
 * what was planted in it.
 */
export const CONTROLS = [
  "two-step-limiter, in one step",
  "client-clock, all right",
  "double-release, once",
  "confirmed-before-the-last-call, after it",
] as const;
export type Plant = (typeof PLANTS)[number] | (typeof CONTROLS)[number];

interface Common {
  /** The name of the process. */
  readonly p: string;
  readonly folder: string;
  readonly database: string;
  /** By which way it reaches the database, if not by the straight one. */
  readonly via?: string | undefined;
  readonly seed: number;
  readonly plant?: Plant | undefined;
  readonly crash?: CrashPoint | undefined;
  /** Pages after which SQLite writes its log back into the database: few, for pressure. */
  readonly checkpoint?: number | undefined;
  /** What it takes for the time, if not what the system says. */
  readonly clock?: ClockKind | undefined;
  /** How often a settle, a cancellation or a confirmation is sent twice. */
  readonly duplicate?: number | undefined;
}

export interface WorkerSpec extends Common {
  readonly role: "worker";
  readonly queue: string;
  readonly leaseMs: number;
  readonly concurrency: number;
  readonly graceMs: number;
  /** Its handler gets up to so many jobs at once. */
  readonly batch?: number | undefined;
  readonly limiter?: LimiterOptions | undefined;
  /** The same limits as a composite over the storage's rates: so many in so many milliseconds, by name. */
  readonly composite?:
    | readonly { readonly name: string; readonly max: number; readonly windowMs: number }[]
    | undefined;
  /** Shared limits that it declares. */
  readonly limits?: LimitDefinitions | undefined;
  readonly echoPort?: number | undefined;
}

/** What a job is to do. */
export type Work =
  | { readonly do: "nothing" }
  /** `deaf`: whatever its signal says. */
  | { readonly do: "sleep"; readonly ms: number; readonly deaf?: boolean }
  | { readonly do: "spin"; readonly ms: number }
  /** Takes so long, and says halfway through that it used so much of what was reserved for it. */
  | { readonly do: "use"; readonly ms: number; readonly tokens: number }
  | { readonly do: "echo"; readonly limiter: string }
  | { readonly do: "fail"; readonly until: number }
  | { readonly do: "abort" }
  | { readonly do: "exhaust" };

export interface ProducerSpec extends Common {
  readonly role: "producer";
  readonly queue: string;
  readonly forMs: number;
  /** Jobs a second, about. */
  readonly perSecond: number;
  /** How often it adds so many at once. */
  readonly bulk?: { readonly size: number; readonly probability: number } | undefined;
  /** Every job has a key, and the key changes so often: all producers want the same one at the same time. */
  readonly keyMs?: number | undefined;
  readonly groups?: number | undefined;
  /** One of these for every job. */
  readonly work: readonly Work[];
  /** So many bytes of data more, for every job. */
  readonly bytes?: number | undefined;
  readonly delayed?: number | undefined;
  /** How often the delay is given as an instant. */
  readonly given?: number | undefined;
  readonly priority?: number | undefined;
  readonly maxAttempts: number;
}

export interface CallerSpec extends Common {
  readonly role: "caller";
  readonly forMs: number;
  /** All of them together, over the storage's rates. */
  readonly limits: readonly { readonly name: string; readonly max: number; readonly windowMs: number }[];
  /** Shared limits, each on its own. They are declared before. */
  readonly shared?: readonly string[] | undefined;
  /** How often a permit is taken back. */
  readonly cancel: number;
  /** How many there are for each of these limiters. Every second one calls a wrapped function, the others ask for permits. */
  readonly callers: number;
}

export interface CommanderSpec extends Common {
  readonly role: "commander";
  readonly queue: string;
  readonly forMs: number;
}

export interface EchoSpec extends Common {
  readonly role: "echo";
}

export interface BurnerSpec extends Common {
  readonly role: "burner";
}

export type Spec = WorkerSpec | ProducerSpec | CallerSpec | CommanderSpec | EchoSpec | BurnerSpec;
