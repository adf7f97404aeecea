import type { DefinedLimits } from "../limits/define.ts";
import { declareLimits, type LimitListener } from "../storage/declaring.ts";
import type { JobStorage } from "../storage/job-storage.ts";

/** Declares limits once; if that fails, the next call tries again. Undefined: there are none, and nothing to wait for. */
export function declaring(
  storage: JobStorage,
  queue: string,
  limits: DefinedLimits | undefined,
  listener: LimitListener | undefined,
): () => Promise<void> | undefined {
  if (limits === undefined) return () => undefined;
  let declared: Promise<void> | undefined;
  return async () => {
    declared ??= declareLimits(storage, limits, `queue ${queue}`, listener);
    const own = declared;
    try {
      await own;
    } catch (error) {
      if (declared === own) declared = undefined;
      throw error;
    }
  };
}
