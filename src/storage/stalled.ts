import type { ErrorRecord } from "../core/job.ts";

export const STALLED = "SLUICE_STALLED";

/** The error of an attempt whose lease expired. */
export const stalledError = (worker: string): ErrorRecord => ({
  name: "StalledJobError",
  code: STALLED,
  message: `the lease of worker ${worker} ran out before it was done`,
});
