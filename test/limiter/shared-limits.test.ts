import { describe, expect, it } from "vitest";
import {
  defineLimits,
  LimitConflictError,
  type LimitDefinitions,
  LimitNotFoundError,
  Limits,
  MemoryStorage,
  OptionsError,
  SharedLimiter,
} from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";

const NOW = Date.UTC(2030, 0, 1);
const at = (ms: number) => new Date(NOW + ms);

async function scene(definitions: LimitDefinitions) {
  const clock = new FakeClock(NOW);
  const storage = new MemoryStorage({ clock });
  const limits = new Limits(storage, { clock });
  await limits.define(definitions);
  return {
    clock,
    storage,
    limits,
    take: (name: string, options: { weight?: number; group?: string } = {}) =>
      new SharedLimiter(storage, name, { clock, group: options.group }).tryAcquire({ weight: options.weight }),
  };
}

const mail = { max: 3, per: "1m", types: ["send"] } as const;

describe("Limits", () => {
  it("Limits shows the current state of a limit", async () => {
    const { limits, take, clock } = await scene({ mail: { ...mail, concurrency: 2, every: "1s", queues: ["q"] } });
    await take("mail");
    expect(await limits.get("mail")).toEqual({
      name: "mail",
      group: undefined,
      max: 3,
      per: 60_000,
      concurrency: 2,
      every: 1_000,
      used: 1,
      held: 1,
      free: 0,
      availableAt: at(1_000),
      blockedBy: "spacing",
      pausedUntil: undefined,
      breaker: "closed",
      paused: false,
      waiting: 0,
      types: ["send"],
      queues: ["q"],
      by: undefined,
      weight: undefined,
      estimate: 1,
      overrides: {},
      declared: { max: 3, per: 60_000, concurrency: 2, every: 1_000 },
      changed: false,
      revision: 1,
      version: undefined,
      owners: [],
      groupCount: 1,
      groups: [],
    });
    await clock.advance(1_000);
    expect(await limits.get("mail")).toMatchObject({ availableAt: at(1_000), blockedBy: undefined });
    expect(await limits.get("nothing")).toBeUndefined();
  });

  it("Limits lists all limits, by name", async () => {
    const { limits } = await scene({ b: { every: 1, all: true }, a: { concurrency: 1, all: true } });
    expect((await limits.list()).map(({ name, max, concurrency }) => [name, max, concurrency])).toEqual([
      ["a", undefined, 1],
      ["b", undefined, undefined],
    ]);
  });

  it("Limits shows of a limit by group the fullest, and each", async () => {
    const { limits, take } = await scene({
      tenant: { max: 4, per: "1s", by: "group", overrides: { acme: { max: 10, share: 2 } } },
    });
    expect(await limits.get("tenant")).toMatchObject({ used: 0, free: 4, groups: [], groupCount: 0, by: "group" });
    await take("tenant", { group: "acme" });
    await take("tenant", { group: "acme" });
    await take("tenant", { group: "small" });
    const info = (await limits.get("tenant"))!;
    expect(info).toMatchObject({ group: "small", used: 1, max: 4, groupCount: 2 });
    expect(Object.fromEntries(info.groups.map(({ group, used, max }) => [group, [used, max]]))).toEqual({
      acme: [2, 10],
      small: [1, 4],
    });
    expect(info.overrides).toEqual({
      acme: { max: 10, per: 1_000, concurrency: undefined, every: undefined, share: 2 },
    });
    expect(await limits.get("tenant", { group: "acme" })).toMatchObject({ group: "acme", used: 2, max: 10, free: 8 });
    expect(await limits.get("tenant", { group: "new" })).toMatchObject({ group: "new", used: 0, free: 4 });
  });

  it("define() accepts the same declaration again, and treats another one by `onConflict`", async () => {
    const { limits, take } = await scene({ mail });
    await take("mail");
    await limits.define(defineLimits({ mail: { per: 60_000, max: 3, types: ["send", "send"] } }));
    const other = { mail: { ...mail, max: 5 } };
    const error = await limits.define(other, { onConflict: "reject" }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LimitConflictError);
    expect((error as Error).message).toContain("quota");
    await limits.define(defineLimits(other, { onConflict: "keep" }));
    expect(await limits.get("mail")).toMatchObject({ max: 3, revision: 1 });
    const declared = await limits.define(defineLimits(other, { onConflict: "keep" }), { onConflict: "update" });
    expect(declared).toMatchObject({ changes: [{ limit: "mail", kind: "declared", by: null }], kept: [] });
    expect(await limits.get("mail")).toMatchObject({ max: 5, used: 1, revision: 2, declared: { max: 5 } });
    await expect(limits.define({ mail: { max: 5 } } as never)).rejects.toThrow("define limits.mail: expected `per`");
    for (const wrong of [
      { onConflict: "never" },
      { onConflict: "refuse" },
      { version: -1 },
      { version: 1.5 },
      { owner: "" },
    ]) {
      await expect(limits.define({}, wrong as never)).rejects.toThrow(OptionsError);
      expect(() => defineLimits({}, wrong as never)).toThrow(OptionsError);
    }
  });

  it("Limits declares by version and owner, and shows them", async () => {
    const { limits } = await scene({});
    const api = { every: "1s", all: true } as const;
    await limits.define(defineLimits({ mail, api }, { version: 3, owner: "billing" }));
    expect(await limits.get("mail")).toMatchObject({ version: 3, owners: ["billing"] });
    const { kept } = await limits.define({ mail: { ...mail, max: 9 } }, { version: 2, owner: "billing" });
    expect(kept).toMatchObject([{ limit: "mail", version: 2, keptVersion: 3 }]);
    await limits.define(defineLimits({ mail }, { version: 3, owner: "billing" }), { version: 4 });
    expect((await limits.list()).map(({ name, version }) => [name, version])).toEqual([["mail", 4]]);
  });

  it("Limits keeps a history of what was changed, and by whom", async () => {
    const { storage, clock } = await scene({ mail });
    const limits = new Limits(storage, { clock, by: "ops@example.com" });
    await clock.advance(5_000);
    await limits.change("mail", { max: 1 });
    await limits.pause("mail");
    await limits.remove("mail");
    const history = await limits.history("mail");
    expect(history.map(({ kind, by }) => [kind, by])).toEqual([
      ["removed", "ops@example.com"],
      ["paused", "ops@example.com"],
      ["changed", "ops@example.com"],
      ["declared", null],
    ]);
    expect(history[2]!.at.getTime() - history[3]!.at.getTime()).toBe(5_000);
    expect(await limits.history(undefined, { limit: 2 })).toHaveLength(2);
    await expect(limits.history("mail", { limit: 0 })).rejects.toThrow(OptionsError);
    await expect(limits.history("")).rejects.toThrow(OptionsError);
    expect(() => new Limits(storage, { by: "" })).toThrow(OptionsError);
  });

  describe("change", () => {
    it("change() sets other numbers until they are restored, whichever process declares the old ones", async () => {
      const { limits, take } = await scene({ mail });
      await limits.change("mail", { max: 1, per: "2m", concurrency: 4, every: "5ms" });
      await limits.define({ mail });
      expect(await limits.get("mail")).toMatchObject({
        max: 1,
        per: 120_000,
        concurrency: 4,
        every: 5,
        changed: true,
        declared: { max: 3, per: 60_000, concurrency: undefined, every: undefined },
      });
      await take("mail");
      expect((await take("mail")).granted).toBe(false);
      await limits.restore("mail");
      expect(await limits.get("mail")).toMatchObject({ max: 3, per: 60_000, changed: false });
      expect((await take("mail")).granted).toBe(true);
    });

    it("change() sets other numbers for one group", async () => {
      const { limits, take } = await scene({ tenant: { max: 1, per: "1s", by: "group" } });
      await limits.change("tenant", { max: 2 }, { group: "acme" });
      expect(await limits.get("tenant", { group: "acme" })).toMatchObject({ max: 2, changed: true });
      expect(await limits.get("tenant", { group: "other" })).toMatchObject({ max: 1 });
      await take("tenant", { group: "acme" });
      expect((await take("tenant", { group: "acme" })).granted).toBe(true);
      await limits.restore("tenant");
      expect(await limits.get("tenant", { group: "acme" })).toMatchObject({ max: 1, changed: false });
    });

    it("change() accepts a whole window where there was none", async () => {
      const { limits } = await scene({ gpu: { concurrency: 2, all: true } });
      await limits.change("gpu", { max: 5, per: "1s" });
      expect(await limits.get("gpu")).toMatchObject({ max: 5, per: 1_000, concurrency: 2 });
      await limits.change("gpu", { max: 6 });
      expect(await limits.get("gpu")).toMatchObject({ max: 6 });
    });

    it("change() wakes waiters that fit now", async () => {
      const { limits, storage, clock } = await scene({ gpu: { concurrency: 0, all: true } });
      const waiting = new SharedLimiter(storage, "gpu", { clock }).acquire();
      await clock.advance(10);
      await limits.change("gpu", { concurrency: 1 });
      await clock.advance(1);
      await (await waiting).release();
      expect(clock.now()).toBe(11);
    });

    it.each<[string, string, object, object, string]>([
      ["nothing", "mail", {}, {}, "max"],
      ["a misspelt number", "mail", { mx: 1 }, {}, "mx"],
      ["a fraction", "mail", { max: 1.5 }, {}, "max"],
      ["no time at all", "mail", { per: 0 }, {}, "per"],
      ["half a window", "gpu", { max: 1 }, {}, "per"],
      ["the other half", "gpu", { per: 1 }, {}, "max"],
      ["a window beside a concurrency that is weighed", "memory", { max: 1, per: 1 }, {}, "max"],
      ["less than a start counts for", "tokens", { max: 9 }, {}, "max"],
      ["less than is held for a start", "memory", { concurrency: 9 }, {}, "concurrency"],
      ["less than a start counts for, for a group", "tokens", { max: 9 }, { group: "a" }, "max"],
      ["a group where there are none", "mail", { max: 1 }, { group: "a" }, "group"],
      ["a misspelt group", "mail", { max: 1 }, { grup: "a" }, "grup"],
    ])("refuses %s", async (_, name, numbers, options, option) => {
      const { limits } = await scene({
        mail,
        gpu: { concurrency: 2, all: true },
        memory: { concurrency: 16, weight: "gb", estimate: 10, all: true },
        tokens: { max: 100, per: "1m", weight: "tokens", estimate: 10, by: "group" },
      });
      const before = await limits.get(name);
      const error = await limits.change(name, numbers, options).catch((reason: unknown) => reason);
      expect(error).toMatchObject({ name: "OptionsError", option });
      expect(await limits.get(name)).toEqual(before);
      // What stops it makes sense whatever it weighs.
      await limits.change("tokens", { max: 0 });
    });
  });

  it("Limits pauses until resumed, or for a while", async () => {
    const { limits, take, clock } = await scene({ mail });
    await limits.pause("mail");
    expect(await limits.get("mail")).toMatchObject({
      paused: true,
      free: 0,
      blockedBy: "paused",
      availableAt: undefined,
    });
    await clock.advance(3_600_000);
    expect((await take("mail")).granted).toBe(false);
    await limits.resume("mail");
    expect(await limits.get("mail")).toMatchObject({ paused: false, free: 3 });
    await limits.pause("mail", { for: "10s" });
    expect(await limits.get("mail")).toMatchObject({
      paused: false,
      pausedUntil: at(3_610_000),
      availableAt: at(3_610_000),
      blockedBy: "held",
    });
    await limits.pause("mail", { for: "1s" });
    expect(await limits.get("mail")).toMatchObject({ pausedUntil: at(3_610_000) });
    await limits.resume("mail");
    expect((await take("mail")).granted).toBe(true);
  });

  it("Limits pauses one group for a while, and all of them until resumed", async () => {
    const { limits, take } = await scene({ tenant: { max: 5, per: "1s", by: "group" } });
    await limits.pause("tenant", { for: "10s", group: "acme" });
    expect((await take("tenant", { group: "acme" })).granted).toBe(false);
    expect((await take("tenant", { group: "other" })).granted).toBe(true);
    await expect(limits.pause("tenant", { group: "acme" })).rejects.toThrow(/`group`.*no `for`/);
    await limits.resume("tenant");
    expect((await take("tenant", { group: "acme" })).granted).toBe(true);
  });

  it.each<[string, Date | number | string | Headers | Response, number]>([
    ["an instant", at(5_000), 5_000],
    ["milliseconds", 5_000, 5_000],
    ["a duration", "5s", 5_000],
    ["headers", new Headers({ "retry-after": "5" }), 5_000],
    ["a response", new Response(null, { status: 429, headers: { "retry-after-ms": "250" } }), 250],
    ["a response that does not say", new Response(null, { status: 429 }), 1_000],
    ["a response that asks for more than a day", new Headers({ "retry-after": "9999999" }), 86_400_000],
    ["an instant that has passed", at(-5_000), 0],
  ])("Limits holds by %s", async (_, retry, ms) => {
    const { limits } = await scene({ mail });
    expect(await limits.hold("mail", retry as Date)).toEqual(at(ms));
    expect(await limits.get("mail")).toMatchObject({ pausedUntil: ms === 0 ? undefined : at(ms) });
  });

  it("Limits holds one group", async () => {
    const { limits } = await scene({ tenant: { max: 5, per: "1s", by: "group" } });
    await limits.hold("tenant", 5_000, { group: "acme" });
    expect(await limits.get("tenant", { group: "acme" })).toMatchObject({ pausedUntil: at(5_000) });
    expect(await limits.get("tenant", { group: "other" })).toMatchObject({ pausedUntil: undefined });
  });

  it("Limits pauses and holds all groups where none is named, also unused ones", async () => {
    const { limits, take, clock } = await scene({ tenant: { max: 5, per: "1s", by: "group" } });
    await limits.pause("tenant", { for: "10s" });
    expect(await limits.get("tenant")).toMatchObject({ free: 0, blockedBy: "held", pausedUntil: at(10_000) });
    expect((await limits.list())[0]).toMatchObject({ pausedUntil: at(10_000), groupCount: 0 });
    for (const group of ["acme", "other", undefined]) {
      expect((await take("tenant", group === undefined ? {} : { group })).granted).toBe(false);
    }
    expect(await limits.get("tenant", { group: "new" })).toMatchObject({ blockedBy: "held", pausedUntil: at(10_000) });
    await clock.advance(10_000);
    expect((await take("tenant", { group: "acme" })).granted).toBe(true);
    await limits.hold("tenant", 5_000);
    expect(await limits.get("tenant")).toMatchObject({ pausedUntil: at(15_000) });
    expect((await take("tenant", { group: "acme" })).granted).toBe(false);
    await limits.resume("tenant");
    expect((await take("tenant", { group: "acme" })).granted).toBe(true);
  });

  it("Limits resets what was counted", async () => {
    const { limits, take } = await scene({ tenant: { max: 1, per: "1m", by: "group" } });
    await take("tenant", { group: "a" });
    await take("tenant", { group: "b" });
    await limits.reset("tenant", { group: "a" });
    expect((await take("tenant", { group: "a" })).granted).toBe(true);
    expect((await take("tenant", { group: "b" })).granted).toBe(false);
    await limits.reset("tenant");
    expect((await take("tenant", { group: "b" })).granted).toBe(true);
  });

  it("Limits removes a limit", async () => {
    const { limits } = await scene({ mail });
    expect(await limits.remove("mail")).toBe(true);
    expect(await limits.remove("mail")).toBe(false);
    expect(await limits.list()).toEqual([]);
  });

  describe("sync", () => {
    it("sync() tightens a limit to what the service says is left", async () => {
      const { limits, take, clock } = await scene({ mail });
      const response = new Response(null, {
        headers: { "x-ratelimit-remaining": "1", "x-ratelimit-reset": "10", "x-ratelimit-limit": "3" },
      });
      expect(await limits.sync("mail", response)).toEqual({
        remaining: 1,
        resetAt: at(10_000),
        heldUntil: undefined,
      });
      expect((await take("mail")).granted).toBe(true);
      expect(await take("mail")).toMatchObject({ granted: false, retryInMs: 10_000 });
      expect(await limits.get("mail")).toMatchObject({ used: 1, blockedBy: "remaining" });
      await clock.advance(10_000);
      expect((await take("mail")).granted).toBe(true);
    });

    it("sync() accepts numbers that user code has read", async () => {
      const { limits, take } = await scene({ mail });
      expect(await limits.sync("mail", { remaining: 0, reset: at(2_000) })).toMatchObject({ resetAt: at(2_000) });
      expect(await take("mail")).toMatchObject({ granted: false, retryInMs: 2_000 });
      expect(await limits.sync("mail", { remaining: 0, reset: "3s" })).toMatchObject({ resetAt: at(3_000) });
    });

    it("sync() holds the limit when the service asks for it", async () => {
      const { limits } = await scene({ mail });
      const response = new Response(null, { status: 429, headers: { "retry-after": "7" } });
      expect(await limits.sync("mail", response)).toEqual({
        remaining: undefined,
        resetAt: undefined,
        heldUntil: at(7_000),
      });
      expect(await limits.get("mail")).toMatchObject({ pausedUntil: at(7_000), blockedBy: "held" });
    });

    const openai = {
      "x-ratelimit-remaining-requests": "5",
      "x-ratelimit-reset-requests": "1s",
      "x-ratelimit-remaining-tokens": "40",
      "x-ratelimit-reset-tokens": "6m0s",
    };
    const anthropic = {
      "anthropic-ratelimit-input-tokens-remaining": "7",
      "anthropic-ratelimit-input-tokens-reset": "2030-01-01T00:00:09Z",
      "anthropic-ratelimit-tokens-remaining": "0",
      "anthropic-ratelimit-tokens-reset": "2030-01-01T00:00:09Z",
    };
    const weighing = (weight: string) => ({ max: 100, per: "1m", weight, all: true }) as const;

    it.each<[string, LimitDefinitions[string], Record<string, string>, number | undefined, number | undefined]>([
      ["requests, for starts", mail, openai, 5, 1_000],
      ["what it weighs", weighing("tokens"), openai, 40, 360_000],
      ["what it weighs, written otherwise", weighing("Input_Tokens"), anthropic, 7, 9_000],
      ["nothing where it weighs something else", weighing("images"), openai, undefined, undefined],
      ["nothing of tokens, for starts", mail, anthropic, undefined, undefined],
      ["the one that is called like the limit", mail, { ratelimit: '"burst";r=9;t=1, "quota";r=2;t=5' }, 2, 5_000],
      ["the default", mail, { ratelimit: '"default";r=9;t=1, "daily";r=2;t=5' }, 9, 1_000],
      ["nothing where only tokens are reported", mail, { "x-ratelimit-remaining-tokens": "9" }, undefined, undefined],
      ["the only one", mail, { ratelimit: '"hourly";r=9;t=1' }, 9, 1_000],
      [
        "the least of several",
        mail,
        { "x-ratelimit-remaining": "9", "ratelimit-remaining": "3", "ratelimit-reset": "4" },
        3,
        4_000,
      ],
      ["its own window where no reset is said", mail, { "x-ratelimit-remaining": "2" }, 2, 60_000],
      [
        "nothing where the end of the window is unknown",
        { concurrency: 2, all: true },
        { "x-ratelimit-remaining": "2" },
        2,
        undefined,
      ],
      ["whole numbers", mail, { "x-ratelimit-remaining": "2.9", "x-ratelimit-reset": "1" }, 2, 1_000],
    ])("goes by %s", async (_, definition, headers, remaining, resetMs) => {
      const { limits } = await scene({ quota: definition });
      expect(await limits.sync("quota", new Headers(headers))).toEqual({
        remaining,
        resetAt: resetMs === undefined ? undefined : at(resetMs),
        heldUntil: undefined,
      });
    });

    it("sync() tightens the limit for one group", async () => {
      const { limits, take } = await scene({ tenant: { max: 5, per: "1s", by: "group" } });
      await limits.sync("tenant", { remaining: 0, reset: 500 }, { group: "acme" });
      expect((await take("tenant", { group: "acme" })).granted).toBe(false);
      expect((await take("tenant", { group: "other" })).granted).toBe(true);
    });

    it("sync() requires `group` for a limit by group", async () => {
      const { limits, take } = await scene({ tenant: { max: 5, per: "1s", by: "group" } });
      await expect(limits.sync("tenant", { remaining: 0, reset: 500 })).rejects.toMatchObject({
        name: "OptionsError",
        option: "group",
        message: 'sync: expected `group` to be given: the limit "tenant" is by group, got undefined',
      });
      expect((await take("tenant")).granted).toBe(true);
    });

    it.each<[unknown, string]>([
      [{}, "source"],
      [null, "source"],
      ["5", "source"],
      [{ remaining: 1 }, "reset"],
      [{ remaining: -1, reset: 1 }, "remaining"],
      [{ remaining: 1, reset: "soon" }, "reset"],
      [{ remaining: 1, reset: 1, rest: 1 }, "rest"],
    ])("refuses %j", async (source, option) => {
      const { limits } = await scene({ mail });
      await expect(limits.sync("mail", source as never)).rejects.toMatchObject({ name: "OptionsError", option });
    });
  });

  it("Limits throws for a limit that is not declared", async () => {
    const { limits } = await scene({});
    for (const use of [
      () => limits.change("x", { max: 1 }),
      () => limits.restore("x"),
      () => limits.pause("x"),
      () => limits.pause("x", { for: 5, group: "a" }),
      () => limits.resume("x"),
      () => limits.hold("x", 5),
      () => limits.sync("x", new Headers()),
      () => limits.reset("x"),
    ]) {
      await expect(use()).rejects.toThrow(LimitNotFoundError);
    }
  });

  it("Limits refuses invalid arguments", async () => {
    const { limits } = await scene({ mail });
    const wrong: [() => Promise<unknown>, string][] = [
      [() => limits.get(5 as never), "name"],
      [() => limits.get("mail", { group: "a" }), "group"],
      [() => limits.restore(""), "name"],
      [() => limits.pause("mail", { for: 0 }), "for"],
      [() => limits.pause("mail", { For: 5 } as never), "For"],
      [() => limits.pause("mail", { for: 5, group: "a" }), "group"],
      [() => limits.resume("queue:mail"), "name"],
      [() => limits.hold("mail", "later" as never), "retry"],
      [() => limits.hold("mail", -1), "retry"],
      [() => limits.hold("mail", {} as never), "retry"],
      [() => limits.reset("mail", { group: 5 } as never), "group"],
      [() => limits.remove(null as never), "name"],
    ];
    for (const [use, option] of wrong) await expect(use()).rejects.toMatchObject({ name: "OptionsError", option });
    expect(() => new Limits({} as never)).toThrow("Limits: expected `storage`");
    expect(() => new Limits(new MemoryStorage(), { clock: 5 } as never)).toThrow("Limits: expected `clock`");
  });
});
