import { equal } from "../expect.ts";
import { blocked, BREAKER, change, count, countOf, define, rule, said, window } from "./limit-words.ts";
import { back, cancelled, type Cases, completed, dead, ERROR, retry, type Scene } from "./scene.ts";

const WIDE = window(1_000, 60_000);

/** A limit with a breaker, and jobs that wait. */
async function broken(s: Scene, more: Partial<typeof BREAKER> = {}, jobs = 10): Promise<void> {
  await define(s, rule("k", WIDE, { breaker: { ...BREAKER, ...more } }));
  await s.addMany(jobs);
}

/** The same, after two failures and a second: the breaker is half-open. */
async function halfOpen(s: Scene, more: Partial<typeof BREAKER> = {}): Promise<void> {
  await broken(s, more);
  await fail(s);
  await fail(s);
  await s.clock.advance(1_000);
}

/** Starts a job and lets it fail. */
async function fail(s: Scene): Promise<void> {
  await s.settle(retry(await s.claimOne(), 100_000));
}

const stateOf = async (s: Scene) => (await countOf(s, "k")).breaker;

export const breaking: Cases = {
  "a breaker opens after so many failures in a row, and nothing starts for so long": async (s) => {
    await broken(s);
    await fail(s);
    equal(await stateOf(s), "closed", "after one");
    await s.settle(dead(await s.claimOne()));
    equal(
      [await stateOf(s), (await countOf(s, "k")).free, (await countOf(s, "k")).reason],
      ["open", 0, "breaker"],
      "after two",
    );
    equal(await said(s), blocked(1_000), "a claim");
    await s.clock.advance(999);
    equal(await said(s), blocked(1), "a millisecond before");
    await s.clock.advance(1);
    equal(await stateOf(s), "half-open", "then");
  },

  "one success sets the count of failures to zero": async (s) => {
    await broken(s);
    await fail(s);
    await s.settle(completed(await s.claimOne()));
    await fail(s);
    equal(await stateOf(s), "closed", "never two in a row");
  },

  "a job that is given back or cancelled counts neither as a failure nor as a success": async (s) => {
    await broken(s);
    await fail(s);
    await s.settle(back(await s.claimOne(), { inMs: 100_000, error: ERROR, held: true }));
    await s.settle(cancelled(await s.claimOne(), ERROR));
    equal(await stateOf(s), "closed", "after those");
    await fail(s);
    equal(await stateOf(s), "open", "after another failure");
  },

  "a half-open breaker lets as many probes run as its rule says": async (s) => {
    await halfOpen(s, { probes: 2 });
    const { jobs, nextInMs, blockedBy } = await s.claim();
    equal([jobs.length, nextInMs, blockedBy], [2, null, "k"], "the probes");
    await s.settle(back(jobs[0]!, { inMs: 100_000 }));
    equal(await count(s), 1, "another, for one that has said nothing");
  },

  "a probe that succeeds closes the breaker": async (s) => {
    await halfOpen(s);
    const probe = await s.claimOne();
    equal(await count(s), 0, "while it runs");
    await s.settle(completed(probe));
    equal([await stateOf(s), await count(s)], ["closed", 7], "when it has succeeded");
  },

  "a probe that fails opens the breaker again": async (s) => {
    await broken(s);
    await fail(s);
    await fail(s);
    await s.clock.advance(1_500);
    await fail(s);
    equal(await said(s), blocked(1_000), "for as long as before");
    await s.clock.advance(1_000);
    equal(await count(s), 1, "the next probe");
  },

  "a probe whose lease expires opens the breaker again at the sweep": async (s) => {
    await halfOpen(s);
    await s.claimOne({ leaseMs: 500 });
    await s.clock.advance(500);
    equal((await said(s)).nextInMs, null, "before a sweep");
    await s.sweep();
    equal([await stateOf(s), (await said(s)).nextInMs], ["open", 1_000], "after that");
  },

  "a probe whose lease expires where only other errors count gives its slot to another probe": async (s) => {
    await halfOpen(s, { kinds: ["E_BROKE"] });
    await s.claimOne({ leaseMs: 500 });
    await s.clock.advance(500);
    await s.sweep();
    equal([await stateOf(s), await count(s)], ["half-open", 1], "the breaker, and how many start");
  },

  "a job that stalls counts as a failure for the breaker": async (s) => {
    await broken(s, { failures: 1 }, 2);
    await s.claimOne({ leaseMs: 500 });
    await s.clock.advance(500);
    await s.sweep();
    equal(await stateOf(s), "open", "the breaker");
  },

  "only errors that the breaker names, by name or by code, count as failures": async (s) => {
    await broken(s, { failures: 1, kinds: ["E_OTHER", "TypeError"] }, 5);
    const first = await s.claimOne();
    const second = await s.claimOne();
    await s.settle(retry(first, 100_000, { name: "Error", message: "", code: "E_BROKE" }));
    equal(await stateOf(s), "closed", "neither its name nor its code");
    await s.settle(retry(second, 100_000));
    equal(await stateOf(s), "open", "its name");
    await change(s, "k", { paused: false });
    await s.settle(retry(await s.claimOne(), 100_000, { name: "Error", message: "", code: "E_OTHER" }));
    equal(await stateOf(s), "open", "its code");
  },

  "a job that started before the breaker opened does not change it": async (s) => {
    await broken(s);
    const { jobs } = await s.claim({ max: 5 });
    await s.settle(retry(jobs[0]!, 100_000), retry(jobs[1]!, 100_000));
    await s.clock.advance(400);
    await s.settle(retry(jobs[2]!, 100_000));
    equal((await said(s)).nextInMs, 600, "a failure does not extend it");
    await s.settle(completed(jobs[3]!));
    equal(await stateOf(s), "open", "nor does a success close it");
    await s.clock.advance(600);
    await s.settle(completed(jobs[4]!));
    equal([await stateOf(s), await count(s)], ["half-open", 1], "not even half-open");
  },

  "every group of a limit has a breaker of its own": async (s) => {
    await define(s, rule("k", WIDE, { breaker: { ...BREAKER, failures: 1 }, byGroup: true }));
    await s.add({ group: "a" }, { group: "a" }, { group: "b" }, { group: "b" });
    const { jobs } = await s.claim({ max: 2 });
    await s.settle(
      retry(
        jobs.find(({ group }) => group === "a")!,
        100_000,
      ),
    );
    equal(
      [(await countOf(s, "k", "a")).breaker, (await countOf(s, "k", "b")).breaker],
      ["open", "closed"],
      "the breakers",
    );
    const { jobs: next, blockedBy, nextInMs } = await s.claim();
    equal([next.map(({ group }) => group), blockedBy, nextInMs], [["b"], "k[a]", 1_000], "who starts");
  },

  "a breaker is closed when its limit is resumed or reset": async (s) => {
    await broken(s, { failures: 1 }, 9);
    await fail(s);
    equal(await count(s), 0, "open");
    await change(s, "k", { paused: false });
    equal([await stateOf(s), await count(s, { max: 2 })], ["closed", 2], "resumed");
    const probe = (await s.claim({ max: 1 })).jobs[0]!;
    await s.settle(dead(probe));
    equal(await count(s), 0, "open again");
    await change(s, "k", { reset: true, group: null });
    equal([await stateOf(s), await count(s, { max: 2 })], ["closed", 2], "reset");
  },
};
