import { equal, refused } from "../expect.ts";
import { blocked, change, count, countOf, define, limitOf, rule, said, usedAndHeld, window } from "./limit-words.ts";
import { type Cases, completed } from "./scene.ts";

export const rules: Cases = {
  "a declared limit is found, with nothing counted": async (s) => {
    const declared = rule("mail", { ...window(3, 1_000), concurrency: 2 }, { types: ["t"], queues: ["q", "r"] });
    await define(s, declared);
    equal(
      await s.storage.limits.read({ name: "mail", group: null }),
      [
        {
          rule: declared,
          declared,
          revision: 1,
          version: null,
          owners: [],
          waiting: 0,
          groups: 0,
          states: [
            {
              group: null,
              used: 0,
              held: 0,
              free: 2,
              nextInMs: 0,
              reason: null,
              heldForMs: 0,
              breaker: "closed",
            },
          ],
        },
      ],
      "the limit",
    );
    equal(await s.storage.limits.read({ name: "nobody", group: null }), [], "a limit that was not declared");
  },

  "limits are listed by name": async (s) => {
    await define(s, rule("b", window(1, 1)), rule("a", window(1, 1)), rule("c", window(1, 1)));
    const found = await s.storage.limits.read({ name: null, group: null });
    equal(
      found.map((one) => one.rule.name),
      ["a", "b", "c"],
      "the names",
    );
  },

  "a limit says how many waiting jobs it applies to": async (s) => {
    await define(s, rule("k", window(1, 1_000), { types: ["a", "b"] }), rule("all", window(9, 1_000)));
    await s.add(
      { type: "a" },
      { type: "b" },
      { type: "b", queue: "r" },
      { type: "c" },
      { type: "a", due: { inMs: 5 } },
    );
    equal([(await limitOf(s, "k")).waiting, (await limitOf(s, "all")).waiting], [3, 4], "who waits");
    await s.claim();
    equal([(await limitOf(s, "k")).waiting, (await limitOf(s, "all")).waiting], [2, 2], "who waits after a claim");
  },

  "a limit that is declared again with the same rule is left as it is": async (s) => {
    const declared = rule("k", window(2, 1_000), { byGroup: true, groups: { g: { max: 5, share: 2 } } });
    await define(s, declared);
    // The same in another order.
    const { quota, name, ...rest } = declared;
    const { max, ...others } = quota;
    for (const onConflict of ["reject", "update", "keep"] as const) {
      await s.storage.limits.define([{ ...rest, quota: { ...others, max }, name }], { onConflict });
    }
    equal((await limitOf(s, "k")).revision, 1, "the revision");
  },

  "a limit that is declared with another rule and reject is refused, with all that are declared with it": async (s) => {
    await define(s, rule("k", window(2, 1_000)));
    const other = [rule("new", window(1, 1)), rule("k", window(3, 1_000))];
    equal(
      await refused(() => s.storage.limits.define(other, { onConflict: "reject" }), "another k"),
      "SLUICE_LIMIT_CONFLICT",
      "the code",
    );
    equal((await limitOf(s, "k")).rule.quota.max, 2, "k");
    equal(await s.storage.limits.read({ name: "new", group: null }), [], "what came along");
  },

  "a limit that is declared with another rule is replaced, and what was counted stays counted": async (s) => {
    await s.addMany(10);
    await define(s, rule("k", window(2, 1_000)));
    equal(await count(s), 2, "under two");
    await s.storage.limits.define([rule("k", window(3, 1_000))]);
    equal((await limitOf(s, "k")).revision, 2, "the revision");
    equal(await said(s), { count: 1, more: false, nextInMs: 1_000, blockedBy: "k" }, "under three");
  },

  "a limit that is declared with another rule and keep is left as it is": async (s) => {
    await s.addMany(10);
    await define(s, rule("k", window(2, 1_000)));
    await s.storage.limits.define([rule("k", window(3, 1_000)), rule("new", window(5, 1))], { onConflict: "keep" });
    const { rule: inForce, revision } = await limitOf(s, "k");
    equal([inForce.quota.max, revision, (await limitOf(s, "new")).revision], [2, 1, 1], "k, and what is new");
    equal(await count(s), 2, "under two");
  },

  "numbers of a limit can be changed, at once, until they are restored": async (s) => {
    await s.addMany(20);
    const declared = rule("k", window(2, 1_000));
    await define(s, declared);
    equal(await count(s), 2, "as declared");
    await change(s, "k", { quota: { max: 5 }, group: null });
    equal(await said(s), { count: 3, more: false, nextInMs: 1_000, blockedBy: "k" }, "more");
    await change(s, "k", { quota: { concurrency: 6 }, group: null });
    const changed = await limitOf(s, "k");
    equal(changed.rule.quota, { max: 5, windowMs: 1_000, concurrency: 6, everyMs: null }, "what is in force");
    equal([changed.declared, changed.revision], [declared, 3], "what was declared, and the revision");
    await change(s, "k", { restore: true });
    const restored = await limitOf(s, "k");
    equal([restored.rule, restored.revision], [declared, 4], "restored");
    await s.clock.advance(1_000);
    equal(await count(s), 2, "as declared again");
  },

  "a group can be given numbers of its own by hand": async (s) => {
    await s.add(...["a", "a", "a", "b", "b", "b"].map((group) => ({ group })));
    await define(s, rule("k", window(1, 1_000), { byGroup: true, groups: { b: { max: 2 } } }));
    await change(s, "k", { quota: { max: 2 }, group: "a" });
    await change(s, "k", { quota: { max: 3 }, group: "b" });
    equal((await s.claim()).jobs.map(({ group }) => group).join(""), "ababb", "who starts");
    await change(s, "k", { restore: true });
    equal((await limitOf(s, "k")).rule.groups, { b: { max: 2 } }, "restored");
  },

  "after a limit is lowered nothing starts until it fits": async (s) => {
    await s.addMany(10);
    await define(s, rule("k", { ...window(4, 1_000), concurrency: 4 }));
    const { jobs } = await s.claim();
    await change(s, "k", { quota: { max: 2, concurrency: 2 }, group: null });
    await s.clock.advance(1_000);
    await s.settle(completed(jobs[0]!));
    equal(await said(s), blocked(null), "three are held");
    await s.settle(completed(jobs[1]!));
    equal(await count(s), 0, "two are held");
    await s.settle(completed(jobs[2]!), completed(jobs[3]!));
    equal(await said(s), { count: 2, more: false, nextInMs: null, blockedBy: "k" }, "none is held");
  },

  "a shorter window makes available what has left it": async (s) => {
    await s.addMany(10);
    await define(s, rule("k", window(2, 10_000)));
    equal(await count(s), 2, "the first two");
    await s.clock.advance(1_500);
    equal((await said(s)).nextInMs, 8_500, "the long window");
    await change(s, "k", { quota: { windowMs: 1_000 }, group: null });
    equal(await said(s), { count: 2, more: false, nextInMs: 1_000, blockedBy: "k" }, "the short window");
  },

  "a longer window lets nothing start that would be too much for it": async (s) => {
    await s.addMany(10);
    await define(s, rule("k", window(2, 1_000)));
    equal(await count(s), 2, "the first two");
    await s.clock.advance(1_500);
    equal((await countOf(s, "k")).used, 0, "both have left");
    await change(s, "k", { quota: { windowMs: 10_000 }, group: null });
    equal(await count(s), 0, "the long window");
    await s.clock.advance(8_499);
    equal(await count(s), 0, "a millisecond before they have left the long one");
    await s.clock.advance(1_501);
    equal(await count(s), 2, "when the long one has passed since the change");
  },

  "no job starts under a paused limit, and running jobs go on": async (s) => {
    await s.add({ type: "a" }, { type: "a" }, { type: "b" });
    await define(s, rule("k", window(5, 1_000), { types: ["a"] }));
    const job = await s.claimOne();
    await change(s, "k", { paused: true });
    const { rule: inForce, declared, revision, states } = await limitOf(s, "k");
    equal([inForce.paused, declared.paused, revision], [true, false, 2], "the limit");
    const { free, nextInMs, reason } = states[0]!;
    equal({ free, nextInMs, reason }, { free: 0, nextInMs: null, reason: "paused" }, "its state");
    equal(await said(s), { count: 1, more: false, nextInMs: null, blockedBy: "k" }, "only what it does not apply to");
    equal(await s.settle(completed(job)), [], "lost");
    await change(s, "k", { paused: true });
    equal((await limitOf(s, "k")).revision, 2, "the revision when it was stopped already");
    await change(s, "k", { paused: false });
    equal(await count(s), 1, "resumed");
  },

  "a limit that is resumed lets jobs start, whatever hold it had": async (s) => {
    await s.addMany(3);
    await define(s, rule("k", window(5, 1_000)));
    await change(s, "k", { holdMs: 5_000, group: null });
    equal((await said(s)).nextInMs, 5_000, "held");
    await change(s, "k", { paused: false });
    equal(await count(s), 3, "resumed");
  },

  "a limit that is reset forgets what was counted, but keeps its slots": async (s) => {
    await s.addMany(20);
    await define(s, rule("k", { ...window(3, 10_000), concurrency: 4 }));
    equal(await count(s), 3, "the first");
    await change(s, "k", { holdMs: 5_000, group: null });
    await change(s, "k", { remaining: 0, resetMs: 7_000, group: null });
    await change(s, "k", { reset: true, group: null });
    equal(await usedAndHeld(s, "k"), [0, 3], "used and held");
    equal(await said(s), { count: 1, more: false, nextInMs: null, blockedBy: "k" }, "one more at a time");
    equal((await countOf(s, "k")).reason, "concurrency", "what is in the way then");
  },

  "a reset of one group leaves the others": async (s) => {
    await s.add(...["a", "a", "b", "b"].map((group) => ({ group })));
    await define(s, rule("k", window(1, 1_000), { byGroup: true }));
    equal(await count(s), 2, "one of each");
    await change(s, "k", { reset: true, group: "a" });
    equal((await s.claim()).jobs.map(({ group }) => group).join(""), "a", "only that group");
    await s.add({ group: "a" });
    await change(s, "k", { reset: true, group: null });
    equal(await count(s), 2, "all groups");
  },

  "a removed limit binds no claim, and its state is deleted": async (s) => {
    await s.addMany(10);
    const declared = rule("k", { ...window(1, 10_000), concurrency: 5 });
    await define(s, declared);
    const job = await s.claimOne();
    await change(s, "k", { quota: { max: 2 }, group: null });
    equal(await s.storage.limits.remove("k"), true, "removed");
    equal(await s.storage.limits.remove("k"), false, "removed again");
    equal(await s.storage.limits.read({ name: "k", group: null }), [], "what is found");
    equal(await count(s, { max: 3 }), 3, "without it");
    equal(await s.settle(completed(job)), [], "lost");
    await define(s, declared);
    equal([(await limitOf(s, "k")).revision, await usedAndHeld(s, "k")], [1, [0, 3]], "declared anew");
    equal(await count(s), 1, "under it");
  },

  "a limit that does not exist can neither be changed nor taken from": async (s) => {
    const { limits } = s.storage;
    const calls = {
      pause: () => limits.change("k", { paused: true }),
      quota: () => limits.change("k", { quota: { max: 1 }, group: null }),
      restore: () => limits.change("k", { restore: true }),
      hold: () => limits.change("k", { holdMs: 1, group: null }),
      sync: () => limits.change("k", { remaining: 1, resetMs: 1, group: null }),
      reset: () => limits.change("k", { reset: true, group: null }),
      take: () => limits.take({ name: "k", group: null, weight: 1, ttlMs: 1 }),
    };
    for (const [name, call] of Object.entries(calls)) {
      equal(await refused(call, name), "SLUICE_LIMIT_NOT_FOUND", `the code of ${name}`);
    }
  },

  "a limit may have any name": async (s) => {
    const odd = ["__proto__", "constructor", "a'b\"c", "%_", "日本 💧", "x; DROP TABLE jobs"];
    await s.add(
      ...odd.flatMap((name) => [
        { type: name, group: name },
        { type: name, group: name },
      ]),
    );
    await define(s, ...odd.map((name) => rule(name, window(1, 1_000), { types: [name], byGroup: true })));
    equal(await count(s, { max: 100 }), odd.length, "one of each");
    for (const name of odd) {
      equal((await countOf(s, name, name)).used, 1, `what is used of ${name}`);
      await change(s, name, { quota: { max: 2 }, group: name });
    }
    equal(await count(s, { max: 100 }), odd.length, "another of each");
    for (const name of odd) equal(await s.storage.limits.remove(name), true, `removing ${name}`);
  },
};
