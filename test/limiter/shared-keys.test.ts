import { describe, expect, it } from "vitest";
import { CompositeLimiter, type LimitDefinitions, Limits, OptionsError, type SharedLimiter } from "../../src/index.ts";
import { HOUSES, work } from "../worker/support.ts";
import { granted, refused } from "./support.ts";

const BOTH = { both: { max: 1, per: "1m", by: ["tenant", "model"] } } satisfies LimitDefinitions;

describe.each(HOUSES)("shared limits by keys ($name)", ({ open }) => {
  async function scene(definitions: LimitDefinitions) {
    const house = open();
    const limits = new Limits(house.storage, { clock: house.clock });
    await limits.define(definitions);
    const limiter = (name: string, options: object): SharedLimiter =>
      (house.storage as unknown as { limiter(name: string, options: object): SharedLimiter }).limiter(name, {
        clock: house.clock,
        ...options,
      });
    return { ...house, limits, limiter };
  }

  it("a limiter counts with the jobs of the same keys, in whatever order they are given", async () => {
    const house = await scene(BOTH);
    const { queue, limiter, clock } = house;
    granted(await limiter("both", { keys: { model: "large", tenant: "acme" } }).tryAcquire());
    refused(await limiter("both", { keys: { tenant: "acme", model: "large" } }).tryAcquire());
    granted(await limiter("both", { keys: { tenant: "acme", model: "small" } }).tryAcquire());
    granted(await limiter("both", { keys: { tenant: "acme" } }).tryAcquire());
    granted(await limiter("both", {}).tryAcquire());
    refused(await limiter("both", { keys: {} }).tryAcquire());
    const started: unknown[] = [];
    const { worker } = work(house, (job) => void started.push(job.data));
    await queue.add("t", "full", { keys: { tenant: "acme", model: "large", user: "ada" } });
    await queue.add("t", "free", { keys: { tenant: "zeta", model: "large" } });
    await clock.advance(1_000);
    expect(started).toEqual(["free"]);
    await clock.advance(60_000);
    expect(started).toEqual(["free", "full"]);
    await worker.stop();
  });

  it("a permit that waits for the slot of a job of its group or keys is granted when the job ends", async () => {
    const house = await scene({
      tenant: { concurrency: 1, by: "group" },
      both: { concurrency: 1, by: ["tenant", "model"] },
    });
    const { queue, limiter, clock } = house;
    const keys = { tenant: "acme", model: "large" };
    for (const [name, of] of [["tenant", { group: "g" }] as const, ["both", { keys }] as const]) {
      const gate = Promise.withResolvers<void>();
      const { worker } = work(house, () => gate.promise);
      await queue.add("t", null, of);
      await clock.advance(100);
      let permits = 0;
      const acquired = limiter(name, of)
        .acquire()
        .then((permit) => {
          permits += 1;
          return permit;
        });
      // It is refused at once, and once more when it listens; the next look is a second after that.
      await clock.advance(1_100);
      expect(permits).toBe(0);
      gate.resolve();
      await clock.advance(100);
      expect(permits).toBe(1);
      await (await acquired).release();
      await worker.stop();
    }
  });

  it("a limiter is named after the value that it counts for, and a composite names it in its refusal", async () => {
    const { limiter } = await scene(BOTH);
    const one = limiter("both", { keys: { model: "large", tenant: "acme" } });
    expect([one.name, one.group, one.keys]).toEqual(["both", undefined, { model: "large", tenant: "acme" }]);
    expect(limiter("both", { keys: { tenant: "acme", model: "large" } })).toBe(one);
    granted(await one.tryAcquire());
    const answer = await new CompositeLimiter([one]).tryAcquire();
    expect(answer).toMatchObject({ granted: false, blockedBy: "both[acme,large]" });
  });

  it("a limiter refuses a group or a key that the limit is not by", async () => {
    const { limiter } = await scene({
      ...BOTH,
      grouped: { max: 1, per: "1m", by: "group" },
      all: { max: 5, per: "1m", all: true },
    });
    const cases: [name: string, options: object, option: string, message: RegExp][] = [
      ["both", { group: "acme" }, "group", /left out: the limit "both" is by tenant, model/],
      [
        "both",
        { keys: { tenant: "acme", user: "ada" } },
        "keys.user",
        /left out: the limit "both" is by tenant, model/,
      ],
      ["grouped", { keys: { tenant: "acme" } }, "keys.tenant", /left out: the limit "grouped" is by group/],
      ["all", { keys: { tenant: "acme" } }, "keys.tenant", /left out: the limit "all" is not by group or keys/],
    ];
    for (const [name, options, option, message] of cases) {
      const one = limiter(name, options);
      for (const use of [() => one.tryAcquire(), () => one.acquire(), () => one.canProceed(), () => one.clear()]) {
        await expect(use()).rejects.toMatchObject({ name: "OptionsError", option });
        await expect(use()).rejects.toThrow(message);
      }
    }
    granted(await limiter("all", { group: "acme" }).tryAcquire());
    expect(() => limiter("both", { keys: { group: "acme" } })).toThrow(OptionsError);
  });

  it("a limiter goes by what its limit is by when that is changed", async () => {
    const { limiter, limits, clock } = await scene({ one: { concurrency: 1, by: ["tenant", "model"] } });
    const one = limiter("one", { keys: { model: "large", tenant: "acme" } });
    await (await one.acquire()).release();
    await limits.define({ one: { concurrency: 1, by: ["model", "tenant"] } });
    granted(await one.tryAcquire());
    expect((await limits.get("one", { keys: { tenant: "acme", model: "large" } }))?.held).toBe(1);
    expect((await limits.get("one"))?.groups.map(({ group }) => group)).toEqual(["large,acme"]);
    await limits.define({ one: { concurrency: 1, by: "user" } });
    await expect(one.tryAcquire()).rejects.toThrow('the limit "one" is by user');
    await clock.advance(0);
  });

  it("setNextAvailableTime() and clear() of a limiter are for its keys", async () => {
    const { limiter, clock } = await scene(BOTH);
    const [acme, zeta] = ["acme", "zeta"].map((tenant) => limiter("both", { keys: { model: "x", tenant } }));
    await acme!.setNextAvailableTime(new Date(clock.wall() + 5_000));
    expect(await acme!.getNextAvailableTime()).toEqual(new Date(clock.wall() + 5_000));
    refused(await acme!.tryAcquire());
    granted(await zeta!.tryAcquire());
    await acme!.clear();
    granted(await acme!.tryAcquire());
    refused(await zeta!.tryAcquire());
  });

  it("Limits reads, changes, holds and resets the state of the given keys", async () => {
    const { limits, limiter, clock } = await scene({
      ...BOTH,
      tenant: { max: 2, per: "1m", by: "tenant", overrides: { acme: { max: 5 } } },
    });
    const keys = { model: "large", tenant: "acme" };
    granted(await limiter("both", { keys }).tryAcquire());
    granted(await limiter("tenant", { keys: { tenant: "acme" } }).tryAcquire());
    expect(await limits.get("both", { keys })).toMatchObject({
      by: ["tenant", "model"],
      group: "acme,large",
      used: 1,
      blockedBy: "window",
    });
    expect(await limits.get("both", { keys: { ...keys, tenant: "zeta" } })).toMatchObject({ used: 0, free: 1 });
    const tenant = { keys: { tenant: "acme" } };
    expect(await limits.get("tenant", tenant)).toMatchObject({ by: "tenant", group: "acme", used: 1, max: 5 });
    await limits.change("both", { max: 3 }, { keys });
    expect(await limits.get("both", { keys })).toMatchObject({ max: 3, free: 2, changed: true });
    await limits.restore("both");
    await limits.reset("both", { keys });
    expect(await limits.get("both", { keys })).toMatchObject({ max: 1, used: 0 });
    const until = await limits.hold("both", "5s", { keys });
    expect((await limits.get("both", { keys }))?.pausedUntil).toEqual(until);
    await limits.pause("tenant", { for: "7s", ...tenant });
    expect((await limits.get("tenant", tenant))?.pausedUntil).toEqual(new Date(clock.wall() + 7_000));
    expect((await limits.get("tenant", { keys: { tenant: "zeta" } }))?.pausedUntil).toBeUndefined();
    await limits.resume("tenant");
    await limits.sync("tenant", { remaining: 1, reset: "10s" }, tenant);
    granted(await limiter("tenant", tenant).tryAcquire());
    refused(await limiter("tenant", tenant).tryAcquire());
  });

  it("Limits refuses keys that the limit is not by, and says where they are missing", async () => {
    const { limits } = await scene({ ...BOTH, grouped: { max: 1, per: "1m", by: "group" } });
    const wrong = { keys: { user: "ada" } };
    for (const use of [
      () => limits.get("both", wrong),
      () => limits.change("both", { max: 2 }, wrong),
      () => limits.hold("both", "1s", wrong),
      () => limits.pause("both", { for: "1s", ...wrong }),
      () => limits.reset("both", wrong),
      () => limits.sync("both", { remaining: 1, reset: 1 }, wrong),
    ]) {
      await expect(use()).rejects.toThrow('expected `keys.user` to be left out: the limit "both" is by tenant, model');
    }
    await expect(limits.get("both", { group: "g" })).rejects.toThrow('the limit "both" is by tenant, model');
    await expect(limits.get("grouped", { keys: { tenant: "a" } })).rejects.toThrow('the limit "grouped" is by group');
    await expect(limits.sync("both", { remaining: 1, reset: 1 })).rejects.toThrow(
      'expected `keys` to be given: the limit "both" is by tenant, model',
    );
    await expect(limits.pause("both", { keys: { tenant: "a" } })).rejects.toThrow("all values are paused together");
  });
});
