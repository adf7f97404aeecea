import { describe, expect, it } from "vitest";
import {
  AdaptiveLimiter,
  CompositeLimiter,
  ConcurrencyLimiter,
  DelayLimiter,
  EvenlySpacedRateLimiter,
  holdFromHeaders,
  InMemoryRateLimiterStorage,
  type ILimiter,
  limit,
  NullLimiter,
  type Permit,
  RateLimiter,
  type Refusal,
  type TryAcquireOptions,
} from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { granted, refused, settled } from "./support.ts";

interface Door extends ILimiter {
  open: boolean;
}

const rate = { maxExecutions: 100, windowSizeInSeconds: 1 };

/** One of each built-in class, with a door of the user's own before `canProceed()`. */
const DOORS: readonly { readonly name: string; readonly make: (clock: FakeClock) => Door }[] = [
  {
    name: "NullLimiter",
    make: () =>
      new (class extends NullLimiter {
        open = false;
        override canProceed = async () => this.open;
      })(),
  },
  {
    name: "ConcurrencyLimiter",
    make: (clock) =>
      new (class extends ConcurrencyLimiter {
        open = false;
        override async canProceed() {
          return this.open && super.canProceed();
        }
      })(5, { clock }),
  },
  {
    name: "DelayLimiter",
    make: (clock) =>
      new (class extends DelayLimiter {
        open = false;
        override async canProceed() {
          return this.open && super.canProceed();
        }
      })(1, { clock }),
  },
  {
    name: "RateLimiter",
    make: (clock) =>
      new (class extends RateLimiter {
        open = false;
        override async canProceed() {
          return this.open && super.canProceed();
        }
      })(new InMemoryRateLimiterStorage({ clock }), "api", rate),
  },
  {
    name: "EvenlySpacedRateLimiter",
    make: (clock) =>
      new (class extends EvenlySpacedRateLimiter {
        open = false;
        override async canProceed() {
          return this.open && super.canProceed();
        }
      })({ ...rate, clock }),
  },
  {
    name: "AdaptiveLimiter",
    make: (clock) =>
      new (class extends AdaptiveLimiter {
        open = false;
        override async canProceed() {
          return this.open && super.canProceed();
        }
      })({ clock }),
  },
  {
    name: "CompositeLimiter",
    make: (clock) =>
      new (class extends CompositeLimiter {
        open = false;
        override async canProceed() {
          return this.open && super.canProceed();
        }
      })([new ConcurrencyLimiter(5, { clock })]),
  },
];

/** Keeps a diary of the three methods that decide. */
class Diary extends ConcurrencyLimiter {
  readonly diary: string[] = [];

  override async canProceed(): Promise<boolean> {
    this.diary.push("canProceed");
    return super.canProceed();
  }

  override async recordJobStart(): Promise<void> {
    this.diary.push("recordJobStart");
    await super.recordJobStart();
  }

  override async recordJobCompletion(): Promise<void> {
    this.diary.push("recordJobCompletion");
    await super.recordJobCompletion();
  }
}

describe.each(DOORS)("a subclass of $name that overrides canProceed()", ({ make }) => {
  it("the overridden canProceed() decides for limit()", async () => {
    const clock = new FakeClock();
    const door = make(clock);
    let calls = 0;
    const call = limit(async () => void (calls += 1), door);
    const first = call();
    await clock.advance(500);
    expect(calls).toBe(0);
    door.open = true;
    // A user's own limiter sends no wake-up when it opens: it is asked every 100 ms at the latest.
    const opened = Promise.race([first, new Promise((resolve) => void setTimeout(resolve, 1_000))]);
    await clock.advance(1_000);
    await opened;
    expect(calls).toBe(1);
  });

  it("the overridden canProceed() decides in a composite, which charges nothing when it refuses", async () => {
    const clock = new FakeClock();
    const door = make(clock);
    const slots = new ConcurrencyLimiter(1, { clock });
    const composite = new CompositeLimiter([slots, door]);
    expect(refused(await composite.tryAcquire())).toMatchObject({ never: false });
    expect(slots.running).toBe(0);
    door.open = true;
    const permit = granted(await composite.tryAcquire());
    expect(slots.running).toBe(1);
    await permit.release();
    expect(slots.running).toBe(0);
  });

  it("the overridden canProceed() decides in a composite within a composite", async () => {
    const clock = new FakeClock();
    const composite = new CompositeLimiter([new CompositeLimiter([make(clock)])]);
    refused(await composite.tryAcquire());
    expect(await composite.canProceed()).toBe(false);
  });
});

describe("a subclass that overrides what is recorded", () => {
  it("a subclass that overrides what is recorded records every start and end of limit() once", async () => {
    const limiter = new Diary(2);
    await limit(async () => {}, limiter)();
    expect(limiter.diary).toEqual(["canProceed", "recordJobStart", "recordJobCompletion"]);
    expect(limiter.running).toBe(0);
  });

  it("a subclass that overrides what is recorded keeps its limit in limit()", async () => {
    const limiter = new Diary(2);
    let running = 0;
    let peak = 0;
    const call = limit(async () => {
      peak = Math.max(peak, ++running);
      await new Promise((resolve) => void setTimeout(resolve, 1));
      running -= 1;
    }, limiter);
    await Promise.all(Array.from({ length: 8 }, () => call()));
    expect([peak, limiter.running]).toEqual([2, 0]);
    expect(limiter.diary.filter((word) => word === "recordJobStart")).toHaveLength(8);
  });

  it("a subclass that overrides what is recorded records starts of the six methods and of tryAcquire() of a composite", async () => {
    const limiter = new Diary(2);
    const composite = new CompositeLimiter([new CompositeLimiter([limiter])]);
    await granted(await composite.tryAcquire()).release();
    expect(limiter.diary).toEqual(["canProceed", "recordJobStart", "recordJobCompletion"]);
    limiter.diary.length = 0;
    await composite.recordJobStart();
    await composite.recordJobCompletion();
    expect(limiter.diary).toEqual(["recordJobStart", "recordJobCompletion"]);
  });

  it("a subclass of a composite records starts when it is part of another composite", async () => {
    const starts: string[] = [];
    class Recorded extends CompositeLimiter {
      override async recordJobStart(): Promise<void> {
        starts.push("start");
        await super.recordJobStart();
      }
    }
    const slots = new ConcurrencyLimiter(2);
    const composite = new CompositeLimiter([new Recorded([slots])]);
    await composite.recordJobStart();
    expect([starts, slots.running]).toEqual([["start"], 1]);
    await composite.recordJobCompletion();
    granted(await composite.tryAcquire());
    expect([starts, slots.running]).toEqual([["start", "start"], 1]);
    await composite.clear();
    expect(slots.running).toBe(0);
  });
});

describe("a method that is assigned to an instance", () => {
  it("a method that is assigned to an instance counts like one that is overridden", async () => {
    const limiter = new ConcurrencyLimiter(5);
    limiter.canProceed = async () => false;
    refused(await new CompositeLimiter([limiter]).tryAcquire());
    expect(await settled(limit(async () => {}, limiter)())).toBe(false);
  });
});

describe("a subclass that overrides tryAcquire()", () => {
  class Counted extends ConcurrencyLimiter {
    asked = 0;
    override async tryAcquire(options?: TryAcquireOptions): Promise<Permit | Refusal> {
      this.asked += 1;
      return super.tryAcquire(options);
    }
  }

  it("a subclass that overrides tryAcquire() decides by it, in a composite and in limit()", async () => {
    const limiter = new Counted(1);
    const permit = granted(await new CompositeLimiter([limiter]).tryAcquire());
    expect([limiter.asked, limiter.running]).toEqual([1, 1]);
    await permit.release();
    await limit(async () => {}, limiter)();
    expect([limiter.asked, limiter.running]).toEqual([2, 0]);
  });

  it("a subclass that overrides tryAcquire() decides by it also when it overrides canProceed()", async () => {
    class Both extends Counted {
      override async canProceed(): Promise<boolean> {
        return false;
      }
    }
    const limiter = new Both(1);
    granted(await new CompositeLimiter([limiter]).tryAcquire());
    expect(limiter.asked).toBe(1);
  });
});

describe("a subclass that overrides none of the methods that decide", () => {
  it("a subclass that overrides none of the methods that decide decides synchronously, with weights, as its class does", async () => {
    class Named extends ConcurrencyLimiter {
      cleared = 0;
      override async clear(): Promise<void> {
        this.cleared += 1;
        await super.clear();
      }
    }
    const limiter = new Named(3);
    let made = false;
    void limit(async () => void (made = true), limiter)();
    expect(made).toBe(true); // before anything was waited for
    const composite = new CompositeLimiter([new CompositeLimiter([limiter])]);
    granted(await composite.tryAcquire({ weight: 2 }));
    await composite.clear();
    expect([limiter.cleared, limiter.running]).toEqual([1, 0]);
  });
});

describe("an AdaptiveLimiter that is subclassed", () => {
  it("an AdaptiveLimiter that is subclassed still learns from responses, alone and in a composite", async () => {
    class Recorded extends AdaptiveLimiter {
      override async recordJobStart(): Promise<void> {
        await super.recordJobStart();
      }
    }
    const limiter = new Recorded({ initial: 8, ceiling: 100, clock: new FakeClock() });
    await holdFromHeaders(limiter, new Response(null, { status: 429 }));
    expect(limiter.allowance).toBe(4);
    const other = new Recorded({ initial: 8, ceiling: 100, clock: new FakeClock() });
    await holdFromHeaders(new CompositeLimiter([other]), new Response(null, { status: 429 }));
    expect(other.allowance).toBe(4);
  });
});
