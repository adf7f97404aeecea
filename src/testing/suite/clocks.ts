import { equal, ok } from "../expect.ts";
import { explainJob } from "../../storage/explain.ts";
import type { Cases, Scene } from "./scene.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** One job is added while the clock is two days fast, and the clock is right again. */
async function wasAhead(s: Scene, ms = 2 * DAY_MS): Promise<string> {
  s.clock.stepWall(ms);
  const id = await s.addOne({ type: "ahead" });
  s.clock.stepWall(-ms);
  // A storage whose only clock is the wall clock counts from where it notices.
  await s.sweep();
  return id;
}

/** A wall clock that was wrong for a while: instants that people give and see are those of the wall clock, before and after. */
export const clocks: Cases = {
  "after the clock was ahead, a deadline in an hour is an hour away": async (s) => {
    await wasAhead(s);
    const deadline = s.clock.wall() + HOUR_MS;
    const [first, second] = await s.add({ deadline: { at: deadline } }, { deadline: { at: deadline } });
    await s.sweep();
    equal((await s.claimOne({ types: ["t"] })).id, first, "the job claimed");
    const shown = await s.get(second!);
    equal([shown.state, shown.deadline], ["waiting", deadline], "the other one");
    await s.clock.advance(HOUR_MS);
    await s.sweep();
    equal((await s.get(second!)).state, "dead", "its state after the deadline");
  },

  "after the clock was ahead, a job for tomorrow starts tomorrow": async (s) => {
    await wasAhead(s);
    const at = s.clock.wall() + DAY_MS;
    const id = await s.addOne({ due: { at } });
    const shown = await s.get(id);
    equal([shown.state, shown.dueAt], ["scheduled", at], "the job");
    const { jobs, nextInMs } = await s.claim({ types: ["t"] });
    equal([jobs.length, Math.round(nextInMs!)], [0, DAY_MS], "a claim today");
    await s.clock.advance(DAY_MS - 1_000);
    equal(await s.claimIds({ types: ["t"] }), [], "a second before");
    await s.clock.advance(1_001);
    equal(await s.claimIds({ types: ["t"] }), [id], "tomorrow");
  },

  "a job for tomorrow that was added before the clock was ahead starts tomorrow": async (s) => {
    const at = s.clock.wall() + DAY_MS;
    const id = await s.addOne({ due: { at } });
    await wasAhead(s, 23 * HOUR_MS);
    await s.clock.advance(2 * HOUR_MS);
    equal(await s.claimIds({ types: ["t"] }), [], "two hours later");
    await s.sweep();
    const shown = await s.get(id);
    equal([shown.state, shown.dueAt], ["scheduled", at], "the job");
    equal((await s.overview())!.counts.scheduled, 1, "jobs that are scheduled");
    await s.clock.advance(22 * HOUR_MS + 1);
    equal(await s.claimIds({ types: ["t"] }), [id], "tomorrow");
  },

  "a job for tomorrow is shown and counted as scheduled after the clock was ahead, before any claim": async (s) => {
    const id = await s.addOne({ due: { at: s.clock.wall() + DAY_MS } });
    await wasAhead(s, 23 * HOUR_MS);
    await s.clock.advance(2 * HOUR_MS);
    equal((await s.get(id)).state, "scheduled", "its state");
    const explained = explainJob((await s.storage.explain(id))!);
    const first = explained.blockers.find(({ kind }) => kind !== "no-worker");
    equal([explained.state, first?.kind], ["scheduled", "delay"], "its explanation");
    const { types } = await s.storage.backlog("q");
    equal(
      types.map(({ type, waiting, scheduled }) => [type, waiting, scheduled]),
      [
        ["ahead", 1, 0],
        ["t", 0, 1],
      ],
      "the backlog",
    );
    equal(await s.change("promote", id), [id], "what was promoted");
  },

  "a deadline that was given before the clock was ahead is kept": async (s) => {
    const deadline = s.clock.wall() + 2 * HOUR_MS;
    const [first, second] = await s.add({ deadline: { at: deadline } }, { deadline: { at: deadline } });
    await wasAhead(s, HOUR_MS);
    await s.clock.advance(HOUR_MS + 1_000);
    await s.sweep();
    equal((await s.claimOne({ types: ["t"] })).id, first, "the job claimed, before the deadline");
    await s.clock.advance(HOUR_MS);
    await s.sweep();
    equal((await s.get(second!)).state, "dead", "the state of the other one, after it");
  },

  "instants that users gave come sooner when the clock is set forward": async (s) => {
    const at = s.clock.wall() + 2 * HOUR_MS;
    const id = await s.addOne({ due: { at } });
    s.clock.stepWall(HOUR_MS);
    await s.sweep();
    const shown = await s.get(id);
    equal([shown.state, shown.dueAt], ["scheduled", at], "the job");
    await s.clock.advance(HOUR_MS + 1);
    equal(await s.claimIds(), [id], "the job that has come due");
  },

  "a delay and a lease that begin while the clock is ahead last as long as they should": async (s) => {
    s.clock.stepWall(2 * DAY_MS);
    const id = await s.addOne({ due: { inMs: HOUR_MS } });
    await s.addOne({ type: "held" });
    await s.claimOne({ types: ["held"], leaseMs: 2 * HOUR_MS });
    s.clock.stepWall(-2 * DAY_MS);
    await s.sweep();
    await s.clock.advance(HOUR_MS - 1_000);
    equal(await s.claimIds({ types: ["t"] }), [], "a second before");
    await s.clock.advance(1_001);
    equal(await s.claimIds({ types: ["t"], leaseMs: DAY_MS }), [id], "an hour later");
    equal((await s.sweep()).stalled, 0, "leases that have run out");
    await s.clock.advance(HOUR_MS);
    equal((await s.sweep()).stalled, 1, "leases that have run out, two hours later");
  },

  "no window is over after the clock was ahead, and none is full for longer": async (s) => {
    const limits = [{ key: "k", max: 2, windowMs: 10_000 }];
    await s.add({}, {}, {}, {}, {}, {});
    s.clock.stepWall(2 * DAY_MS);
    equal((await s.claimIds({ limits })).length, 2, "starts while it is ahead");
    s.clock.stepWall(-2 * DAY_MS);
    equal((await s.claim({ limits })).nextInMs, 10_000, "when a start is available again");
    await s.clock.advance(10_000);
    equal((await s.claimIds({ limits })).length, 2, "starts when there is");
  },

  "after the clock was ahead, jobs are shown and listed by the wall clock": async (s) => {
    const ahead = await wasAhead(s);
    await s.clock.advance(1_000);
    const now = s.clock.wall();
    const id = await s.addOne({ deadline: { inMs: HOUR_MS } });
    const job = await s.get(id);
    const near = (shown: number | null, expected: number) =>
      ok(Math.abs(shown! - expected) < 1, `expected ${expected}, got ${shown}`);
    near(job.createdAt, now);
    near(job.dueAt, now);
    near(job.deadline, now + HOUR_MS);
    near((await s.get(ahead)).createdAt, now - 1_000);
    const listed = await s.list({ since: now - 100 });
    equal(
      listed.jobs.map((one) => one.id),
      [id],
      "jobs added lately",
    );
    const claimed = await s.claimOne({ types: ["t"], leaseMs: 5_000 });
    near(claimed.startedAt, now);
    near(claimed.leaseUntil, now + 5_000);
    near(claimed.createdAt, now);
    await s.settle({ id, token: claimed.token, to: "completed", result: null });
    near((await s.get(id)).finishedAt, now);
  },

  "after the clock was ahead, an explanation shows instants by the wall clock": async (s) => {
    await wasAhead(s);
    const limits = [{ key: "k", max: 1, windowMs: 10_000 }];
    await s.add({}, {});
    await s.claim({ types: ["t"], limits, max: 1 });
    const { jobs } = await s.list({ states: ["waiting"], type: "t" });
    const conditions = (await s.storage.explain(jobs[0]!.id))!;
    const { earliest } = explainJob(conditions);
    ok(
      Math.abs(earliest!.getTime() - (s.clock.wall() + 10_000)) <= 1,
      `expected in ten seconds, got ${String(earliest)}`,
    );
  },

  "after the clock was ahead, instants of a limiter are those of the wall clock": async (s) => {
    await wasAhead(s);
    const { rates } = s.storage;
    const iso = (inMs: number) => new Date(s.clock.wall() + inMs).toISOString();
    await rates.recordExecution("k");
    const began = iso(0);
    const near = (shown: string | undefined, expected: string) =>
      ok(Math.abs(Date.parse(shown ?? "") - Date.parse(expected)) <= 1, `expected ${expected}, got ${shown}`);
    near(await rates.getOldestExecutionAtOffset("k", 0), began);
    await s.clock.advance(1_000);
    equal(await rates.getExecutionCount("k", iso(-2_000)), 1, "starts in the last two seconds");
    equal(await rates.getExecutionCount("k", iso(-500)), 0, "starts in the last half");
    const later = iso(HOUR_MS);
    await rates.setNextAvailableTime("k", later);
    near(await rates.getNextAvailableTime("k"), later);
    const { granted, retryInMs } = await rates.tryRecordExecution("k", { maxExecutions: 9, windowMs: 500 });
    equal([granted, Math.round(retryInMs)], [false, HOUR_MS], "a start before it is available");
  },
};
