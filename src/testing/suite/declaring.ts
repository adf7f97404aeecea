import type { JobEvent } from "../../core/events.ts";
import type { DeclareOptions, LimitHistoryEntry, LimitState } from "../../storage/limit-storage.ts";
import { equal, ok, refused } from "../expect.ts";
import { blocked, change, count, define, limitOf, rule, said, usedAndHeld, window } from "./limit-words.ts";
import { type Cases, completed, type Scene } from "./scene.ts";

type LimitRule = LimitState["rule"];

const k = (max: number, about: Partial<LimitRule> = {}): LimitRule => rule("k", window(max, 1_000), about);

/** Declares rules as a process with these options would. */
const declare = (s: Scene, options: DeclareOptions, ...rules: readonly LimitRule[]) =>
  s.storage.limits.define(rules, options);

const maxOf = async (s: Scene): Promise<number | null> => (await limitOf(s, "k")).rule.quota.max;

const namesOf = async (s: Scene): Promise<string[]> =>
  (await s.storage.limits.read({ name: null, group: null })).map(({ rule: { name } }) => name);

const historyOf = (s: Scene, name: string | null = "k", limit = 100): Promise<readonly LimitHistoryEntry[]> =>
  s.storage.limits.history({ name, limit });

/** Changes in short: what, the author, and the numbers before and after. */
const inShort = (entries: readonly LimitHistoryEntry[]) =>
  entries.map(({ kind, by, from, to }) => [kind, by, from?.quota.max ?? null, to?.quota.max ?? null]);

export const declaring: Cases = {
  "the newest declaration holds, and binds the next claim": async (s) => {
    await s.addMany(10);
    await define(s, k(1));
    equal(await count(s), 1, "under one");
    const { changes, kept } = await define(s, k(3));
    equal(
      [changes.length, kept.length, changes[0]?.from?.quota.max, changes[0]?.to?.quota.max],
      [1, 0, 1, 3],
      "what is said",
    );
    equal(await said(s), { count: 2, more: false, nextInMs: 1_000, blockedBy: "k" }, "under three");
    await define(s, k(2));
    equal(await count(s), 0, "under two, when three have started");
    equal((await define(s, k(2))).changes, [], "what is said of the same words");
    equal((await limitOf(s, "k")).revision, 3, "the revision");
  },

  "the higher version holds, whichever is declared last": async (s) => {
    await declare(s, { version: 1 }, k(1));
    await declare(s, { version: 2 }, k(2));
    const { changes, kept } = await declare(s, { version: 1, by: "old" }, k(1), rule("more", window(1, 1)));
    equal(
      changes.map(({ limit }) => limit),
      ["more"],
      "what the older one changes",
    );
    const [one] = kept;
    equal(
      [kept.length, one?.limit, one?.by, one?.version, one?.keptVersion, one?.declared.quota.max, one?.kept?.quota.max],
      [1, "k", "old", 1, 2, 1, 2],
      "what is kept",
    );
    equal([await maxOf(s), (await limitOf(s, "k")).version], [2, 2], "what holds");
    await declare(s, { version: 3 }, k(1));
    equal(
      [await maxOf(s), (await limitOf(s, "k")).version],
      [1, 3],
      "what holds when the old numbers come with a new version",
    );
  },

  "a version that is raised without other numbers holds against lower ones from then on": async (s) => {
    await declare(s, { version: 1 }, k(1));
    await declare(s, { version: 5 }, k(1));
    await declare(s, { version: 4 }, k(2));
    const { rule: inForce, version, revision } = await limitOf(s, "k");
    equal([inForce.quota.max, version, revision], [1, 5, 1], "the limit");
  },

  "of one version the newest declaration holds, and one without a version is older than any with one": async (s) => {
    await define(s, k(1));
    await declare(s, { version: 0 }, k(2));
    equal(await maxOf(s), 2, "a version against none");
    equal((await define(s, k(3))).kept.length, 1, "how many are kept");
    equal(await maxOf(s), 2, "none against a version");
    await declare(s, { version: 0 }, k(4));
    equal([await maxOf(s), (await limitOf(s, "k")).version], [4, 0], "the same version");
  },

  "onConflict reject refuses a declaration that differs, unless its version is higher": async (s) => {
    const reject = (version: number | null, max: number) =>
      declare(s, { onConflict: "reject", version }, rule("new", window(1, 1)), k(max));
    await define(s, k(1));
    equal(await refused(() => reject(null, 2), "none against none"), "SLUICE_LIMIT_CONFLICT", "the code");
    await reject(null, 1);
    await reject(4, 2);
    equal(await refused(() => reject(4, 3), "the same version"), "SLUICE_LIMIT_CONFLICT", "the code");
    equal(await refused(() => reject(3, 3), "a lower version"), "SLUICE_LIMIT_CONFLICT", "the code");
    equal(await refused(() => reject(null, 3), "none against a version"), "SLUICE_LIMIT_CONFLICT", "the code");
    await reject(3, 2);
    equal([await maxOf(s), (await limitOf(s, "k")).version], [2, 4], "what holds");
    await s.storage.limits.remove("new");
    equal(await refused(() => reject(4, 3), "the same version"), "SLUICE_LIMIT_CONFLICT", "the code");
    equal(await namesOf(s), ["k"], "what came along with it");
  },

  "onConflict keep leaves what is stored, whatever the version": async (s) => {
    await declare(s, { version: 1 }, k(1));
    const { changes, kept } = await declare(s, { version: 2, onConflict: "keep" }, k(2), rule("new", window(1, 1)));
    equal([changes.map(({ limit }) => limit), kept], [["new"], []], "what is said");
    equal([await maxOf(s), (await limitOf(s, "k")).version], [1, 1], "what holds");
  },

  "numbers set by hand stay until a declaration brings other numbers": async (s) => {
    await define(s, k(2));
    await change(s, "k", { quota: { max: 7 }, group: null });
    await change(s, "k", { paused: true });
    await define(s, k(2));
    await define(s, k(2, { types: ["t"] }));
    const { rule: inForce, declared } = await limitOf(s, "k");
    equal([inForce.quota.max, declared.quota.max, inForce.types], [7, 2, ["t"]], "the same numbers, for other jobs");
    await define(s, k(3, { types: ["t"] }));
    const { rule: anew } = await limitOf(s, "k");
    equal([anew.quota.max, anew.paused], [3, true], "other numbers; what was stopped by hand stays stopped");
    await change(s, "k", { restore: true });
    equal(await maxOf(s), 3, "restored");
  },

  "numbers set by hand for a group stay until a declaration names that group": async (s) => {
    const byGroup = (max: number, groups: LimitRule["groups"] = {}) => k(max, { byGroup: true, groups });
    await define(s, byGroup(1));
    await change(s, "k", { quota: { max: 50 }, group: "acme" });
    await change(s, "k", { quota: { max: 60 }, group: "other" });
    await define(s, byGroup(2));
    equal((await limitOf(s, "k")).rule.groups, { acme: { max: 50 }, other: { max: 60 } }, "when all others get two");
    await define(s, byGroup(2, { acme: { max: 9 } }));
    equal((await limitOf(s, "k")).rule.groups, { acme: { max: 9 }, other: { max: 60 } }, "when acme gets nine");
  },

  "numbers set by hand go when the limit counts another weight": async (s) => {
    const weighed = (estimate: number) => k(100, { weight: "tokens", estimate });
    await define(s, weighed(5));
    await change(s, "k", { quota: { max: 20 }, group: null });
    await define(s, weighed(50));
    equal(await maxOf(s), 100, "a start that says nothing fits");
  },

  "limits that an owner no longer declares are removed, and those of other owners or without an owner stay": async (
    s,
  ) => {
    await s.addMany(5);
    await define(s, rule("free", window(100, 1_000)));
    await declare(s, { owner: "billing" }, rule("a", window(9, 1_000)), rule("b", { concurrency: 1 }));
    await declare(s, { owner: "mail" }, rule("c", window(9, 1_000)));
    const job = await s.claimOne();
    equal(await said(s), blocked(null, "b"), "under b");
    const { changes } = await declare(s, { owner: "billing" }, rule("a", window(9, 1_000)));
    equal(
      changes.map(({ limit, kind, owner, to }) => [limit, kind, owner, to]),
      [["b", "removed", "billing", null]],
      "what is said",
    );
    equal(await namesOf(s), ["a", "c", "free"], "what is left");
    equal((await limitOf(s, "a")).owners, ["billing"], "the owner of a");
    equal(await count(s), 4, "those that waited for b");
    equal(await s.settle(completed(job)), [], "lost");
    await define(s, rule("b", { concurrency: 9 }));
    equal(await usedAndHeld(s, "b"), [0, 4], "what is counted when it is declared again");
    await declare(s, { owner: "billing" });
    equal(await namesOf(s), ["b", "c", "free"], "when it declares nothing");
  },

  "a limit of two owners is removed when both have left it": async (s) => {
    await declare(s, { owner: "billing" }, k(5));
    await declare(s, { owner: "mail" }, k(5));
    equal([(await limitOf(s, "k")).owners, (await limitOf(s, "k")).revision], [["billing", "mail"], 1], "its owners");
    equal((await declare(s, { owner: "billing" })).changes, [], "what the first changes when it leaves");
    equal((await limitOf(s, "k")).owners, ["mail"], "whose it is then");
    await declare(s, { owner: "billing" }, k(6));
    equal(
      [await maxOf(s), (await limitOf(s, "k")).owners],
      [6, ["billing", "mail"]],
      "the newest holds, whatever its owner",
    );
    await declare(s, { owner: "mail" });
    await declare(s, { owner: "billing" });
    equal(await namesOf(s), [], "when both have left");
  },

  "an owner takes over a limit that was declared without one, and a declaration without one leaves it": async (s) => {
    await define(s, k(5));
    await declare(s, { owner: "billing" }, k(5));
    await define(s, k(5));
    equal((await limitOf(s, "k")).owners, ["billing"], "whose it is");
    await declare(s, { owner: "billing" });
    equal(await namesOf(s), [], "when it has left");
  },

  "an older version of an owner neither brings back nor removes anything": async (s) => {
    const old: DeclareOptions = { owner: "billing", version: 1 };
    await declare(s, old, k(1), rule("gone", window(1, 1_000)));
    await declare(s, { owner: "billing", version: 2 }, k(1), rule("new", window(1, 1_000)));
    equal(await namesOf(s), ["k", "new"], "after the newer one");
    const { changes, kept } = await declare(s, old, k(1), rule("gone", window(1, 1_000)));
    equal(
      [changes, kept.map(({ limit, kept: held }) => [limit, held])],
      [[], [["gone", null]]],
      "what the older one does",
    );
    equal(await namesOf(s), ["k", "new"], "after the older one");
    const rejected = () => declare(s, { ...old, onConflict: "reject" }, rule("gone", window(1, 1_000)));
    equal(await refused(rejected, "an older one that wants to know"), "SLUICE_LIMIT_CONFLICT", "the code");
    await declare(s, { owner: "billing" }, k(1));
    equal(await namesOf(s), ["k", "new"], "after one without a version");
    for (const name of ["k", "new"]) await s.storage.limits.remove(name);
    await declare(s, old, k(1));
    equal(await namesOf(s), ["k"], "when all it had was removed by hand, it begins anew");
  },

  "the history of limits says what was changed, when, by whom, from and to, the newest first": async (s) => {
    const at = (await limitsNow(s)) ?? 0;
    await declare(s, { by: "worker 1", version: 1, owner: "billing" }, k(1));
    await s.clock.advance(60_000);
    await declare(s, { by: "worker 2", version: 2, owner: "billing" }, k(2));
    await s.storage.limits.change("k", { quota: { max: 9 }, group: null }, "cli alice");
    await s.storage.limits.change("k", { paused: true }, "cli alice");
    await s.storage.limits.change("k", { paused: false }, "cli bob");
    await s.storage.limits.change("k", { restore: true });
    await change(s, "k", { holdMs: 5, group: null });
    await change(s, "k", { reset: true, group: null });
    await s.storage.limits.remove("k", "cli alice");
    const history = await historyOf(s);
    equal(
      inShort(history),
      [
        ["removed", "cli alice", 2, null],
        ["restored", null, 9, 2],
        ["resumed", "cli bob", 9, 9],
        ["paused", "cli alice", 9, 9],
        ["changed", "cli alice", 2, 9],
        ["declared", "worker 2", 1, 2],
        ["declared", "worker 1", null, 1],
      ],
      "the history",
    );
    const [first, second] = history.slice(-2).toReversed();
    equal([first?.version, first?.owner, second?.version, history[4]?.version], [1, "billing", 2, null], "versions");
    equal([history[3]?.from?.paused, history[3]?.to?.paused], [false, true], "what a pause changed");
    ok(second!.at - first!.at >= 60_000 && second!.at - first!.at < 61_000, "expected a minute between the two");
    ok(first!.at >= at, "expected instants by the wall clock");
    equal((await historyOf(s, null)).length, 9, "of all limits");
    equal(inShort(await historyOf(s, "k", 1)), [["removed", "cli alice", 2, null]], "the newest");
    equal(await historyOf(s, "nobody"), [], "of a limit that never was");
  },

  "an entry of the history has only what differs, and always the numbers": async (s) => {
    const groups = { a: { max: 1 }, b: { max: 2 } };
    await define(s, k(5, { byGroup: true, groups }));
    await define(s, k(5, { byGroup: true, groups: { ...groups, b: { max: 3 } }, types: ["t"] }));
    const [{ from, to } = { from: null, to: null }] = await historyOf(s);
    const quota = { max: 5, windowMs: 1_000, concurrency: null, everyMs: null };
    equal(
      [from, to],
      [
        { quota, paused: false, groups: { b: { max: 2 } }, types: null },
        { quota, paused: false, groups: { b: { max: 3 } }, types: ["t"] },
      ],
      "what the answers are",
    );
  },

  "the latest hundred changes of each limit are kept": async (s) => {
    await define(s, rule("other", window(1, 1)));
    for (let max = 1; max <= 105; max++) await define(s, k(max));
    const history = await historyOf(s, "k", 1_000);
    equal([history.length, history[0]?.to?.quota.max, history.at(-1)?.to?.quota.max], [100, 105, 6], "what is left");
    equal((await historyOf(s, "other")).length, 1, "of the other");
  },

  "every change of a limit is an event for subscribers of all queues": async (s) => {
    const events: JobEvent[] = [];
    const unsubscribe = s.storage.subscribe({ queue: "any", event: (event) => events.push(event) });
    await declare(s, { by: "worker 1" }, k(1));
    await declare(s, { by: "worker 2", version: 7 }, k(2));
    await define(s, k(2));
    await change(s, "k", { paused: true });
    await s.storage.limits.remove("k", "cli alice");
    ok(await s.notified(() => events.length >= 4), "expected four events within a second");
    equal(
      events.map((event) =>
        event.event === "limit-changed" ? [event.queue, event.limit, event.kind, event.by] : event,
      ),
      [
        [null, "k", "declared", "worker 1"],
        [null, "k", "declared", "worker 2"],
        [null, "k", "paused", null],
        [null, "k", "removed", "cli alice"],
      ],
      "the events",
    );
    unsubscribe();
  },

  "of many processes that declare different versions at once the highest holds": async (s) => {
    await Promise.all([3, 1, 5, 2, 4].map((version) => declare(s, { version, owner: "o" }, k(version))));
    equal([await maxOf(s), (await limitOf(s, "k")).version], [5, 5], "what holds");
    equal((await historyOf(s)).length <= 5, true, "how often it changed");
  },

  "an owner may have any name": async (s) => {
    for (const owner of ["__proto__", "constructor", "a'b\"c", "日本 💧"]) {
      await declare(s, { owner, version: 2 }, rule(`of ${owner}`, window(1, 1)));
      await declare(s, { owner, version: 1 });
      equal((await limitOf(s, `of ${owner}`)).owners, [owner], `what ${owner} owns`);
    }
  },
};

/** The time of the storage, by a change that was made just now. */
async function limitsNow(s: Scene): Promise<number | undefined> {
  await define(s, rule("now", window(1, 1)));
  await s.storage.limits.remove("now");
  const [entry] = await historyOf(s, "now", 1);
  return entry?.at;
}
