import type { Claim, ClaimRequest } from "../../storage/job-storage.ts";
import { equal, ok } from "../expect.ts";
import { blocked, countOf, define, refusedFor, rule, said, take, taken, window } from "./limit-words.ts";
import { back, type Cases, completed, lease, limit, type Scene } from "./scene.ts";

const TTL = 2_000;

/** A claim that is going to say when its jobs were called. */
async function granted(s: Scene, request: Partial<ClaimRequest> = {}): Promise<Claim & { readonly id: string }> {
  const claim = await s.claim({ grantTtlMs: TTL, ...request });
  ok(claim.grant !== undefined, "expected something to be confirmed");
  return { ...claim, id: claim.grant.id };
}

const confirm = (s: Scene, grant: string, calledInMs: number): Promise<void> =>
  s.storage.confirm([{ grant, calledInMs }]);

/**
 * Three in a window of a second, 200 ms ago: one was given back and is not confirmed, two were called 100 ms later, and one was
 * granted just now in its place. The answer: what was given back.
 */
async function fullBesideOneGivenBack(s: Scene): Promise<string> {
  await define(s, rule("k", window(3, 1_000)));
  await s.addMany(8);
  const returned = await granted(s, { max: 1 });
  await s.clock.advance(100);
  const called = await granted(s, { max: 2 });
  await confirm(s, called.id, 0);
  await s.clock.advance(100);
  await s.settle(back(returned.jobs[0]!, { unstarted: true }));
  await granted(s, { max: 1 });
  return returned.id;
}

export const confirming: Cases = {
  "a start that is not confirmed counts as if it were called at the last moment": async (s) => {
    await define(s, rule("k", window(2, 1_000)));
    await s.addMany(6);
    equal((await granted(s)).jobs.length, 2, "granted");
    // The first look is at the hopeful instant; then ever less often; the last is certain.
    for (const wait of [1_000, 250, 500, 1_000, 250]) {
      equal(await said(s), blocked(wait), `refused, ${s.clock.now()} ms after the grant`);
      await s.clock.advance(wait);
    }
    equal((await said(s)).count, 2, "when it has left for certain");
  },

  "a confirmed start counts from its call": async (s) => {
    await define(s, rule("k", window(2, 1_000)));
    await s.addMany(6);
    const { id } = await granted(s);
    await s.clock.advance(30);
    await confirm(s, id, 30);
    equal(await said(s), blocked(1_000), "at the call");
    await s.clock.advance(999);
    equal(await said(s), blocked(1), "a millisecond before it has left");
    await s.clock.advance(1);
    equal((await said(s)).count, 2, "when it has left");
  },

  "what a claim confirms counts for its own decisions": async (s) => {
    const limits = [limit("k", 2, 1_000)];
    await s.addMany(6);
    const { id } = await granted(s, { limits });
    await s.clock.advance(1_000);
    equal(await said(s, { limits }), blocked(250), "not confirmed");
    equal((await said(s, { limits, confirm: [{ grant: id, calledInMs: 0 }] })).count, 2, "confirmed with the claim");
  },

  "a start whose call left the window before it was confirmed counts no more": async (s) => {
    await define(s, rule("k", window(3, 1_000)));
    const first = await take(s, "k", { weight: 2, grantTtlMs: TTL });
    ok(first.granted && first.grant !== undefined, "expected something to be confirmed");
    await s.clock.advance(1_000);
    // What is in use of the window is looked up, and the start that is not confirmed is part of it.
    await taken(s, "k", { grantTtlMs: TTL });
    equal((await countOf(s, "k")).used, 3, "used, before the confirmation");
    await confirm(s, first.grant.id, 0);
    equal((await countOf(s, "k")).used, 1, "used, after it");
    equal((await take(s, "k", { weight: 2 })).granted, true, "as much as has left");
  },

  "a claim under no limit that it confirms for lowers the start all the same": async (s) => {
    await define(s, rule("k", window(2, 1_000), { types: ["a"] }));
    await s.addMany(4, { type: "a" });
    await s.addMany(1, { type: "b", queue: "other" });
    const { id } = await granted(s);
    await s.clock.advance(1_000);
    equal((await said(s, { queue: "other", confirm: [{ grant: id, calledInMs: 0 }] })).count, 1, "of another queue");
    equal((await said(s)).count, 2, "of the first queue");
  },

  "a refused claim expects calls to take as long as the latest did": async (s) => {
    await define(s, rule("k", window(1, 1_000)));
    await s.addMany(6);
    const { id } = await granted(s);
    await s.clock.advance(40);
    await confirm(s, id, 40);
    await s.clock.advance(1_000);
    await granted(s);
    equal(await said(s), blocked(1_040), "as long after the grant as the one before");
  },

  "one slow call does not change how long the next ones are expected to take": async (s) => {
    await define(s, rule("k", window(1, 1_000)));
    await s.addMany(6);
    const { id } = await granted(s);
    await s.clock.advance(1_900);
    await confirm(s, id, 1_900);
    await s.clock.advance(1_000);
    await granted(s);
    equal(await said(s), blocked(1_250), "a quarter of the window at the most");
  },

  "a confirmation counts once, and one for nothing changes nothing": async (s) => {
    await define(s, rule("k", window(2, 1_000)));
    await s.addMany(6);
    const { id } = await granted(s);
    await s.clock.advance(100);
    await s.storage.confirm([]);
    await confirm(s, "nobody", 0);
    await confirm(s, "123456", 0);
    equal(await said(s), blocked(900), "not confirmed yet");
    await confirm(s, id, 100);
    await confirm(s, id, 0);
    equal(await said(s), blocked(1_000), "the first confirmation holds");
  },

  "several grants are confirmed together": async (s) => {
    await define(s, rule("k", window(2, 1_000)));
    await s.addMany(6);
    const first = await granted(s, { max: 1 });
    await s.clock.advance(10);
    const second = await granted(s, { max: 1 });
    await s.clock.advance(10);
    await s.storage.confirm([
      { grant: second.id, calledInMs: 5 },
      { grant: first.id, calledInMs: 20 },
    ]);
    equal(await said(s), blocked(995), "the first to leave was granted last");
    await s.clock.advance(995);
    equal((await said(s)).count, 1, "when that has left");
    equal(await said(s), blocked(5), "then the other");
  },

  "a start that is given back without a call counts nowhere, confirmed or not": async (s) => {
    await define(s, rule("k", window(2, 1_000)));
    await s.addMany(6);
    const { jobs, id } = await granted(s);
    await s.settle(back(jobs[0]!, { unstarted: true }));
    equal((await countOf(s, "k")).used, 1, "one is left");
    await confirm(s, id, 0);
    equal((await countOf(s, "k")).used, 1, "after the confirmation");
    const again = await granted(s);
    equal(again.jobs.length, 1, "the other may start");
    await confirm(s, again.id, 0);
    await s.settle(back(again.jobs[0]!, { unstarted: true }));
    equal((await countOf(s, "k")).used, 1, "given back after it was confirmed");
  },

  "a job that ended before its start was confirmed is confirmed like any other": async (s) => {
    await define(s, rule("k", window(2, 1_000)));
    await s.addMany(6);
    const { jobs, id } = await granted(s);
    await s.settle(...jobs.map((job) => completed(job)));
    await s.clock.advance(1_000);
    equal(await said(s), blocked(250), "its end says nothing about its call");
    await confirm(s, id, 0);
    equal((await said(s)).count, 2, "confirmed");
  },

  "a start whose worker died stays as it was granted": async (s) => {
    await define(s, rule("k", window(2, 1_000)));
    await s.addMany(2);
    await granted(s, { leaseMs: 500 });
    await s.clock.advance(500);
    equal((await s.sweep()).stalled, 2, "their leases ran out");
    equal((await countOf(s, "k")).used, 2, "what is in use");
    await s.clock.advance(2_499);
    equal((await said(s)).count, 0, "before it has left for certain");
    await s.clock.advance(1);
    equal((await said(s)).count, 2, "when it has");
  },

  "a start that is never confirmed does not keep others from looking when they may": async (s) => {
    await define(s, rule("k", window(2, 1_000)));
    await s.addMany(6);
    await granted(s, { max: 1, grantTtlMs: 60_000 });
    await s.clock.advance(10_000);
    const { jobs, nextInMs } = await s.claim({ grantTtlMs: TTL });
    equal([jobs.length, nextInMs], [1, 1_000], "what it took itself leaves first");
  },

  "a start that was given back does not say when to look again": async (s) => {
    await fullBesideOneGivenBack(s);
    await s.clock.advance(100);
    equal(await said(s), blocked(800), "those that were called leave first");
    await s.clock.advance(750);
    equal(await said(s), blocked(50), "though it should have left before them");
  },

  "a start that was given back and confirmed does not say when to look again": async (s) => {
    const id = await fullBesideOneGivenBack(s);
    await confirm(s, id, 0);
    await s.clock.advance(100);
    equal(await said(s), blocked(800), "those that were called leave first");
  },

  "a call that was made too late counts from then": async (s) => {
    await define(s, rule("k", window(2, 1_000)));
    await s.addMany(6);
    const { id } = await granted(s);
    await s.clock.advance(2_500);
    await confirm(s, id, 2_500);
    await s.clock.advance(999);
    equal((await said(s)).count, 0, "it has not left");
    await s.clock.advance(1);
    equal((await said(s)).count, 2, "it has left");
  },

  "a call that was made too late counts from then, even if its start had left the window already": async (s) => {
    await define(s, rule("k", window(2, 1_000)));
    await s.addMany(6);
    const { id } = await granted(s);
    await s.clock.advance(3_000);
    const next = await granted(s);
    equal(next.jobs.length, 2, "it had left for certain");
    await confirm(s, next.id, 0);
    await s.clock.advance(100);
    await confirm(s, id, 3_100);
    equal((await countOf(s, "k")).used, 4, "both count");
    await s.clock.advance(900);
    equal((await said(s)).count, 0, "only those that were in time have left");
    await s.clock.advance(100);
    equal((await said(s)).count, 2, "all have left");
  },

  "a start that was given back says nothing about how long calls take": async (s) => {
    await define(s, rule("k", window(1, 1_000)));
    await s.addMany(6);
    const first = await granted(s);
    await s.clock.advance(40);
    await confirm(s, first.id, 40);
    await s.clock.advance(1_000);
    const returned = await granted(s);
    await s.settle(back(returned.jobs[0]!, { unstarted: true }));
    await confirm(s, returned.id, 0);
    await granted(s);
    equal(await said(s), blocked(1_040), "as long after the grant as the one that was called");
    equal((await countOf(s, "k")).nextInMs, 1_040, "for a reader, too");
  },

  "a permit that was cancelled says nothing about how long calls take": async (s) => {
    await define(s, rule("k", window(1, 1_000)));
    const token = await taken(s, "k", { grantTtlMs: TTL });
    await s.storage.limits.give(token, "cancelled");
    for (const later of [0, 2_001]) {
      await s.clock.advance(later);
      const next = await taken(s, "k", { grantTtlMs: TTL });
      equal(await take(s, "k"), refusedFor(1_000), `${later} ms later`);
      await s.storage.limits.give(next, "cancelled");
    }
  },

  "a permit that was cancelled is not confirmed any more": async (s) => {
    await define(s, rule("spaced", { everyMs: 1_000 }), rule("k", window(1, 1_000)));
    for (const name of ["spaced", "k"]) {
      const first = await take(s, name, { grantTtlMs: TTL });
      ok(first.granted && first.grant !== undefined, "expected to be granted");
      await s.storage.limits.give(first.token, "cancelled");
      await s.clock.advance(100);
      const second = await take(s, name, { grantTtlMs: TTL });
      ok(second.granted && second.grant !== undefined, "expected the next to be granted");
      await confirm(s, second.grant.id, 0);
      await s.clock.advance(400);
      await confirm(s, first.grant.id, 500);
      equal(await take(s, name), refusedFor(600), `${name}: the other one alone`);
      await s.clock.advance(600);
      await taken(s, name, { grantTtlMs: TTL });
      equal(await take(s, name), refusedFor(1_000), `${name}: the hopeful instant`);
    }
  },

  "spacing counts from the call, not from the grant": async (s) => {
    await define(s, rule("k", { everyMs: 1_000 }));
    await s.addMany(6);
    const { id } = await granted(s);
    equal(await said(s), blocked(1_000), "the hopeful instant");
    await s.clock.advance(100);
    await confirm(s, id, 100);
    equal(await said(s), blocked(1_000), "from the call on");
    await s.clock.advance(999);
    equal(await said(s), blocked(1), "a millisecond before");
    await s.clock.advance(1);
    equal((await said(s)).count, 1, "at the instant");
  },

  "spacing counts from the last possible call of a start that is not confirmed": async (s) => {
    await define(s, rule("k", { everyMs: 1_000 }));
    await s.addMany(6);
    await granted(s);
    for (const wait of [1_000, 250, 500, 1_000, 250]) {
      equal(await said(s), blocked(wait), `refused, ${s.clock.now()} ms after the grant`);
      await s.clock.advance(wait);
    }
    equal((await said(s)).count, 1, "at the certain instant");
  },

  "a start that is given back leaves no spacing behind it": async (s) => {
    await define(s, rule("k", { everyMs: 1_000 }));
    await s.addMany(6);
    const { jobs } = await granted(s);
    await s.settle(back(jobs[0]!, { unstarted: true }));
    equal((await said(s)).count, 1, "the next one");
  },

  "each group has its own starts to confirm": async (s) => {
    await define(s, rule("k", window(1, 1_000), { byGroup: true }));
    await s.add({ group: "a" }, { group: "b" }, { group: "a" }, { group: "b" });
    const { jobs, id } = await granted(s);
    equal(new Set(jobs.map(({ group }) => group)).size, 2, "one of each");
    await s.clock.advance(10);
    await confirm(s, id, 10);
    await s.clock.advance(999);
    equal((await said(s)).count, 0, "a millisecond before");
    await s.clock.advance(1);
    equal((await said(s)).count, 2, "at the instant");
  },

  "groups that are not confirmed are looked at again at the hopeful instant": async (s) => {
    await define(s, rule("k", window(1, 1_000), { byGroup: true }));
    await s.add({ group: "a" }, { group: "a" });
    const { id } = await granted(s);
    const first = await s.claim();
    equal([first.jobs.length, first.nextInMs, first.blockedBy], [0, 1_000, "k[a]"], "the hopeful instant");
    await s.clock.advance(20);
    await confirm(s, id, 20);
    await s.clock.advance(980);
    const second = await s.claim();
    equal([second.jobs.length, second.nextInMs], [0, 20], "the exact one");
    await s.clock.advance(20);
    equal((await said(s)).count, 1, "at that instant");
  },

  "weights are corrected before and after the confirmation": async (s) => {
    await define(s, rule("k", window(10, 1_000), { weight: "tokens" }));
    await s.add({ weights: { tokens: 8 } }, { weights: { tokens: 8 } }, { weights: { tokens: 8 } });
    const first = await granted(s, { max: 1 });
    await s.storage.report([{ ...lease(first.jobs[0]!), weights: { tokens: 2 } }]);
    equal((await countOf(s, "k")).used, 2, "before");
    await s.clock.advance(10);
    await confirm(s, first.id, 10);
    equal((await countOf(s, "k")).used, 2, "confirmed");
    const second = await granted(s, { max: 1 });
    equal(second.jobs.length, 1, "the second fits");
    await s.storage.report([{ ...lease(first.jobs[0]!), weights: { tokens: 5 } }]);
    equal((await countOf(s, "k")).used, 13, "after");
    await s.clock.advance(1_000);
    equal((await countOf(s, "k")).used, 8, "the first has left");
  },

  "several windows of one name see the same call": async (s) => {
    await s.addMany(10);
    const limits = [limit("k", 3, 1_000), limit("k", 4, 5_000)];
    const { jobs, id } = await granted(s, { limits });
    equal(jobs.length, 3, "the short window");
    await s.clock.advance(100);
    await confirm(s, id, 100);
    await s.clock.advance(1_000);
    equal((await said(s, { limits })).count, 1, "the long window");
    await s.clock.advance(3_999);
    equal((await said(s, { limits })).count, 0, "a millisecond before it has left the long one");
    await s.clock.advance(1);
    equal((await said(s, { limits })).count, 3, "at the instant");
  },

  "a start that was cleared is not confirmed any more": async (s) => {
    await define(s, rule("k", window(2, 1_000)));
    await s.addMany(6);
    const { id } = await granted(s);
    await s.storage.limits.change("k", { reset: true, group: null });
    const next = await granted(s);
    equal(next.jobs.length, 2, "after the reset");
    await confirm(s, id, 3_000);
    equal((await countOf(s, "k")).used, 2, "what is in use");
  },

  "a call counts no later than its confirmation, whatever its caller says": async (s) => {
    await define(s, rule("k", window(1, 1_000)), rule("spaced", { everyMs: 1_000 }, { queues: ["other"] }));
    await s.addMany(3);
    await s.addMany(3, { queue: "other" });
    for (const queue of ["q", "other"]) {
      const { id } = await granted(s, { queue });
      await s.clock.advance(10);
      await confirm(s, id, 3_600_000);
      await s.clock.advance(999);
      equal((await said(s, { queue })).count, 0, `${queue}: a millisecond before`);
      await s.clock.advance(1);
      equal((await said(s, { queue })).count, 1, `${queue}: at the instant`);
      await s.clock.advance(1_000);
    }
  },

  "a call that was made too late keeps others away, though another start came after it": async (s) => {
    await define(s, rule("k", { everyMs: 100 }));
    await s.addMany(6);
    const first = await granted(s);
    await s.clock.advance(2_100);
    const second = await granted(s);
    await confirm(s, second.id, 0);
    await s.clock.advance(60);
    await confirm(s, first.id, 2_150);
    await s.clock.advance(40);
    equal((await said(s)).count, 0, "too near to the late call");
    await s.clock.advance(50);
    equal((await said(s)).count, 1, "when that is long enough ago");
  },

  "three starts on their way at once may not lower what the others need": async (s) => {
    await define(s, rule("k", window(10, 10)));
    await s.addMany(6);
    const [first, second, third] = [
      await granted(s, { max: 1 }),
      await granted(s, { max: 1 }),
      await granted(s, { max: 1 }),
    ];
    await s.storage.limits.define([rule("k", { ...window(10, 10), everyMs: 500 })]);
    await confirm(s, third.id, 0);
    await s.clock.advance(600);
    equal((await said(s)).count, 0, "the calls of the others may still come");
    await s.clock.advance(1_000);
    await s.storage.confirm([
      { grant: first.id, calledInMs: 1_600 },
      { grant: second.id, calledInMs: 1_600 },
    ]);
    await s.clock.advance(900);
    equal((await said(s)).count, 1, "when the last moment is long enough ago");
  },

  "debt that became known late stays when the call is confirmed": async (s) => {
    const { rates } = s.storage;
    const ask = { maxExecutions: 10, windowMs: 1_000, weight: 10, grantTtl: TTL };
    const { token } = await rates.tryRecordExecution("k", ask);
    await s.clock.advance(4_000);
    await rates.settleExecution("k", token!, 15);
    equal((await rates.tryRecordExecution("k", { ...ask, weight: 6 })).granted, false, "the debt");
    await rates.confirmExecution("k", [{ token: token!, calledInMs: 10 }]);
    equal((await rates.tryRecordExecution("k", { ...ask, weight: 6 })).granted, false, "after the confirmation");
  },

  "starts that were counted under a name before count for the first claim under it": async (s) => {
    const { rates } = s.storage;
    for (let i = 0; i < 2; i++) await rates.tryRecordExecution("k", { maxExecutions: 2, windowMs: 1_000 });
    await define(s, rule("k", window(2, 1_000)));
    await s.addMany(4);
    equal((await said(s)).count, 0, "the window is full");
  },

  "a grant says when its confirmation is worth a call": async (s) => {
    await define(s, rule("k", window(5, 400)), rule("wide", window(500, 60_000), { types: ["wide"] }));
    await s.addMany(2);
    equal((await granted(s)).grant!.confirmInMs, 200, "half of the shortest window");
    await s.add({ type: "wide", queue: "other" });
    await s.storage.limits.remove("k");
    equal((await granted(s, { queue: "other" })).grant!.confirmInMs, 1_000, "a second at the most");
  },

  "a claim under no window and no spacing has nothing to confirm": async (s) => {
    await s.addMany(4);
    equal((await s.claim({ max: 1, grantTtlMs: TTL })).grant, undefined, "no limits");
    await define(s, rule("slots", { concurrency: 2 }));
    equal((await s.claim({ max: 1, grantTtlMs: TTL })).grant, undefined, "concurrency");
    await define(s, rule("k", window(2, 1_000)));
    equal((await s.claim({ max: 1 })).grant, undefined, "no time was said");
    equal((await s.claim({ max: 0, grantTtlMs: TTL })).grant, undefined, "nothing started");
  },

  "permits are confirmed like jobs": async (s) => {
    await define(s, rule("k", window(2, 1_000)));
    const [first, second] = [await take(s, "k", { grantTtlMs: TTL }), await take(s, "k", { grantTtlMs: TTL })];
    ok(first.granted && first.grant !== undefined, "expected the first to be confirmed");
    ok(second.granted && second.grant !== undefined, "expected the second to be confirmed");
    equal(first.grant.confirmInMs, 500, "when");
    equal(await take(s, "k"), refusedFor(1_000), "the hopeful instant");
    await s.clock.advance(10);
    await s.storage.confirm([
      { grant: first.grant.id, calledInMs: 5 },
      { grant: second.grant.id, calledInMs: 10 },
    ]);
    await s.clock.advance(994);
    equal(await take(s, "k"), refusedFor(1), "a millisecond before");
    await s.clock.advance(1);
    const third = await take(s, "k", { grantTtlMs: TTL });
    ok(third.granted, "expected the first to have left");
    equal(await take(s, "k"), refusedFor(5), "the second");
    await s.storage.limits.give(third.token, "cancelled");
    await s.clock.advance(5);
    equal((await countOf(s, "k")).used, 0, "what was cancelled counts nowhere");
  },

  "a permit that was released before it was confirmed is confirmed like any other": async (s) => {
    await define(
      s,
      rule("k", window(1, 1_000), { byGroup: true }),
      rule("both", { ...window(1, 1_000), concurrency: 1 }),
    );
    for (const name of ["k", "both"]) {
      const permit = await take(s, name, { group: "g", grantTtlMs: TTL });
      ok(permit.granted && permit.grant !== undefined, "expected to be granted");
      await s.clock.advance(10);
      await s.storage.limits.give(permit.token, "released");
      await confirm(s, permit.grant.id, 10);
      await s.clock.advance(999);
      equal((await take(s, name, { group: "g" })).granted, false, `${name}: a millisecond before`);
      await s.clock.advance(1);
      equal((await take(s, name, { group: "g" })).granted, true, `${name}: at the instant`);
    }
  },

  "starts under a name are confirmed by their tokens": async (s) => {
    const { rates } = s.storage;
    const ask = { maxExecutions: 1, windowMs: 1_000, grantTtl: TTL };
    const { granted: first, token } = await rates.tryRecordExecution("k", ask);
    ok(first && token !== undefined, "expected to be granted");
    equal((await rates.tryRecordExecution("k", ask)).retryInMs, 1_000, "the hopeful instant");
    await s.clock.advance(1_000);
    equal((await rates.tryRecordExecution("k", ask)).retryInMs, 250, "not confirmed");
    await rates.confirmExecution("other", [{ token, calledInMs: 0 }]);
    await rates.confirmExecution("k", [{ token: "nobody", calledInMs: 0 }]);
    equal((await rates.tryRecordExecution("k", ask)).retryInMs, 250, "still not confirmed");
    await rates.confirmExecution("k", [{ token, calledInMs: 300 }]);
    equal((await rates.tryRecordExecution("k", ask)).retryInMs, 300, "confirmed");
    await s.clock.advance(300);
    const next = await rates.tryRecordExecution("k", ask);
    equal(next.granted, true, "when it has left");
    await rates.cancelExecution("k", next.token!);
    equal((await rates.tryRecordExecution("k", ask)).granted, true, "what was cancelled counts nowhere");
  },
};
