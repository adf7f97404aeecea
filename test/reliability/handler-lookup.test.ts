import { describe, expect, it } from "vitest";
import { Queue, Worker } from "../../src/index.ts";
import { STORAGES } from "./support.ts";

const NAMES = ["constructor", "__proto__", "toString", "valueOf", "hasOwnProperty", "../../x", "node:fs", "then"];

describe.each(STORAGES)("types that are names of other things ($name)", ({ open }) => {
  it("a type that is named like a built-in property is left to workers that handle it", async () => {
    const { storage } = await open();
    const queue = new Queue("q", { storage });
    const odd = await queue.addBulk(NAMES.map((type) => ({ type, data: null })));
    const job = await queue.add("work", null);
    const errors: unknown[] = [];
    const calls: string[] = [];
    await using _worker = new Worker(
      "q",
      { work: ({ type }) => void calls.push(type) },
      { storage, onError: (error) => errors.push(error) },
    );
    await job.result();
    expect(calls).toEqual(["work"]);
    expect(errors).toEqual([]);
    const states = await Promise.all(odd.map((one) => one.info()));
    expect(states.map((info) => [info?.state, info?.attempt])).toEqual(NAMES.map(() => ["waiting", 0]));
  });

  it("a type that is named like a built-in property runs if a worker handles it", async () => {
    const { storage } = await open();
    const queue = new Queue("q", { storage });
    const handlers = Object.fromEntries(
      NAMES.filter((name) => name !== "then").map((name) => [name, () => `own ${name}`]),
    );
    Object.defineProperty(handlers, "__proto__", { value: () => "own __proto__", enumerable: true });
    await using _worker = new Worker("q", handlers, { storage });
    for (const type of Object.keys(handlers)) {
      const job = await queue.add(type, null);
      expect(await job.result()).toBe(`own ${type}`);
    }
  });
});
