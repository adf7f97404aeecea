import { hostOf } from "../core/host.ts";
import type { LiveWorker } from "../storage/registrar.ts";
import type { WorkerParts } from "./parts.ts";

/** A registration names at most so many types and limits: every heartbeat carries them. */
const MOST_NAMES = 1_000;

/** The registry entry of a worker that starts now. */
export function registration({ id, queue, types, settings, report }: WorkerParts): LiveWorker {
  const { clock, concurrency } = settings;
  const limits = settings.limits?.rules.map(({ name }) => name) ?? [];
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
