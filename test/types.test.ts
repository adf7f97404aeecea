import { describe, expect, expectTypeOf, it } from "vitest";
import {
  CompositeLimiter,
  concurrencyLimit,
  ConcurrencyLimiter,
  globalServiceRegistry,
  type ILimiter,
  JOB_LIMITER,
  limit,
  type Limited,
  type Limiter,
  NullLimiter,
  type Permit,
  rateLimit,
  type RateLimiter,
  type Refusal,
} from "../src/index.ts";

/* Checked by the compiler (`npm run check`); that they also run proves only that nothing throws. */
describe("types", () => {
  it("types pass through wrappers", () => {
    const fn = async (a: number, b?: string): Promise<boolean> => a > 0 && b !== "";
    const limited = limit(fn, new NullLimiter());
    expectTypeOf(limited).parameters.toEqualTypeOf<[a: number, b?: string | undefined]>();
    expectTypeOf(limited).returns.toEqualTypeOf<Promise<boolean>>();
    expectTypeOf(limited).toEqualTypeOf<Limited<typeof fn>>();
    expectTypeOf(limited.running).toEqualTypeOf<number>();
    expectTypeOf(limited.onIdle()).toEqualTypeOf<Promise<void>>();
    // @ts-expect-error -- a string is no number
    void limited("1");
  });

  it("types of synchronous functions become asynchronous, and those of nested ones stay flat", () => {
    const sync = rateLimit((n: number) => n * 2, 1_000);
    expectTypeOf(sync).returns.toEqualTypeOf<Promise<number>>();
    const nested = concurrencyLimit(sync, 2);
    expectTypeOf(nested).returns.toEqualTypeOf<Promise<number>>();
    expectTypeOf(nested).parameters.toEqualTypeOf<[n: number]>();
  });

  it("types keep `this`", () => {
    const limited = limit(function (this: { id: number }) {
      return this.id;
    }, new NullLimiter());
    expectTypeOf(limited).thisParameter.toEqualTypeOf<{ id: number }>();
  });

  it("types give the arguments to the weight", () => {
    limit((prompt: string) => prompt, new NullLimiter(), {
      weight: (prompt) => {
        expectTypeOf(prompt).toEqualTypeOf<string>();
        return prompt.length + 1;
      },
      settle: (result, prompt) => {
        expectTypeOf(result).toEqualTypeOf<string>();
        return result.length + prompt.length;
      },
    });
  });

  it("types distinguish a permit from a refusal", async () => {
    const answer = await new ConcurrencyLimiter(1).tryAcquire();
    expectTypeOf(answer).toEqualTypeOf<Permit | Refusal>();
    if (answer.granted) expectTypeOf(answer).toEqualTypeOf<Permit>();
    else expectTypeOf(answer.retryInMs).toEqualTypeOf<number | null>();
  });

  it("types accept any limiter where one is expected", () => {
    expectTypeOf<CompositeLimiter>().toExtend<Limiter>();
    expectTypeOf<Limiter>().toExtend<ILimiter>();
    expectTypeOf<RateLimiter>().toExtend<Limiter>();
    expectTypeOf(globalServiceRegistry.get(JOB_LIMITER)).toEqualTypeOf<ILimiter>();
    // @ts-expect-error -- not a limiter
    expect(() => new CompositeLimiter([{}])).toThrow();
    // @ts-expect-error -- misspelt
    expect(() => new ConcurrencyLimiter(1, { cuont: "starts" })).toThrow();
  });
});
