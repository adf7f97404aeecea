import type { Idempotency, ListQuery } from "../../storage/job-storage.ts";
import { equal, ok, refused } from "../expect.ts";
import { back, type Cases, completed, dead, ERROR, retry, type Scene } from "./scene.ts";

/** All pages of a list, and how long each was. */
async function pages(s: Scene, query: Partial<ListQuery>): Promise<{ ids: string[]; sizes: number[] }> {
  const ids: string[] = [];
  const sizes: number[] = [];
  let cursor: string | null = null;
  do {
    const page = await s.list({ ...query, cursor });
    for (const { id } of page.jobs) ids.push(id);
    sizes.push(page.jobs.length);
    cursor = page.cursor;
    ok(sizes.length < 1_000, "expected the pages to come to an end");
  } while (cursor !== null);
  return { ids, sizes };
}

const NONE = { waiting: 0, scheduled: 0, active: 0, completed: 0, dead: 0, cancelled: 0, awaiting: 0 };

export const reading: Cases = {
  "a list is newest first, page by page": async (s) => {
    const ids = await s.add(...Array.from({ length: 250 }, (_, i) => ({ priority: i % 3 })));
    const newest = ids.toReversed();
    equal(await pages(s, { limit: 100 }), { ids: newest, sizes: [100, 100, 50] }, "pages of a hundred");
    equal(await pages(s, { limit: 250 }), { ids: newest, sizes: [250] }, "one page that holds them all");
    equal(await pages(s, { limit: 125 }), { ids: newest, sizes: [125, 125] }, "two full pages");
    equal((await pages(s, { limit: 1 })).ids, newest, "pages of one");
  },

  "a job is found by its idempotency key, for as long as the key is kept": async (s) => {
    const idempotency = (said: Partial<Idempotency> = {}): Idempotency => ({
      key: "k",
      fingerprint: "f",
      ttlMs: 1_000,
      onDuplicate: "return",
      ...said,
    });
    const found = async (key: string, queue = "q") => (await s.storage.findByKey(queue, key))?.id;
    equal(await found("k"), undefined, "a key that was never given");
    const [a, b] = await s.add(
      { idempotency: idempotency() },
      { idempotency: idempotency({ key: "K", ttlMs: 9_000 }) },
    );
    await s.add({ id: "elsewhere", queue: "other", idempotency: idempotency() });
    equal([await found("k"), await found("K"), await found("k", "other")], [a, b, "elsewhere"], "those of each queue");
    equal(await s.storage.findByKey("q", "k"), await s.get(a!), "all there is to know about it");
    const second = await s.addOne({ idempotency: idempotency({ onDuplicate: "replace" }) });
    equal(await found("k"), second, "the one that replaced it");
    await s.settle(completed((await s.claim()).jobs.find(({ id }) => id === second)!));
    equal((await s.storage.findByKey("q", "k"))?.state, "completed", "one that has ended");
    await s.clock.advance(1_000);
    equal(await found("k"), undefined, "when the key is kept no longer");
    await s.settle(back(await s.get(b!)));
    await s.change("remove", b!);
    equal(await found("K"), undefined, "when the job is gone");
  },

  "endings() says how jobs ended, and which are gone": async (s) => {
    const ids = ["plain", "result", "dead", "cancelled", "running", "waiting", "scheduled"];
    await s.add(...ids.slice(0, 5).map((id) => ({ id })));
    const [plain, result, failed, , running] = (await s.claim({ max: 5 })).jobs;
    await s.add({ id: "waiting" }, { id: "scheduled", due: { inMs: 1_000 } });
    await s.settle(completed(plain!), completed(result!, '{"a":1}'), dead(failed!));
    await s.change("cancel", "cancelled");
    const { token } = await s.get("cancelled");
    await s.settle({ id: "cancelled", token, to: "cancelled", error: null });
    equal(running!.id, "running", "the one that runs");
    const { ended, more } = await s.storage.endings(["nobody", ...ids]);
    equal(more, false, "whether there are more");
    equal(
      ended.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
      [
        { id: "cancelled", state: "cancelled" },
        { id: "dead", state: "dead", error: ERROR },
        { id: "nobody", state: "gone" },
        { id: "plain", state: "completed", result: null },
        { id: "result", state: "completed", result: '{"a":1}' },
      ],
      "how they ended",
    );
    equal(await s.storage.endings([]), { ended: [], more: false }, "of none");
  },

  "endings() of large results come in several answers": async (s) => {
    const large = JSON.stringify("x".repeat(2 ** 20 - 2));
    const ids = await s.addMany(20);
    const { jobs } = await s.claim({ max: 20 });
    await s.settle(...jobs.map((job) => completed(job, large)));
    const left = new Set(ids);
    for (let more = true; more;) {
      const answer = await s.storage.endings([...left]);
      ok(answer.ended.length > 0 || left.size === 0, "expected every answer to name one at least");
      for (const ending of answer.ended) {
        equal(ending.state === "completed" && ending.result === large, true, "the result");
        left.delete(ending.id);
      }
      more = answer.more;
    }
    equal(left.size, 0, "how many are missing");
  },

  "a list can be filtered": async (s) => {
    const start = s.clock.wall();
    const [a, b, c] = await s.add({ type: "x", group: "g" }, { type: "y", group: "g" }, { type: "x" });
    await s.clock.advance(1_000);
    const [d, e] = await s.add({ type: "x", group: "g", due: { inMs: 60_000 } }, { type: "y" });
    await s.add({ queue: "other", type: "x" });
    await s.settle(completed(await s.claimOne({ types: ["x"] })));
    const ids = async (query: Partial<ListQuery>) => (await s.list(query)).jobs.map(({ id }) => id);
    equal(await ids({ type: "x" }), [d, c, a], "by type");
    equal(await ids({ group: "g" }), [d, b, a], "by group");
    equal(await ids({ states: ["completed"] }), [a], "by state");
    equal(await ids({ states: ["scheduled", "waiting"] }), [e, d, c, b], "by two states");
    equal(await ids({ states: [] }), [], "by no state");
    equal(await ids({ type: "x", group: "g", states: ["scheduled"] }), [d], "by all of them");
    equal(await ids({ since: start + 1_000 }), [e, d], "added at or after");
    equal(await ids({ until: start + 1_000 }), [c, b, a], "added before");
    equal(await ids({ since: start, until: start + 1 }), [c, b, a], "added between");
    equal(await ids({ queue: "nobody" }), [], "a queue that does not exist");
  },

  "filtered pages miss nothing": async (s) => {
    const ids = await s.add(...Array.from({ length: 250 }, (_, i) => ({ type: i % 5 === 0 ? "rare" : "common" })));
    const rare = ids.filter((_, i) => i % 5 === 0).toReversed();
    equal(await pages(s, { type: "rare", limit: 20 }), { ids: rare, sizes: [20, 20, 10] }, "the pages");
  },

  "pages stay in step while jobs come and go": async (s) => {
    const ids = await s.addMany(100);
    const first = await s.list({ limit: 40 });
    await s.add({}, {});
    await s.change("remove", ...ids.slice(50, 70));
    const second = await s.list({ limit: 40, cursor: first.cursor });
    equal(
      second.jobs.map(({ id }) => id),
      [...ids.slice(20, 50).toReversed(), ...ids.slice(10, 20).toReversed()],
      "the second page",
    );
    const after = await s.list({ limit: 40, cursor: second.cursor });
    equal(
      after.jobs.map(({ id }) => id),
      ids.slice(0, 10).toReversed(),
      "the third page",
    );
  },

  "the order of a list is that of adding, whatever happened since": async (s) => {
    const ids = await s.add({}, {}, {});
    const job = await s.claimOne();
    await s.clock.advance(10);
    await s.settle(retry(job));
    equal((await pages(s, {})).ids, ids.toReversed(), "the list");
  },

  "a cursor that is none of ours is refused": async (s) => {
    await s.add({}, {});
    for (const cursor of ["garbage", "", " ", "-1", "1e3", "NaN", "{}", "' OR 1=1 --", "0x10", "9".repeat(400)]) {
      equal(
        await refused(() => s.list({ cursor }), `the cursor ${cursor}`),
        "SLUICE_OPTIONS",
        `the code for ${cursor}`,
      );
    }
  },

  "the overview counts each state": async (s) => {
    equal(await s.storage.overview(), [], "nothing at all");
    await s.ended("completed");
    await s.ended("dead");
    await s.ended("dead");
    await s.ended("cancelled");
    await s.add({}, {}, {}, { due: { inMs: 60_000 } });
    await s.claimOne();
    const counts = { ...NONE, completed: 1, dead: 2, cancelled: 1, waiting: 2, scheduled: 1, active: 1 };
    equal(
      await s.overview(),
      { queue: "q", counts, paused: false, pausedTypes: [], oldestWaitingMs: 0 },
      "the overview",
    );
  },

  "the overview says how long the first waiting job has been due": async (s) => {
    await s.add({ due: { inMs: 1_000 } });
    equal((await s.overview())?.oldestWaitingMs, null, "none waits");
    await s.clock.advance(300);
    await s.add({ group: "g" }, { priority: 9 });
    await s.clock.advance(200);
    await s.add({});
    equal((await s.overview())?.oldestWaitingMs, 200, "the oldest");
    await s.claim({ max: 2 });
    equal((await s.overview())?.oldestWaitingMs, 0, "when the older ones have started");
    await s.clock.advance(700);
    await s.claim({ max: 0 });
    equal((await s.overview())?.oldestWaitingMs, 700, "counted from when it was due, not added");
    equal((await s.overview())?.counts.waiting, 2, "how many wait");
  },

  "the overview is by name, and a queue exists while it has jobs or is paused": async (s) => {
    await s.add({ queue: "b" }, { queue: "c" }, { queue: "a" });
    await s.storage.setPaused("p", null, true);
    await s.storage.setPaused("b", "y", true);
    await s.storage.setPaused("b", "x", true);
    const all = await s.storage.overview();
    equal(
      all.map(({ queue }) => queue),
      ["a", "b", "c", "p"],
      "the names",
    );
    equal(all[1]?.pausedTypes, ["x", "y"], "the paused types");
    equal(
      [all[1]?.paused, all[3]],
      [false, { queue: "p", counts: NONE, paused: true, pausedTypes: [], oldestWaitingMs: null }],
      "what is paused",
    );
    equal(await s.storage.overview("c"), [all[2]], "one of them");
    equal(await s.storage.overview("nobody"), [], "one that does not exist");
    await s.storage.setPaused("p", null, false);
    const job = await s.claimOne({ queue: "c" });
    await s.settle(completed(job));
    await s.storage.change({ action: "remove", queue: "c", ids: [job.id] });
    equal(
      (await s.storage.overview()).map(({ queue }) => queue),
      ["a", "b"],
      "the names in the end",
    );
  },

  "counts agree with what is listed, whatever happened": async (s) => {
    await s.add(...Array.from({ length: 40 }, (_, i) => ({ due: { inMs: i % 4 === 0 ? 500 : 0 }, maxAttempts: 1 })));
    const { jobs } = await s.claim({ max: 12, leaseMs: 1_000 });
    await s.settle(completed(jobs[0]!), retry(jobs[1]!), retry(jobs[2]!, 5_000));
    await s.change("cancel", ...jobs.slice(2, 6).map(({ id }) => id));
    await s.clock.advance(1_000);
    await s.sweep();
    await s.change("retry", jobs[5]!.id, jobs[7]!.id);
    await s.change("remove", jobs[8]!.id);
    await s.claim({ max: 0 });
    const listed = { ...NONE };
    for (const { state } of (await s.list({ limit: 1_000 })).jobs) listed[state] += 1;
    equal((await s.overview())?.counts, listed, "the counts");
  },

  "lists, counts and claims stay right when most jobs are removed": async (s) => {
    const ids = await s.addMany(200);
    const kept = ids.filter((_, i) => i % 5 === 2);
    const removed = ids.filter((_, i) => i % 5 !== 2);
    for (let i = 0; i < removed.length; i += 40) await s.change("remove", ...removed.slice(i, i + 40));
    equal((await s.overview())?.counts, { ...NONE, waiting: 40 }, "the counts");
    equal((await pages(s, { limit: 15 })).ids, kept.toReversed(), "the list");
    const added = await s.addOne();
    equal(await s.claimIds({ max: 100 }), [...kept, added], "the claim");
    equal((await pages(s, { limit: 15 })).ids, [added, ...kept.toReversed()], "the list in the end");
  },

  "answers do not change afterwards": async (s) => {
    const [id] = await s.add({ weights: { tokens: 1 } });
    const waiting = await s.get(id!);
    const before = structuredClone(waiting);
    await s.settle(completed(await s.claimOne(), "1"));
    equal(waiting, before, "the record that was read first");
  },
};
