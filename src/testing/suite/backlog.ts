import type { TypeBacklog } from "../../storage/limit-storage.ts";
import { equal, ok } from "../expect.ts";
import { define, rule, said, window } from "./limit-words.ts";
import { type Cases, completed, retry, type Scene } from "./scene.ts";

async function backlogOf(s: Scene, type: string): Promise<TypeBacklog> {
  const { types } = await s.storage.backlog("q");
  const found = types.find((one) => one.type === type);
  ok(found !== undefined, `expected the type ${type} in the backlog`);
  return found;
}

export const backlog: Cases = {
  "a backlog counts the jobs that have not started, by type": async (s) => {
    await s.add(...["a", "a", "b", null].map((group) => ({ type: "t", group })));
    await s.add(
      { type: "t", due: { inMs: 5_000 } },
      { type: "u", weights: { n: 10, m: 4 } },
      { type: "u", weights: { n: 30 } },
    );
    await s.add({ queue: "other", type: "t" });
    await s.storage.setPaused("q", "u", true);
    const active = await s.claimOne({ types: ["t"] });
    equal(active.group, "a", "who runs");
    const { type, paused, waiting, scheduled, active: running, groups, mostInGroup } = await backlogOf(s, "t");
    equal(
      { type, paused, waiting, scheduled, running, groups, mostInGroup },
      { type: "t", paused: false, waiting: 3, scheduled: 1, running: 1, groups: 3, mostInGroup: 1 },
      "one type",
    );
    const u = await backlogOf(s, "u");
    equal([u.paused, u.waiting, u.groups, u.mostInGroup], [true, 2, 1, 2], "another");
    equal(u.weights["n"], { part: 1, mean: 20 }, "what waiting jobs weigh on average");
    equal(u.weights["m"], { part: 0.5, mean: 4 }, "what only one of them says");
    const { queue, paused: stopped, types } = await s.storage.backlog("q");
    equal([queue, stopped, types.length], ["q", false, 2], "the queue");
    equal((await s.storage.backlog("nobody")).types, [], "a queue without jobs");
  },

  "a backlog says how long the latest jobs of a type ran": async (s) => {
    await s.addMany(4);
    equal((await backlogOf(s, "t")).ranMs, null, "before any has ended");
    for (const ms of [100, 300]) {
      const job = await s.claimOne();
      await s.clock.advance(ms);
      await s.settle(completed(job));
    }
    const failed = await s.claimOne();
    await s.clock.advance(5_000);
    await s.settle(retry(failed, 0));
    equal((await backlogOf(s, "t")).ranMs, 200, "on average");
  },

  "a backlog shows the limits that apply to one of the types, and their state": async (s) => {
    await define(
      s,
      rule("a", window(5, 1_000), { types: ["t", "x"] }),
      rule("b", window(5, 1_000), { types: ["u"] }),
      rule("c", window(5, 1_000), { queues: ["r"] }),
      rule("d", { concurrency: 1 }),
    );
    await s.addMany(3);
    await s.claim();
    const { limits } = await s.storage.backlog("q");
    equal(limits.map((one) => one.rule.name).toSorted(), ["a", "d"], "the names");
    const { used, held } = limits.find((one) => one.rule.name === "a")!.states[0]!;
    equal([used, held], [1, 0], "the state of one");
    equal((await said(s)).blockedBy, "d", "what a claim says");
  },
};
