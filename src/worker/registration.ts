import type { Clock } from "../core/clock.ts";
import { hostOf } from "../core/host.ts";
import type { LiveWorker } from "../storage/registrar.ts";

/** A registration names at most so many types and limits: every heartbeat carries them. */
const MOST_NAMES = 1_000;

export interface Registrant {
  readonly id: string;
  readonly queue: string;
  /** null: one function for all types. */
  readonly types: readonly string[] | null;
  readonly concurrency: number;
  /** The names of the shared limits that it declares. */
  readonly limits: readonly string[];
}

/** The registry entry of a worker that starts now. */
export function registration(worker: Registrant, clock: Clock, report: (error: unknown) => void): LiveWorker {
  const { id, queue, types, concurrency, limits } = worker;
  const since = clock.now();
  const entry = {
    id,
    queue,
    ...hostOf(),
    types: types?.slice(0, MOST_NAMES) ?? null,
    moreTypes: Math.max(0, (types?.length ?? 0) - MOST_NAMES),
    concurrency,
    limits: limits.slice(0, MOST_NAMES),
    moreLimits: Math.max(0, limits.length - MOST_NAMES),
  };
  return { entry: () => ({ ...entry, upMs: clock.now() - since }), report };
}
