import { CompositeLimiter } from "../../src/limiter/composite-limiter.ts";
import { RateLimiter } from "../../src/limiter/rate-limiter.ts";
import { hr } from "../history/entry.ts";
import type { House } from "./house.ts";
import type { CallerSpec } from "./spec.ts";

/** Many callers in one process, all asking for leave under several limits at once, as fast as they get it. */
export async function call({ storage, recorder, chance, leave }: House, spec: CallerSpec): Promise<void> {
  const limiter = new CompositeLimiter(
    spec.limits.map(
      ({ name, max, windowMs }) =>
        new RateLimiter(storage.rates, name, { maxExecutions: max, windowSizeInSeconds: windowMs / 1_000 }),
    ),
  );
  recorder.write({ op: "process", phase: "info", kind: "ready", text: "", value: 0 });
  const end = hr() + spec.forMs;
  const signal = AbortSignal.timeout(Math.ceil(spec.forMs));
  const caller = async () => {
    while (hr() < end) {
      const permit = await limiter.acquire({ signal });
      if (!chance.chance(spec.cancel)) await permit.release();
      else await Promise.all([permit.cancel(), permit.cancel()]);
      // Late, and once more: it must not matter.
      await permit.release();
    }
  };
  const given = (error: unknown) => {
    if (!signal.aborted) throw error;
  };
  await Promise.all(Array.from({ length: spec.callers }, () => caller().catch(given)));
  await leave();
}
