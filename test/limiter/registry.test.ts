import { describe, expect, it } from "vitest";
import {
  CONCURRENT_JOB_LIMITER,
  ConcurrencyLimiter,
  createServiceToken,
  EVENLY_SPACED_JOB_RATE_LIMITER,
  EvenlySpacedRateLimiter,
  globalServiceRegistry,
  JOB_LIMITER,
  NULL_JOB_LIMITER,
  NullLimiter,
  OptionsError,
  ServiceRegistry,
} from "../../src/index.ts";

describe("service tokens", () => {
  it("service tokens have the documented names", () => {
    expect(
      [JOB_LIMITER, CONCURRENT_JOB_LIMITER, EVENLY_SPACED_JOB_RATE_LIMITER, NULL_JOB_LIMITER].map(({ id }) => id),
    ).toEqual([
      "jobqueue.limiter",
      "jobqueue.limiter.concurrent",
      "jobqueue.limiter.rate.evenlyspaced",
      "jobqueue.limiter.null",
    ]);
  });

  it("service tokens have a default each, the same instance at every call", () => {
    const registry = new ServiceRegistry();
    expect(registry.get(JOB_LIMITER)).toBeInstanceOf(NullLimiter);
    expect(registry.get(CONCURRENT_JOB_LIMITER)).toBeInstanceOf(ConcurrencyLimiter);
    expect(registry.get(EVENLY_SPACED_JOB_RATE_LIMITER)).toBeInstanceOf(EvenlySpacedRateLimiter);
    expect(registry.get(NULL_JOB_LIMITER)).toBeInstanceOf(NullLimiter);
    expect(registry.get(JOB_LIMITER)).toBe(registry.get(JOB_LIMITER));
    expect(globalServiceRegistry).toBeInstanceOf(ServiceRegistry);
  });

  it("the default of a token is replaced by what is registered, made at the first call of get()", () => {
    const registry = new ServiceRegistry();
    const before = registry.get(JOB_LIMITER);
    const mine = new ConcurrencyLimiter(3);
    registry.registerInstance(JOB_LIMITER, mine);
    expect(registry.get(JOB_LIMITER)).toBe(mine);
    let made = 0;
    registry.register(JOB_LIMITER, () => {
      made += 1;
      return new ConcurrencyLimiter(made);
    });
    expect(made).toBe(0);
    expect(registry.get(JOB_LIMITER)).toBe(registry.get(JOB_LIMITER));
    expect(made).toBe(1);
    expect(registry.get(JOB_LIMITER)).not.toBe(before);
  });

  it("service tokens can be made by users; without a default they must be registered first", () => {
    const registry = new ServiceRegistry();
    const token = createServiceToken<string>("greeting");
    expect(registry.has(token)).toBe(false);
    expect(() => registry.get(token)).toThrow(/"greeting"/);
    registry.registerInstance(token, "hello");
    expect(registry.has(token)).toBe(true);
    expect(registry.get(createServiceToken<string>("greeting"))).toBe("hello");
    expect(() => createServiceToken("")).toThrow(OptionsError);
    expect(() => registry.register(token, "no function" as unknown as () => string)).toThrow(OptionsError);
  });

  it("what is no token is refused: a limiter registered for it would never be used", () => {
    const registry = new ServiceRegistry();
    for (const token of ["jobqueue.limiter", undefined, {}] as never[]) {
      expect(() => registry.register(token, () => 1)).toThrow(/`token` to be .*JOB_LIMITER/);
      expect(() => registry.registerInstance(token, 1)).toThrow(OptionsError);
      expect(() => registry.has(token)).toThrow(OptionsError);
      expect(() => registry.get(token)).toThrow(OptionsError);
    }
  });
});
