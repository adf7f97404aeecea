import type { Idempotency, NewJob } from "../../storage/job-storage.ts";
import { equal, ok, refused } from "../expect.ts";
import { type Cases, completed, retry, type Scene } from "./scene.ts";

const key = (said: Partial<Idempotency> = {}): Idempotency => ({
  key: "k",
  fingerprint: "f",
  ttlMs: 10_000,
  onDuplicate: "return",
  ...said,
});

const total = async (s: Scene): Promise<number> => (await s.list({ limit: 1_000 })).jobs.length;

export const adding: Cases = {
  "setup may be called any number of times": async (s) => {
    await s.storage.setup();
    const id = await s.addOne();
    await Promise.all([s.storage.setup(), s.storage.setup()]);
    equal(await s.state(id), "waiting", "the job added between two setups");
  },

  "an added job is kept as it was given": async (s) => {
    const given: NewJob = {
      id: "an id",
      queue: "q",
      type: "t",
      data: '{"a":[1,2,{"b":null}],"__proto__":{"polluted":1},"constructor":2}',
      due: { inMs: 0 },
      priority: -7,
      group: "g",
      weights: { tokens: 1_200, calls: 1 },
      maxAttempts: 4,
      backoff: { kind: "exponential", initial: 1_000, max: 600_000 },
      timeout: 5_000,
      deadline: { inMs: 60_000 },
      keepFor: 7_000,
      idempotency: key(),
    };
    const now = s.clock.wall();
    equal(await s.storage.add([given]), [{ id: "an id", created: true }], "the answer of add");
    const expected = {
      id: "an id",
      queue: "q",
      type: "t",
      data: given.data,
      state: "waiting",
      priority: -7,
      group: "g",
      weights: { tokens: 1_200, calls: 1 },
      attempt: 0,
      maxAttempts: 4,
      backoff: { kind: "exponential", initial: 1_000, max: 600_000 },
      timeout: 5_000,
      deadline: now + 60_000,
      keepFor: 7_000,
      holds: 0,
      createdAt: now,
      dueAt: now,
      startedAt: null,
      finishedAt: null,
      worker: null,
      leaseUntil: null,
      token: 0,
      cancelRequested: false,
      progress: null,
      result: null,
      error: null,
      idempotencyKey: "k",
    };
    equal(await s.get("an id"), expected, "the job as it is found");
    equal((await s.list()).jobs[0], expected, "the job as it is listed");
  },

  "every kind of back-off is kept": async (s) => {
    const kinds: NewJob["backoff"][] = [
      { kind: "fixed", delay: 0 },
      { kind: "exponential", initial: 1, max: 2 },
      { kind: "custom", name: "mine" },
    ];
    const ids = await s.add(...kinds.map((backoff) => ({ backoff })));
    const found = await s.storage.find(ids);
    equal(
      found.map((job) => job?.backoff),
      kinds,
      "the back-offs",
    );
  },

  "adding nothing adds nothing": async (s) => {
    equal(await s.storage.add([]), [], "the answer");
    equal(await s.storage.overview(), [], "the overview");
  },

  "find answers in the order asked for, and undefined where there is no such job": async (s) => {
    const [a, b] = await s.add({}, {});
    const found = await s.storage.find([b!, "nobody", a!, b!]);
    equal(
      found.map((job) => job?.id),
      [b, undefined, a, b],
      "the jobs found",
    );
  },

  "a job for an instant that has passed is due now, and one for an instant to come keeps it": async (s) => {
    const now = s.clock.wall();
    const [past, minus, later] = await s.add(
      { due: { at: now - 5_000 } },
      { due: { inMs: -5_000 } },
      { due: { at: now + 5_000 } },
    );
    for (const id of [past!, minus!]) {
      const { state, dueAt } = await s.get(id);
      equal({ state, dueAt }, { state: "waiting", dueAt: now }, "a job due in the past");
    }
    const { state, dueAt } = await s.get(later!);
    equal({ state, dueAt }, { state: "scheduled", dueAt: now + 5_000 }, "a job due later");
  },

  "a wall clock that is set back stops nothing": async (s) => {
    const later = await s.addOne({ due: { inMs: 5_000 } });
    s.clock.stepWall(-3_600_000);
    const id = await s.addOne();
    const { jobs, nextInMs } = await s.claim({ limits: [{ key: "k", max: 1, windowMs: 1_000 }] });
    equal(
      jobs.map((job) => job.id),
      [id],
      "the jobs claimed",
    );
    equal(nextInMs, 5_000, "nextInMs");
    await s.clock.advance(5_000);
    equal(await s.claimIds(), [later], "the job that has come due");
  },

  "a transaction that is none of the storage's is refused, and nothing is added": async (s) => {
    equal(
      await refused(() => s.storage.add([s.job()], {}), "something that is no transaction"),
      "SLUICE_OPTIONS",
      "the code",
    );
    equal(await total(s), 0, "how many jobs there are");
  },

  "the same id adds nothing the second time": async (s) => {
    const job = s.job({ data: '"first"' });
    await s.storage.add([job]);
    equal(
      await s.storage.add([{ ...job, data: '"second"' }, s.job({ id: "other" })]),
      [
        { id: job.id, created: false },
        { id: "other", created: true },
      ],
      "the answer to the second add",
    );
    equal((await s.get(job.id)).data, '"first"', "the data");
    const twice = s.job();
    equal(
      (await s.storage.add([twice, twice])).map(({ created }) => created),
      [true, false],
      "the same id twice in one step",
    );
    equal(await total(s), 3, "how many jobs there are");
  },

  "the same id and key again, after an answer that got lost, adds nothing and is no duplicate": async (s) => {
    for (const onDuplicate of ["return", "reject", "replace"] as const) {
      const job = s.job({ idempotency: key({ key: onDuplicate, onDuplicate }) });
      await s.storage.add([job]);
      equal(await s.storage.add([job]), [{ id: job.id, created: false }], `the second answer (${onDuplicate})`);
      await s.settle(completed(await s.claimOne()));
      equal(await s.storage.add([job]), [{ id: job.id, created: false }], `after it has ended (${onDuplicate})`);
      await s.change("remove", job.id);
      equal(await s.storage.add([job]), [{ id: job.id, created: false }], `when it is gone (${onDuplicate})`);
      equal(await s.state(job.id), undefined, "the job that is gone");
    }
  },

  "an id whose job gave way to the holder of its key is free for a later job of the same step": async (s) => {
    const [first] = await s.add({ idempotency: key() });
    const job = s.job({ idempotency: key() });
    equal(
      await s.storage.add([job, { ...job, idempotency: null }, { ...job, idempotency: null }]),
      [
        { id: first, created: false },
        { id: job.id, created: true },
        { id: job.id, created: false },
      ],
      "the answer",
    );
    equal(await s.state(job.id), "waiting", "the job");
    equal(await total(s), 2, "how many jobs there are");
  },

  "a key that is taken answers with the job that has it": async (s) => {
    const [first] = await s.add({ idempotency: key() });
    equal(
      await s.storage.add([s.job({ idempotency: key() })]),
      [{ id: first, created: false }],
      "the same payload again",
    );
    equal(
      (await s.storage.add([s.job({ id: "z", idempotency: key({ key: "K" }) })]))[0]?.created,
      true,
      "a key that differs in case",
    );
    equal(
      (await s.storage.add([s.job({ queue: "other", idempotency: key() })]))[0]?.created,
      true,
      "the same key in another queue",
    );
    equal(
      await refused(() => s.storage.add([s.job({ idempotency: key({ fingerprint: "another" }) })]), "another payload"),
      "SLUICE_DUPLICATE",
      "another payload under the same key",
    );
  },

  "a key is kept while its job runs, after it ended, and after it was removed": async (s) => {
    const [first] = await s.add({ keepFor: 0, idempotency: key() });
    const again = () => s.storage.add([s.job({ idempotency: key() })]);
    const expected = [{ id: first, created: false }];
    const job = await s.claimOne();
    equal(await again(), expected, "while it runs");
    await s.settle(completed(job));
    equal(await s.state(first!), undefined, "a completed job with keepFor 0");
    equal(await again(), expected, "when it is gone");
    await s.clock.advance(9_999);
    await s.sweep();
    equal(await again(), expected, "just before the key expires");
    await s.clock.advance(1);
    equal((await again())[0]?.created, true, "when the key has expired, swept or not");
  },

  "an expired key can be taken by another payload": async (s) => {
    await s.add({ idempotency: key({ ttlMs: 100 }) });
    await s.clock.advance(100);
    const [again] = await s.storage.add([
      s.job({ idempotency: key({ fingerprint: "another", onDuplicate: "reject" }) }),
    ]);
    equal(again?.created, true, "created");
  },

  "onDuplicate reject refuses a taken key, whatever the payload": async (s) => {
    await s.add({ idempotency: key() });
    const again = () => s.storage.add([s.job({ idempotency: key({ onDuplicate: "reject" }) })]);
    equal(await refused(again, "a second job"), "SLUICE_DUPLICATE", "the code");
    equal(await total(s), 1, "how many jobs there are");
  },

  "onDuplicate replace removes a job that has not started and extends the key": async (s) => {
    for (const due of [{ inMs: 0 }, { inMs: 60_000 }]) {
      const [first] = await s.add({ due, idempotency: key() });
      await s.clock.advance(6_000);
      const second = s.job({ data: "2", idempotency: key({ fingerprint: "another", onDuplicate: "replace" }) });
      equal(await s.storage.add([second]), [{ id: second.id, created: true }], "the answer");
      equal(await s.state(first!), undefined, "the one replaced");
      await s.clock.advance(6_000);
      const third = s.job({ idempotency: key({ fingerprint: "another" }) });
      equal(await s.storage.add([third]), [{ id: second.id, created: false }], "the key after its first ttl");
      await s.settle(completed(await s.claimOne()));
      await s.clock.advance(10_000);
    }
  },

  "onDuplicate replace is refused while the other job is active, and leaves one that ended": async (s) => {
    const [first] = await s.add({ idempotency: key() });
    const job = await s.claimOne();
    const again = s.job({ idempotency: key({ onDuplicate: "replace" }) });
    equal(await refused(() => s.storage.add([again]), "replacing an active job"), "SLUICE_DUPLICATE", "the code");
    await s.settle(completed(job));
    equal(await s.storage.add([again]), [{ id: again.id, created: true }], "once it has ended");
    equal(await s.state(first!), "completed", "the one that ended");
  },

  "onDuplicate replace removes a job that backs off": async (s) => {
    const [first] = await s.add({ idempotency: key() });
    await s.settle(retry(await s.claimOne(), 1_000));
    const again = s.job({ idempotency: key({ onDuplicate: "replace" }) });
    equal(await s.storage.add([again]), [{ id: again.id, created: true }], "the answer");
    equal(await s.state(first!), undefined, "the one replaced");
  },

  "an idempotency key counts for the jobs after it in the same step": async (s) => {
    const [a, b] = await s.storage.add([s.job({ idempotency: key() }), s.job({ idempotency: key() })]);
    equal(b, { id: a?.id, created: false }, "the second of two with one key");
    const jobs = [
      s.job({ idempotency: key({ key: "r" }) }),
      s.job({ idempotency: key({ key: "r", onDuplicate: "replace" }) }),
    ];
    await s.storage.add(jobs);
    equal(await s.state(jobs[0]!.id), undefined, "the one replaced within the step");
    equal(await s.state(jobs[1]!.id), "waiting", "the one in its place");
  },

  "all jobs of a step are added, or none": async (s) => {
    await s.add({ id: "holder", idempotency: key() });
    const bad = key({ onDuplicate: "reject" });
    const replaced = await s.addOne({ idempotency: key({ key: "r" }) });
    const jobs = [
      s.job(),
      s.job({ idempotency: key({ key: "fresh" }) }),
      s.job({ queue: "elsewhere" }),
      s.job({ idempotency: key({ key: "r", onDuplicate: "replace" }) }),
      s.job({ idempotency: bad }),
      s.job(),
    ];
    equal(await refused(() => s.storage.add(jobs), "the step"), "SLUICE_DUPLICATE", "the code");
    equal(await total(s), 2, "how many jobs there are");
    equal(await s.state(replaced), "waiting", "the job that would have been replaced");
    equal((await s.storage.overview()).length, 1, "how many queues there are");
    const [fresh] = await s.storage.add([s.job({ idempotency: key({ key: "fresh", onDuplicate: "reject" }) })]);
    equal(fresh?.created, true, "the key of a job that was not added is free");
  },

  "all jobs of a step are added or none, even where it replaces a job and brings it back": async (s) => {
    const first = s.job({ idempotency: key() });
    await s.storage.add([first]);
    const jobs = [
      s.job({ idempotency: key({ onDuplicate: "replace" }) }),
      { ...first, idempotency: key({ onDuplicate: "reject" }) },
    ];
    equal(await refused(() => s.storage.add(jobs), "the step"), "SLUICE_DUPLICATE", "the code");
    equal(
      (await s.list()).jobs.map(({ id }) => id),
      [first.id],
      "the jobs",
    );
    const [, again] = await s.storage.add([jobs[0]!, { ...first, idempotency: null }]);
    equal(again, { id: first.id, created: true }, "without its key it can come back");
  },

  "two jobs of one step with the same key and reject: none is added": async (s) => {
    const reject = key({ onDuplicate: "reject" });
    const jobs = [s.job({ idempotency: reject }), s.job({ idempotency: reject })];
    equal(await refused(() => s.storage.add(jobs), "the step"), "SLUICE_DUPLICATE", "the code");
    equal(await total(s), 0, "how many jobs there are");
  },

  "a thousand jobs are added in one step, in order": async (s) => {
    const ids = await s.addMany(1_000);
    ok(new Set(ids).size === 1_000, "expected a thousand ids");
    equal(await s.claimIds({ max: 1_000 }), ids, "the order in which they are claimed");
  },

  "all jobs that many callers add at once are there": async (s) => {
    const each = await Promise.all(Array.from({ length: 20 }, () => s.add({}, {})));
    equal(await total(s), 40, "how many jobs there are");
    const [holder] = await s.add({ idempotency: key() });
    const same = await Promise.all(Array.from({ length: 10 }, () => s.add({ idempotency: key() })));
    equal([...new Set(same.flat())], [holder], "the one job of a key");
    equal(each.flat().length, 40, "how many were answered");
  },
};
