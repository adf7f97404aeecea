import { type ILimiter, lacking } from "../limiter/limiter.ts";
import { allPartsOf } from "../limiter/parts.ts";
import { SlotsGate } from "../limiter/slots-gate.ts";

/** If the limiter does not bound how many jobs run, each worker runs at most so many, so that memory stays bounded. */
const MOST_UNSAID = 100;

/**
 * How many jobs a worker of a server runs at a time if `concurrency` is not given. Without a limiter, or with one that limits nothing:
 * one. With a limiter: as many as it lets start, since one worker alone must be able to run them.
 *
 * `{ max, duration }` is a limit of the queue and not a limiter of the server: with it, one.
 */
export function concurrencyUnder(limiter: unknown): number {
  if (lacking(limiter) !== undefined) return 1;
  const parts = allPartsOf(limiter as ILimiter);
  if (parts.length === 0) return 1;
  const slots = parts.flatMap((part) => (part instanceof SlotsGate ? [part.capacity] : []));
  return slots.length === 0 ? MOST_UNSAID : Math.max(MOST_UNSAID, Math.min(...slots));
}
