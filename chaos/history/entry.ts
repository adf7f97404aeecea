import type { ChangeAction } from "../../src/storage/job-storage.ts";

/** A job as it was handed to the storage. */
export interface AddedJob {
  readonly id: string;
  readonly queue: string;
  readonly key: string | null;
  readonly group: string | null;
  readonly priority: number;
  /** 0: due at once. */
  readonly inMs: number;
}

/** A job as a claim gave it. */
export interface ClaimedJob {
  readonly job: string;
  readonly token: number;
  readonly attempt: number;
  /** When it started, by the clock of the storage. */
  readonly grantMs: number;
  readonly leaseUntil: number;
}

/** One outcome that a worker settles. */
export interface SettledJob {
  readonly job: string;
  readonly token: number;
  readonly to: string;
  /** Its start was taken back, because the handler was not called. */
  readonly unstarted: boolean;
}

/** What every process writes down of each step it takes, before and after it. */
export type Body =
  | { op: "add"; phase: "invoke"; call: number; jobs: readonly AddedJob[] }
  | { op: "add"; phase: "ok"; call: number; answers: readonly { id: string; created: boolean }[] }
  | { op: "add"; phase: "fail"; call: number; error: string }
  | { op: "settle"; phase: "invoke"; call: number; outcomes: readonly SettledJob[] }
  | { op: "settle"; phase: "ok"; call: number; stale: readonly string[] }
  | {
      op: "claim";
      phase: "ok";
      /** When it was asked for. */
      from: number;
      queue: string;
      leaseMs: number;
      limits: readonly string[];
      /** What is to be confirmed of it. */
      grant?: string | undefined;
      jobs: readonly ClaimedJob[];
    }
  | {
      op: "heartbeat";
      phase: "ok";
      from: number;
      leaseMs: number;
      leases: readonly { job: string; token: number }[];
      lost: readonly string[];
    }
  | { op: "sweep"; phase: "ok"; from: number; stalled: number }
  | { op: "change"; phase: "invoke"; call: number; action: ChangeAction; ids: readonly string[] | null }
  | { op: "change"; phase: "ok"; call: number; ids: readonly string[] }
  /** Its `hr` is taken by the first statement of the handler. `under`: the limits of its worker. */
  | { op: "run"; phase: "invoke"; job: string; token: number; attempt: number; under: readonly string[] }
  | { op: "run"; phase: "ok" | "fail"; job: string; token: number; attempt: number }
  /** A handler settles what it used of its reservation. Written before the call to the storage. */
  | { op: "use"; phase: "info"; job: string; token: number; tokens: number }
  /** A call outside of jobs. Its `hr` is taken by the first statement after the permit, or of the wrapped function. */
  | { op: "call"; phase: "info"; under: readonly string[] }
  /** Calls that were confirmed; `with`: along with a claim. */
  | {
      op: "confirm";
      phase: "ok";
      from: number;
      with?: "claim";
      calls: readonly { grant: string; calledInMs: number }[];
    }
  | { op: "abort"; phase: "info"; job: string; token: number; reason: string }
  | { op: "arrive"; phase: "info"; limiter: string; job: string; token: number }
  | { op: "fault"; phase: "info"; kind: FaultKind; target: string; wall: number }
  | { op: "process"; phase: "info"; kind: NoteKind; text: string; value: number };

/** What the conductor does to processes. */
export type FaultKind = "spawn" | "kill" | "stop" | "cont" | "term";

/**
 * The state of a process, as it records it.
 *
 * - `ready`: it works from now on; `text` is the id of its worker, `value` its concurrency.
 * - `paused`: its event loop stood still for `value` ms, and runs again now.
 * - `term`: it received a signal to stop, and began to.
 * - `error`: something went wrong outside of handlers; `unhandled`: without a handler for it.
 * - `memory`: its resident set in bytes.
 * - `left`: it ends by itself; `value` is the number of things that would still keep it alive.
 */
export type NoteKind = "ready" | "paused" | "term" | "error" | "unhandled" | "memory" | "left";

/** `hr` is CLOCK_MONOTONIC in milliseconds: one clock for all processes of a host. */
export type Entry = { readonly p: string; readonly seq: number; readonly hr: number } & Readonly<Body>;

/** The same clock everywhere. */
export const hr = (): number => Number(process.hrtime.bigint()) / 1e6;
