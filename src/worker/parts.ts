import type { Confirmations } from "../storage/confirmations.ts";
import type { Outcome } from "../storage/job-storage.ts";
import type { Admission } from "./admission.ts";
import type { Ask, ReportError } from "./ask.ts";
import type { Emitter } from "./emitter.ts";
import type { InFlight } from "./in-flight.ts";
import type { WorkerSettings } from "./options.ts";
import type { PendingOutcomes } from "./pending-outcomes.ts";
import type { Sleep } from "./sleep.ts";

/** What the parts of one worker share. */
export interface WorkerParts {
  readonly queue: string;
  readonly id: string;
  /** The types to claim; null: any. */
  readonly types: readonly string[] | null;
  readonly settings: WorkerSettings;
  /** Does the worker claim and start jobs? */
  readonly isRunning: () => boolean;
  readonly isStopped: () => boolean;
  readonly ask: Ask;
  readonly report: ReportError;
  readonly sleep: Sleep;
  readonly admission: Admission;
  readonly confirmations: Confirmations;
  readonly inFlight: InFlight;
  readonly outcomes: PendingOutcomes;
  readonly emitter: Emitter;
  /** Settles jobs: with the next claim, or at once if the worker has stopped. */
  readonly settle: (outcomes: readonly Outcome[]) => void;
}
