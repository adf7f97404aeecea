import { type ILimiter, lacking } from "../limiter/limiter.ts";
import { allPartsOf } from "../limiter/parts.ts";
import { SlotsGate } from "../limiter/slots-gate.ts";

/** Where the limiter does not say how many may run, each worker runs so many at the most: memory stays bounded. */
const MOST_UNSAID = 100;

/**
 * How many jobs a worker of a server runs at a time where `concurrency` is not given. Without a limiter, or with one that limits
 * nothing: one. With a limiter: as many as that lets start, which one worker alone must be able to run.
 *
 * `{ max, duration }` is no limiter of the server's but a number of the queue, and leaves it at one.
 */
export function concurrencyUnder(limiter: unknown): number {
  if (lacking(limiter) !== undefined) return 1;
  const parts = allPartsOf(limiter as ILimiter);
  if (parts.length === 0) return 1;
  const slots = parts.flatMap((part) => (part instanceof SlotsGate ? [part.capacity] : []));
  return slots.length === 0 ? MOST_UNSAID : Math.max(MOST_UNSAID, Math.min(...slots));
}
