import { inTime } from "../core/deadline.ts";
import type { ReportError } from "./ask.ts";
import type { WorkerSettings } from "./options.ts";

const LONGEST_MS = 5_000;

/** Sweeps the storage six times in the length of a lease, and at least every 5 s, until the returned function is called. */
export function sweepRegularly({ storage, clock, random, lease }: WorkerSettings, report: ReportError): () => void {
  const everyMs = Math.min(LONGEST_MS, lease / 6);
  const stopping = new AbortController();
  const { signal } = stopping;
  let cancelTimer: () => void;

  function wait(): void {
    // Jitter, so that workers do not sweep at the same time.
    cancelTimer = clock.after(everyMs * (0.75 + random() / 4), () => void sweep());
  }

  async function sweep(): Promise<void> {
    try {
      while (!signal.aborted && (await inTime(clock, () => storage.sweep(), { signal })).more);
    } catch (error) {
      if (!signal.aborted) report(error);
    }
    if (!signal.aborted) wait();
  }

  wait();
  return () => {
    stopping.abort();
    cancelTimer();
  };
}
