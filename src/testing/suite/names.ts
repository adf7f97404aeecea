import { equal } from "../expect.ts";
import { type Cases, completed, lease, limit } from "./scene.ts";

/** Names that have broken other storages. Each is data, and nothing else. */
const NAMES: readonly string[] = [
  "__proto__",
  "constructor",
  "toString",
  "hasOwnProperty",
  "'; DROP TABLE jobs; --",
  '"quoted"',
  "back`tick",
  "50%",
  "under_score",
  "a:b/c\\d|e",
  "line\nbreak\ttab",
  " leading and trailing ",
  "ÄÖÜ ß é",
  "e\u0301",
  "日本語",
  "👩‍👩‍👧‍👦",
  "\u202eright to left",
  "$1 %s {0} ${x}",
  "null",
  "undefined",
  "0",
  "x".repeat(255),
];

export const names: Cases = {
  "queues, types, groups, keys and workers may have any name": async (s) => {
    for (const name of NAMES) {
      const idempotency = { key: name, fingerprint: name, ttlMs: 1_000, onDuplicate: "return" as const };
      const said = { queue: name, type: name, group: name, weights: { [name]: 2 }, idempotency };
      const [id] = await s.add(said);
      equal(await s.add(said), [id], `the key ${name} again`);
      await s.storage.setPaused(name, name, true);
      equal((await s.overview(name))?.pausedTypes, [name], `the paused types of ${name}`);
      await s.storage.setPaused(name, name, false);
      const limits = [limit(name, 1, 1_000)];
      const job = await s.claimOne({ queue: name, types: [name], worker: name, limits });
      equal(
        [job.id, job.queue, job.type, job.group, job.worker, job.idempotencyKey, Object.entries(job.weights!)],
        [id, name, name, name, name, name, [[name, 2]]],
        `the job ${name}`,
      );
      const error = { name, message: name, code: name };
      await s.storage.report([{ ...lease(job), progress: { percent: 1, message: name }, log: [name] }]);
      await s.settle({ ...lease(job), to: "retry", inMs: 0, error });
      const claim = await s.claim({ queue: name, types: [name], limits });
      equal(claim.blockedBy, name, `the limit ${name}`);
      equal((await s.list({ queue: name, type: name, group: name })).jobs.length, 1, `the list of ${name}`);
      const { attempts, log } = await s.storage.history(id!);
      equal([attempts[0]?.error, log[0]?.text], [error, name], `the history of ${name}`);
      const where = { states: ["waiting" as const], type: name, group: name, endedForMs: null };
      equal(await s.storage.change({ action: "cancel", queue: name, where, limit: 1 }), [id], `cancelling ${name}`);
    }
    equal(
      (await s.storage.overview()).map(({ queue }) => queue).toSorted(),
      NAMES.toSorted(),
      "the names of all queues",
    );
    equal(({} as Record<string, unknown>)["polluted"], undefined, "the prototype of everything");
  },

  "nothing is found under an id or a name that no storage can keep": async (s) => {
    const related = ["a", "b", "ab", "\ufffd", "a\ufffdb", "\ufffdb"];
    const idempotency = (key: string) => ({ key, fingerprint: "f", ttlMs: 1_000, onDuplicate: "return" as const });
    await s.add(...related.map((text) => ({ id: text, type: text, group: text, idempotency: idempotency(text) })));
    for (const text of ["a\u0000b", "\u0000", "\ud800", "a\udc00b", "\ud800b"]) {
      const shown = JSON.stringify(text);
      const found = await s.storage.find(["a", text, "b", text]);
      equal(
        found.map((job) => job?.id),
        ["a", undefined, "b", undefined],
        `the jobs beside ${shown}`,
      );
      equal(await s.storage.findByKey("q", text), undefined, `the job with the key ${shown}`);
      equal(await s.storage.history(text), { attempts: [], log: [] }, `the history of ${shown}`);
      equal(await s.storage.explain(text), undefined, `the explanation of ${shown}`);
      equal(await s.storage.overview(text), [], `the overview of ${shown}`);
      for (const where of [
        { queue: "q", id: text },
        { queue: text, id: "a" },
      ]) {
        const updated = await s.storage.update({ ...where, set: { priority: 1 } });
        equal(updated, { updated: false, state: null }, `an update of ${JSON.stringify(where)}`);
      }
      for (const query of [{ type: text }, { group: text }, { queue: text }]) {
        equal((await s.list(query)).jobs.length, 0, `how many jobs are listed by ${shown}`);
      }
      for (const action of ["cancel", "retry", "promote", "remove"] as const) {
        equal(await s.storage.change({ action, queue: "q", ids: [text] }), [], `what ${action} of ${shown} changes`);
        const where = { states: ["waiting" as const], type: text, group: null, endedForMs: null };
        equal(
          await s.storage.change({ action, queue: "q", where, limit: 10 }),
          [],
          `what ${action} of jobs of type ${shown} changes`,
        );
      }
    }
    const where = { states: ["waiting" as const], type: null, group: null, endedForMs: null };
    const rest = await s.storage.change({ action: "cancel", queue: "q", where, limit: 10 });
    equal(rest.length, related.length, "how many jobs are left");
  },

  "names that look alike are different": async (s) => {
    const similar = ["a", "A", "a ", " a", "á", "a\u0301", "a\u0000b", "a%", "a_", "ab"].filter(
      (name) => !name.includes("\u0000"),
    );
    await s.add(...similar.map((queue) => ({ queue })));
    for (const queue of similar) equal((await s.claim({ queue })).jobs.length, 1, `how many jobs ${queue} has`);
    await s.add(...similar.map((group) => ({ group })));
    for (const group of similar)
      equal((await s.list({ group })).jobs.length, 1, `how many jobs the group ${group} has`);
    await s.add(...similar.map((type) => ({ queue: "types", type })));
    for (const type of similar) {
      const job = await s.claimOne({ queue: "types", types: [type] });
      equal(job.type, type, "the type");
    }
  },

  "an empty group is a group, and not none": async (s) => {
    const [a1, a2, b1] = await s.add({ group: "" }, { group: "" }, {});
    equal((await s.get(a1!)).group, "", "the group");
    equal((await s.list({ group: "" })).jobs.length, 2, "how many jobs it has");
    equal(await s.claimIds(), [a1, b1, a2], "the order");
  },

  "data and results pass through untouched": async (s) => {
    const texts = [
      '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}',
      '"a \\u0000 written as an escape, a \\ud800 too"',
      "[1e400,-0,0.1,12345678901234567890]",
      "\" 日本語 👩‍👩‍👧‍👦 'quoted' %s $1 \"",
      "null",
      `"${"long".repeat(50_000)}"`,
    ];
    const ids = await s.add(...texts.map((data) => ({ data })));
    const { jobs } = await s.claim();
    equal(
      jobs.map(({ data }) => data),
      texts,
      "the data",
    );
    await s.settle(...jobs.map((job, i) => completed(job, texts[i])));
    equal(
      (await s.storage.find(ids)).map((job) => job?.result),
      texts,
      "the results",
    );
  },

  "progress details may hold any JSON": async (s) => {
    await s.add({});
    const job = await s.claimOne();
    const details = JSON.parse('{"__proto__":1,"a":[null,{"b":"c"}],"constructor":[]}') as unknown;
    await s.storage.report([{ ...lease(job), progress: { percent: 100, details } }]);
    equal(JSON.stringify((await s.get(job.id)).progress?.details), JSON.stringify(details), "the details");
  },

  "numbers of a job may be large, small and fractional": async (s) => {
    const said = {
      priority: 2_147_483_647,
      maxAttempts: 2_147_483_647,
      timeout: 1e12,
      keepFor: 1e12,
      deadline: { inMs: 1e12 },
      weights: { tokens: 4_294_967_295 },
    };
    const [id] = await s.add(said);
    const [low] = await s.add({ priority: -2_147_483_648 });
    const { priority, maxAttempts, timeout, keepFor, deadline, weights } = await s.get(id!);
    equal(
      { priority, maxAttempts, timeout, keepFor, deadline: deadline! - s.clock.wall(), weights },
      { ...said, deadline: 1e12 },
      "the job",
    );
    equal(await s.claimIds({ leaseMs: 1e12 }), [id, low], "the order");
  },
};
