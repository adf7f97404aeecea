import { CompositeLimiter } from "../../src/limiter/composite-limiter.ts";
import { limit } from "../../src/limiter/limit.ts";
import type { Limiter } from "../../src/limiter/limiter.ts";
import { RateLimiter } from "../../src/limiter/rate-limiter.ts";
import { SharedLimiter } from "../../src/limiter/shared/shared-limiter.ts";
import { hr } from "../history/entry.ts";
import type { House } from "./house.ts";
import type { CallerSpec } from "./spec.ts";

/** A limiter, and the names of the limits that it is made of. */
interface Asked {
  readonly limiter: Limiter;
  readonly under: readonly string[];
}

/** Many callers in one process, all asking to start something, under several limits at once, as fast as they may. */
export async function call(house: House, spec: CallerSpec): Promise<void> {
  const { recorder, chance, leave } = house;
  recorder.write({ op: "process", phase: "info", kind: "ready", text: "", value: 0 });
  const end = hr() + spec.forMs;
  const signal = AbortSignal.timeout(Math.ceil(spec.forMs));

  const withPermits = async ({ limiter, under }: Asked) => {
    while (hr() < end) {
      const permit = await limiter.acquire({ signal });
      const at = hr();
      if (chance.chance(spec.cancel)) {
        // It calls no function.
        await Promise.all([permit.cancel(), permit.cancel()]);
      } else {
        recorder.write({ op: "call", phase: "info", under }, at);
        await permit.release();
      }
      // Late, and once more: that must have no effect.
      await permit.release();
    }
  };

  const withFunction = async ({ limiter, under }: Asked) => {
    const wrapped = limit(
      () => {
        const at = hr();
        recorder.write({ op: "call", phase: "info", under }, at);
      },
      limiter,
      { signal },
    );
    while (hr() < end) await wrapped();
  };

  const given = (error: unknown) => {
    if (!signal.aborted) throw error;
  };
  const all = limitersOf(house, spec).flatMap((asked) =>
    Array.from({ length: spec.callers }, (_, i) =>
      (i % 2 === 0 ? withPermits(asked) : withFunction(asked)).catch(given),
    ),
  );
  await Promise.all(all);
  await leave();
}

function limitersOf({ storage, clock }: House, { limits, shared = [] }: CallerSpec): Asked[] {
  const composite = new CompositeLimiter(
    limits.map(
      ({ name, max, windowMs }) =>
        new RateLimiter(storage.rates, name, { maxExecutions: max, windowSizeInSeconds: windowMs / 1_000 }),
    ),
  );
  return [
    ...(limits.length > 0 ? [{ limiter: composite, under: limits.map(({ name }) => name) }] : []),
    ...shared.map((name) => ({ limiter: new SharedLimiter(storage, name, { clock }), under: [name] })),
  ];
}
