import type { ClaimRequest, NewJob } from "../../storage/job-storage.ts";
import { equal, ok } from "../expect.ts";
import { countOf, define, rule, usedAndHeld, window } from "./limit-words.ts";
import { type Cases, completed, type Scene } from "./scene.ts";

/** The JSON text of a string, so many characters long. */
const sized = (length: number): string => `"${"x".repeat(length - 2)}"`;

const HUNDRED: Partial<NewJob> = { data: sized(100) };
const MEGABYTE: Partial<NewJob> = { data: sized(1_000_000) };

/** What a claim got, and whether there is more at once. */
async function got(s: Scene, said: Partial<ClaimRequest>): Promise<{ ids: string[]; more: boolean }> {
  const { jobs, more } = await s.claim(said);
  return { ids: jobs.map(({ id }) => id), more };
}

/** Claims again and again while there is more: the ids of each claim. */
async function rounds(s: Scene, said: Partial<ClaimRequest>): Promise<string[][]> {
  const all: string[][] = [];
  for (;;) {
    const { ids, more } = await got(s, said);
    all.push(ids);
    ok(all.length < 100, "expected the claims to come to an end");
    if (!more) return all;
  }
}

/** The same, two by two: as 250 bytes give them of jobs of a hundred each. */
const pairs = (ids: readonly string[]): string[][] =>
  Array.from({ length: Math.ceil(ids.length / 2) }, (_, i) => ids.slice(2 * i, 2 * i + 2));

const BOUNDED = { max: 10, maxBytes: 250 };

export const sizes: Cases = {
  "a claim stops at its number of bytes, and the next one goes on": async (s) => {
    const ids = await s.addMany(5, HUNDRED);
    equal(await got(s, BOUNDED), { ids: ids.slice(0, 2), more: true }, "the first claim");
    const [third] = await s.storage.find([ids[2]!]);
    equal([third!.state, third!.attempt, third!.token], ["waiting", 0, 0], "a job that was left out");
    equal(await rounds(s, BOUNDED), pairs(ids.slice(2)), "the others");
  },

  "a job that is larger than a claim may be comes alone": async (s) => {
    const ids = await s.add(HUNDRED, { data: sized(1_000) }, HUNDRED, HUNDRED);
    const [a, b, c, d] = ids;
    equal(await rounds(s, BOUNDED), [[a], [b], [c, d]], "the claims");
  },

  "a claim that is bounded in bytes keeps the order of priorities and types": async (s) => {
    const [a, b, c, d, e] = await s.add(
      { ...HUNDRED, type: "x" },
      { ...HUNDRED, type: "y" },
      { data: sized(240), type: "x", priority: 1 },
      { data: sized(10), type: "y" },
      { data: sized(20), type: "x" },
    );
    equal(await rounds(s, BOUNDED), [[c], [a, b, d, e]], "the claims");
  },

  "a claim that is bounded in bytes settles what it was handed": async (s) => {
    const ids = await s.addMany(4, HUNDRED);
    const { jobs } = await s.claim(BOUNDED);
    const next = await s.claim({ ...BOUNDED, settle: jobs.map((job) => completed(job)) });
    equal(
      next.jobs.map(({ id }) => id),
      ids.slice(2),
      "the next two",
    );
    equal(await s.state(ids[0]!), "completed", "the first");
  },

  "prefetched jobs count among the bytes": async (s) => {
    const ids = await s.addMany(6, HUNDRED);
    const found = await rounds(s, { max: 1, prefetch: 9, maxBytes: 250 });
    equal(found.flat(), ids, "all of them, in order");
    ok(
      found.every((round) => round.length <= 2),
      "expected no claim to answer with more than two",
    );
  },

  "under a window only what a claim answers with is counted": async (s) => {
    const ids = await s.addMany(6, HUNDRED);
    await define(s, rule("k", window(5, 1_000)));
    equal(await got(s, BOUNDED), { ids: ids.slice(0, 2), more: true }, "the first claim");
    equal((await countOf(s, "k")).used, 2, "used");
    equal(await got(s, BOUNDED), { ids: ids.slice(2, 4), more: true }, "the second claim");
    const last = await s.claim(BOUNDED);
    equal([last.jobs.length, last.more, last.blockedBy], [1, false, "k"], "the fifth, and then the limit");
    equal((await countOf(s, "k")).used, 5, "used in the end");
  },

  "under a window of a single claim only what it answers with is counted": async (s) => {
    const ids = await s.addMany(4, HUNDRED);
    const limits = [{ key: "k", max: 3, windowMs: 1_000 }];
    equal(await got(s, { ...BOUNDED, limits }), { ids: ids.slice(0, 2), more: true }, "the first claim");
    const { jobs, blockedBy } = await s.claim({ ...BOUNDED, limits });
    equal([jobs.length, blockedBy], [1, "k"], "the third, and then the limit");
  },

  "under concurrency only what a claim answers with takes a slot": async (s) => {
    await s.addMany(8, HUNDRED);
    await define(s, rule("k", { concurrency: 5 }));
    const first = await s.claim(BOUNDED);
    equal([first.jobs.length, first.more, await usedAndHeld(s, "k")], [2, true, [0, 2]], "the first claim");
    const second = await s.claim({ ...BOUNDED, settle: [completed(first.jobs[0]!)] });
    equal([second.jobs.length, second.more, await usedAndHeld(s, "k")], [2, true, [0, 3]], "the second claim");
    const all = [first.jobs[1]!, ...second.jobs];
    const third = await s.claim({ ...BOUNDED, settle: all.map((job) => completed(job)) });
    equal([third.jobs.length, third.more, await usedAndHeld(s, "k")], [2, true, [0, 2]], "when all have ended");
  },

  "under weights only what a claim answers with is weighed": async (s) => {
    await define(s, rule("k", window(100, 1_000), { weight: "tokens" }));
    const ids = await s.add(...[10, 20, 30, 50].map((tokens) => ({ data: sized(100), weights: { tokens } })));
    equal(await got(s, BOUNDED), { ids: ids.slice(0, 2), more: true }, "the first claim");
    equal((await countOf(s, "k")).used, 30, "used");
    const next = await s.claim(BOUNDED);
    equal([next.jobs.length, next.more, next.blockedBy], [1, false, "k"], "the third; the fourth is too heavy");
  },

  "groups take turns, however little a claim answers with": async (s) => {
    const groups = ["a", "b", "c"];
    for (const group of groups) await s.add({ ...HUNDRED, group }, { ...HUNDRED, group });
    const turns: (string | null)[] = [];
    for (let more = true; more;) {
      const claim = await s.claim(BOUNDED);
      ok(claim.jobs.length > 0 && claim.jobs.length <= 2, "expected a claim to answer with one or two");
      for (const { group } of claim.jobs) turns.push(group);
      more = claim.more;
    }
    equal([new Set(turns.slice(0, 3)).size, new Set(turns.slice(3)).size], [3, 3], "how many had a turn in each round");
  },

  "groups under a limit take turns, however little a claim answers with": async (s) => {
    const groups = ["a", "b", "c"];
    await define(s, rule("k", { concurrency: 1 }, { byGroup: true }));
    for (const group of groups) await s.add({ ...HUNDRED, group }, { ...HUNDRED, group });
    const found = await rounds(s, BOUNDED);
    equal(
      found.map((round) => round.length),
      [2, 1],
      "one of each group",
    );
  },

  "many jobs of many groups are bounded in bytes": async (s) => {
    const said = Array.from({ length: 40 }, (_, i) => ({ ...HUNDRED, group: `g${i}` }));
    const ids = await s.add(...said);
    const found = await rounds(s, { max: 100, maxBytes: 650 });
    equal(found.flat().toSorted(), ids.toSorted(), "all of them, once each");
    ok(
      found.every((round) => round.length <= 6),
      "expected no claim to answer with more than six",
    );
  },

  "a claim that says no number of bytes is bounded all the same": async (s) => {
    const ids = await s.addMany(7, MEGABYTE);
    const found = await rounds(s, { max: 100 });
    equal(found.flat(), ids, "all of them, in order");
    ok(
      found.every((round) => round.length <= 4),
      "expected no claim to answer with more than four megabytes",
    );
  },

  "a page is bounded in bytes, and the pages miss nothing": async (s) => {
    const ids = await s.add(...Array.from({ length: 6 }, () => MEGABYTE), {}, {});
    const { jobs } = await s.claim({ max: 1 });
    await s.settle(completed(jobs[0]!, sized(900_000)));
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const page = await s.list({ limit: 100, cursor });
      const bytes = page.jobs.reduce((sum, { data, result }) => sum + data.length + (result?.length ?? 0), 0);
      ok(bytes <= 4 * 2 ** 20, `expected a page of at most 4 MiB, got ${bytes} bytes`);
      ok(page.jobs.length > 0, "expected no page to be empty");
      for (const { id } of page.jobs) seen.push(id);
      cursor = page.cursor;
    } while (cursor !== null);
    equal(seen, ids.toReversed(), "all of them, newest first");
  },

  "many large jobs are found in the order asked for": async (s) => {
    const ids = await s.add(...Array.from({ length: 6 }, (_, i) => ({ data: sized(1_000_000 + i) })));
    const asked = [ids[5]!, "nobody", ...ids, ids[0]!, "nobody"];
    const found = await s.storage.find(asked);
    equal(
      found.map((job) => job?.id),
      asked.map((id) => (id === "nobody" ? undefined : id)),
      "the jobs",
    );
    equal(
      found.map((job) => job?.data.length),
      asked.map((id) => (id === "nobody" ? undefined : 1_000_000 + ids.indexOf(id))),
      "their data",
    );
  },
};
