import type { DatabaseAddress } from "../../src/cli/address.ts";
import type { Plan } from "./plan.ts";

/** What a worker process is started with. */
export interface WorkerSettings {
  readonly plan: Plan;
  readonly place: DatabaseAddress;
  readonly url: string;
}

/** What a worker process says. */
export type FromWorker =
  /** It is set up; the name of its worker. */
  | { readonly ready: string }
  /** Its handler was called for this job, … */
  | { readonly started: string }
  /** … whose call was made, … */
  | { readonly done: string }
  /** … or refused. */
  | { readonly refused: string }
  /** Something outside of handlers went wrong. */
  | { readonly failed: string };

/** What a worker process is sent. */
export type ToWorker = "go" | "stop";
