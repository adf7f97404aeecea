import { describe, expect, it } from "vitest";
import { accounting } from "../../chaos/checkers/accounting.ts";
import { concurrency } from "../../chaos/checkers/concurrency.ts";
import { fencing } from "../../chaos/checkers/fencing.ts";
import { hygiene } from "../../chaos/checkers/hygiene.ts";
import { idempotency } from "../../chaos/checkers/idempotency.ts";
import { exclusiveLeases } from "../../chaos/checkers/leases.ts";
import { liveness, startsInTime } from "../../chaos/checkers/liveness.ts";
import { noLoss } from "../../chaos/checkers/loss.ts";
import {
  abortedAfterPause,
  attemptsKept,
  cancelReceived,
  poisonDies,
  stopsInTime,
  warnedAfterPause,
} from "../../chaos/checkers/moments.ts";
import { order } from "../../chaos/checkers/order.ts";
import { granted, outsideRate, rate, steady, use } from "../../chaos/checkers/rates.ts";
import { recovery } from "../../chaos/checkers/recovery.ts";
import { oneSettlement } from "../../chaos/checkers/settlement.ts";
import { mustLook, together, type Verdict } from "../../chaos/checkers/verdict.ts";
import type { Digest } from "../../chaos/history/digest.ts";
import { finalOf, Story } from "./support.ts";

/** It looked at something, and found nothing wrong. */
function right(verdict: Verdict): void {
  expect(verdict.violations).toEqual([]);
  expect(verdict.n).toBeGreaterThan(0);
}

function wrong(verdict: Verdict, about: RegExp): void {
  expect(verdict.violations.join("\n")).toMatch(about);
}

describe("I1, no loss", () => {
  const drained = { drained: true };

  it("accepts a history in which every acknowledged job has ended", () => {
    right(
      noLoss(new Story().add(0, "a", ["1", "2"]).digest, finalOf([{ id: "1" }, { id: "2", state: "dead" }]), drained),
    );
  });

  it("sees that an acknowledged job is gone", () => {
    wrong(noLoss(new Story().add(0, "a", ["1", "2"]).digest, finalOf([{ id: "1" }]), drained), /job 2, .* is gone/);
  });

  it("accepts that a removed job is gone", () => {
    right(noLoss(new Story().add(0, "a", ["1"]).change(5, "remove", ["1"]).digest, finalOf([]), drained));
  });

  it("sees that a job has not ended after the drain", () => {
    const { digest } = new Story().add(0, "a", ["1"]);
    wrong(noLoss(digest, finalOf([{ id: "1", state: "active" }]), drained), /still active/);
    right(noLoss(digest, finalOf([{ id: "1", state: "active" }]), { drained: false }));
  });

  it("accepts all or none of an add that was never answered", () => {
    const { digest } = new Story().addAndDie(0, "a", ["1", "2"]);
    right(noLoss(digest, finalOf([]), drained));
    right(noLoss(digest, finalOf([{ id: "1" }, { id: "2" }]), drained));
    wrong(noLoss(digest, finalOf([{ id: "1" }]), drained), /1 of 2/);
  });

  it("sees a job of an add that was refused", () => {
    const story = new Story().addAndDie(0, "a", ["1"]).at(1, "a", { op: "add", phase: "fail", call: 0, error: "no" });
    wrong(noLoss(story.digest, finalOf([{ id: "1" }]), drained), /refused are there/);
  });
});

describe("I2, one settlement", () => {
  it("accepts a history in which the last lease ended the job", () => {
    const { digest } = new Story().settle(5, "a", "1", 1, { stale: true }).settle(9, "b", "1", 2);
    right(oneSettlement(digest, finalOf([{ id: "1", token: 2, result: '{"token":2}' }])));
  });

  it("sees that a job ended twice", () => {
    const { digest } = new Story().settle(5, "a", "1", 1).settle(9, "b", "1", 2);
    wrong(oneSettlement(digest, finalOf([{ id: "1", token: 2 }])), /ended 2 times/);
  });

  it("allows a second end after a retry", () => {
    const { digest } = new Story().settle(5, "a", "1", 1).change(6, "retry", ["1"]).settle(9, "b", "1", 2);
    right(oneSettlement(digest, finalOf([{ id: "1", token: 2 }])));
  });

  it("sees that a lease was settled twice", () => {
    const { digest } = new Story().settle(5, "a", "1", 1, { to: "retry" }).settle(9, "a", "1", 1, { to: "retry" });
    wrong(oneSettlement(digest, finalOf([])), /lease 1 of job 1 was settled 2 times/);
  });

  it("sees an end that no worker reported, and a result of another worker", () => {
    const { digest } = new Story().settle(5, "a", "1", 1);
    wrong(oneSettlement(digest, finalOf([{ id: "1", token: 2 }])), /no worker reported that with this token/);
    wrong(
      oneSettlement(digest, finalOf([{ id: "1", token: 1, result: '{"token":7}' }])),
      /result of job 1 is of lease 7/,
    );
  });
});

describe("I3, fencing", () => {
  const claimed = () => new Story().claim(0, "a", "1", 1).claim(2_000, "b", "1", 2);

  it("accepts a history in which the stale write was refused", () => {
    right(fencing(claimed().settle(2_500, "a", "1", 1, { stale: true }).digest, finalOf([{ id: "1", token: 2 }])));
  });

  it("sees that a stale settle was accepted", () => {
    wrong(fencing(claimed().settle(2_500, "a", "1", 1).digest, finalOf([])), /with token 1, after b had got 2/);
  });

  it("sees that a stale lease was kept", () => {
    wrong(fencing(claimed().heartbeat(2_500, "a", "1", 1).digest, finalOf([])), /kept the lease/);
  });

  it("sees that a token was given twice, and one that went back", () => {
    wrong(fencing(new Story().claim(0, "a", "1", 1).claim(0, "b", "2", 1).digest, finalOf([])), /token 1 was given/);
    wrong(fencing(claimed().digest, finalOf([{ id: "1", token: 1 }])), /has token 1, and 2 was given/);
  });
});

describe("I4, exclusive leases", () => {
  it("accepts a history in which the first lease had run out, or the job was given back", () => {
    right(exclusiveLeases(new Story().claim(0, "a", "1", 1).claim(1_010, "b", "1", 2).digest));
    right(
      exclusiveLeases(
        new Story().claim(0, "a", "1", 1).settle(5, "a", "1", 1, { to: "back" }).claim(9, "b", "1", 2).digest,
      ),
    );
  });

  it("sees two holders at once", () => {
    wrong(exclusiveLeases(new Story().claim(0, "a", "1", 1).claim(500, "b", "1", 2).digest), /overlap by 500 ms/);
  });

  it("sees two workers with the same id", () => {
    right(exclusiveLeases(new Story().ready(0, "a").ready(0, "b").digest));
    wrong(exclusiveLeases(new Story().ready(0, "a").ready(5, "a").digest), /id of another worker/);
  });

  it("counts from the last heartbeat", () => {
    const story = new Story().claim(0, "a", "1", 1).heartbeat(900, "a", "1", 1).claim(1_100, "b", "1", 2);
    wrong(exclusiveLeases(story.digest), /before the lease of a ran out/);
  });
});

describe("I5, I6 and I9, rates", () => {
  const limit = { limiter: "l", max: 2, windowMs: 100 };
  /** Handlers that were called at these instants. */
  const calls = (...at: readonly number[]) => {
    const story = new Story();
    for (const [i, hr] of at.entries()) story.run(hr, hr, "a", String(i), i + 1, { under: ["l"] });
    return story;
  };

  it("accepts full windows that touch", () => {
    right(rate(calls(0, 0, 100, 100, 200, 200).digest, limit));
  });

  it("sees one too many, wherever the window begins, without tolerance", () => {
    wrong(rate(calls(0, 99, 99.5, 180).digest, limit), /3 calls in 99.5 ms/);
    wrong(rate(calls(0, 50, 99.9999).digest, limit), /3 calls in 100 ms, 100 ms needed/);
    expect(rate(calls(0, 99, 99.5, 180).digest, limit).note).toMatch(/at most 3 of 2 calls in a window/);
  });

  it("goes by the stamps of handlers, and not by those of the storage", () => {
    const story = new Story();
    for (const [i, hr] of [0, 10, 100].entries()) story.claim(hr, "a", String(i), i + 1, { limit: "l" });
    right(granted(story.digest, limit));
    expect(rate(story.digest, limit).n).toBe(0);
    for (const [i, hr] of [60, 61, 101].entries()) story.run(hr, hr, "a", String(i), i + 1, { under: ["l"] });
    wrong(rate(story.digest, limit), /3 calls in 41 ms/);
  });

  it("counts calls outside of jobs, too, and those of other limits not", () => {
    const story = calls(0, 50);
    right(rate(story.at(120, "b", { op: "call", phase: "info", under: ["l", "other"] }).digest, limit));
    wrong(rate(story.at(60, "b", { op: "call", phase: "info", under: ["l"] }).digest, limit), /3 calls in 60 ms/);
    expect(rate(story.digest, { ...limit, limiter: "other" }).violations).toEqual([]);
  });

  it("looks at the stamps of the storage as well, without what was taken back", () => {
    const story = new Story();
    for (const [i, hr] of [0, 10, 20, 130].entries()) story.claim(hr, "a", String(i), i + 1, { limit: "l" });
    wrong(granted(story.digest, limit), /3 grants in 20 ms/);
    right(granted(story.settle(30, "a", "1", 2, { to: "back", unstarted: true }).digest, limit));
  });

  /** Handlers that were called at these instants, each with a request that arrived 2 ms later. */
  const arrivals = (...at: readonly number[]) => {
    const story = calls(...at);
    for (const [i, hr] of at.entries()) {
      story.at(hr + 2, "echo", { op: "arrive", phase: "info", limiter: "l", job: String(i), token: i + 1 });
    }
    return story;
  };

  it("judges the service's windows by calls that were not longer on their way than the guard", () => {
    right(outsideRate(arrivals(0, 0, 110, 110).digest, { ...limit, guardMs: 10 }));
    wrong(outsideRate(arrivals(0, 0, 60, 110).digest, { ...limit, guardMs: 10 }), /3 calls in 60 ms/);
  });

  it("leaves out windows with a call that was longer on its way, and says how many", () => {
    const story = arrivals(0, 100).run(0, 5, "a", "late", 9);
    story.at(95, "echo", { op: "arrive", phase: "info", limiter: "l", job: "late", token: 9 });
    story.at(190, "echo", { op: "arrive", phase: "info", limiter: "l", job: "late", token: 9 });
    expect(outsideRate(story.digest, { ...limit, guardMs: 10 }).note).toMatch(/2 calls on their way/);
  });

  it("sees a call that no handler made", () => {
    const story = new Story().at(5, "echo", { op: "arrive", phase: "info", limiter: "l", job: "x", token: 3 });
    wrong(outsideRate(story.digest, { ...limit, guardMs: 10 }), /no handler of it ran/);
  });

  it("sees an allowance that is not used", () => {
    right(use(calls(0, 0, 100, 100, 200, 200, 300, 300).digest, { ...limit, least: 0.99 }));
    wrong(use(calls(0, 0, 150, 150, 300, 300).digest, { ...limit, least: 0.99 }), /66.67 %/);
    wrong(use(calls(0).digest, { ...limit, least: 0.99 }), /not enough/);
  });

  it("sees a stretch in which too little was used, and allows for what the machine did not give", () => {
    const even = calls(0, 0, 100, 100, 200, 200, 300, 300, 400);
    const stretch = { ...limit, windows: 2, least: 0.95, slackMs: 0 };
    right(steady(even.digest, stretch));
    const uneven = calls(0, 0, 100, 100, 200, 200, 330, 330, 430).digest;
    wrong(steady(uneven, stretch), /4 calls took 230 ms, 95.00 % of 2 in 100 ms wanted/);
    right(steady(uneven, { ...stretch, slackMs: 20 }));
    expect(steady(calls(0, 0, 100).digest, stretch).n).toBe(0);
  });
});

describe("I7, concurrency", () => {
  const slots = new Map([["a", 1]]);

  it("accepts one handler after the other", () => {
    right(concurrency(new Story().run(0, 10, "a", "1", 1).run(10, 20, "a", "2", 2).digest, slots));
  });

  it("sees two at once", () => {
    wrong(
      concurrency(new Story().run(0, 10, "a", "1", 1).run(9, 20, "a", "2", 2).digest, slots),
      /ran 2 handlers at once/,
    );
  });

  it("lists handlers that ran on after their signal, and does not count them", () => {
    const story = new Story().run(0, 50, "a", "1", 1).run(20, 30, "a", "2", 2);
    story.at(10, "a", { op: "abort", phase: "info", job: "1", token: 1, reason: "lost" });
    const verdict = concurrency(story.digest, slots);
    right(verdict);
    expect(verdict.note).toMatch(/1 handlers ran on/);
  });
});

describe("I8, recovery", () => {
  const bounds = { leaseMs: 1_000, sweepMs: 100, slackMs: 50 };
  const story = () => new Story().ready(0, "a").ready(0, "b").fault(500, "kill", "a");
  const stalled = (endedAt: number) =>
    finalOf([], {
      attempts: {
        1: [
          {
            attempt: 1,
            startedAt: 0,
            endedAt,
            worker: "id of a",
            error: { name: "", message: "", code: "SLUICE_STALLED" },
          },
        ],
      },
    });

  it("accepts a recovery within a lease and a sweep", () => {
    right(recovery(story().digest, stalled(1_600), bounds));
  });

  it("sees that it took longer", () => {
    wrong(recovery(story().digest, stalled(1_700), bounds), /200 ms after it could have/);
  });

  it("does not count while a stopped process has the lock, and does when others could write", () => {
    const stopped = () => story().ready(0, "c").fault(1_550, "stop", "c").fault(1_750, "cont", "c");
    right(recovery(stopped().digest, stalled(1_800), bounds));
    wrong(recovery(stopped().digest, stalled(1_900), bounds), /200 ms after it could have/);
    const others = stopped().add(1_600, "d", ["1"]).add(1_650, "d", ["2"]).add(1_700, "d", ["3"]);
    wrong(recovery(others.digest, stalled(1_800), bounds), /300 ms after it could have/);
  });

  it("counts from when a worker is there to sweep", () => {
    const later = story().fault(600, "kill", "b").ready(2_000, "c");
    right(recovery(later.digest, stalled(2_100), bounds));
    wrong(recovery(later.digest, stalled(2_200), bounds), /200 ms after it could have/);
  });
});

describe("I10, idempotency", () => {
  const keyed = finalOf([{ id: "1", idempotencyKey: "k" }]);

  it("accepts adds that are all answered with the same job", () => {
    right(
      idempotency(
        new Story().add(0, "a", ["1"], { key: "k" }).add(0, "b", ["2"], { key: "k", answer: "1" }).digest,
        keyed,
      ),
    );
  });

  it("sees two jobs for a key", () => {
    const { digest } = new Story().add(0, "a", ["1"], { key: "k" }).add(0, "b", ["2"], { key: "k" });
    wrong(idempotency(digest, keyed), /2 different jobs\nkey q k made 2 jobs/);
    const both = finalOf([
      { id: "1", idempotencyKey: "k" },
      { id: "2", idempotencyKey: "k" },
    ]);
    wrong(idempotency(digest, both), /has 2 jobs in the storage/);
  });

  it("sees that the job of a key is missing", () => {
    wrong(idempotency(new Story().add(0, "a", ["1"], { key: "k" }).digest, finalOf([])), /has 0 jobs/);
  });
});

describe("I12, order", () => {
  const inOrder = (history: Digest) => order(history, { sideBySide: false });

  it("accepts first in, first out", () => {
    right(
      inOrder(new Story().add(0, "a", ["1"]).add(5, "a", ["2"]).claim(9, "b", "1", 1).claim(9, "b", "2", 2).digest),
    );
  });

  it("sees a job that overtook another of its lane", () => {
    wrong(
      inOrder(new Story().add(0, "a", ["1"]).add(5, "a", ["2"]).claim(9, "b", "2", 1).claim(9, "b", "1", 2).digest),
      /added earlier/,
    );
  });

  it("compares neither other groups, nor adds at the same time, nor later attempts", () => {
    const groups = new Story().add(0, "a", ["1"], { group: "x" }).add(5, "a", ["2"], { group: "y" });
    right(inOrder(groups.claim(9, "b", "2", 1).claim(9, "b", "1", 2).digest));
    right(
      inOrder(new Story().add(0, "a", ["1"]).add(0.5, "c", ["2"]).claim(9, "b", "2", 1).claim(9, "b", "1", 2).digest),
    );
    right(
      inOrder(
        new Story().add(0, "a", ["1"]).add(5, "a", ["2"]).claim(9, "b", "2", 1).claim(9, "b", "1", 2, { attempt: 2 })
          .digest,
      ),
    );
  });

  it("goes by the time of claims where these may run side by side", () => {
    const side = (history: Digest) => order(history, { sideBySide: true });
    const added = () => new Story().add(0, "a", ["1"]).add(5, "a", ["2"]);
    right(side(added().claim(9, "b", "2", 1).claim(9, "c", "1", 2).digest));
    wrong(side(added().claim(9, "b", "2", 1).claim(50, "c", "1", 2).digest), /added earlier/);
  });
});

describe("I13, liveness", () => {
  const bounds = { queue: "q", workers: new Map([["b", 1]]), longestMs: 100 };

  it("accepts a history in which an idle worker starts what waits", () => {
    right(liveness(new Story().ready(0, "b").add(10, "a", ["1"]).claim(50, "b", "1", 1).digest, bounds));
  });

  it("sees a job that waits beside an idle worker", () => {
    wrong(
      liveness(new Story().ready(0, "b").add(10, "a", ["1"]).claim(150, "b", "1", 1).digest, bounds),
      /waited for 140 ms/,
    );
  });

  it("accepts that a job waits while the worker is busy, or dead", () => {
    const busy = new Story().ready(0, "b").add(0, "a", ["0"]).claim(5, "b", "0", 1).add(10, "a", ["1"]);
    right(liveness(busy.settle(150, "b", "0", 1).claim(151, "b", "1", 2).digest, bounds));
    const dead = new Story()
      .ready(0, "b")
      .add(0, "a", ["0"])
      .claim(1, "b", "0", 1)
      .fault(2, "kill", "b")
      .add(10, "a", ["1"]);
    right(liveness(dead.ready(300, "b").claim(310, "b", "1", 2).digest, bounds));
  });

  it("does not count while a stopped process has the lock, and does when others could write", () => {
    const stopped = () => new Story().ready(0, "b").add(10, "a", ["1"]).fault(20, "stop", "c").fault(320, "cont", "c");
    right(liveness(stopped().claim(350, "b", "1", 1).digest, bounds));
    const others = stopped();
    for (let hr = 40; hr < 320; hr += 40) others.heartbeat(hr, "d", "9", 9);
    wrong(liveness(others.claim(350, "b", "1", 1).digest, bounds), /waited for/);
  });

  it("sees a job that was never started", () => {
    wrong(liveness(new Story().ready(0, "b").add(10, "a", ["1"]).digest, bounds), /never started/);
  });

  it("sees a single job that a limiter kept for too long", () => {
    const jobs = (startedAt: number | null) => finalOf([{ id: "1", createdAt: 0, startedAt }]).jobs;
    right(startsInTime(jobs(90), 100));
    wrong(startsInTime(jobs(110), 100), /110 ms after it was added/);
    wrong(startsInTime(jobs(null), 100), /Infinity/);
  });
});

describe("I14, accounting", () => {
  const { digest } = new Story().add(0, "a", ["1", "2"]).change(5, "remove", ["2"]);

  it("accepts a history in which everything adds up", () => {
    right(accounting(digest, finalOf([{ id: "1" }])));
  });

  it("sees jobs that were never added, and jobs that are missing", () => {
    wrong(accounting(digest, finalOf([{ id: "1" }, { id: "9" }])), /job 9 is there, and was never added/);
    wrong(accounting(digest, finalOf([{ id: "1" }, { id: "2" }])), /job 2 is there, and was removed/);
    wrong(accounting(digest, finalOf([])), /0 jobs are there, 1 expected/);
  });

  it("sees counts that are not those of the table, and a damaged file", () => {
    wrong(accounting(digest, finalOf([{ id: "1" }], { rows: { waiting: 1 } })), /0 jobs told waiting, 1 counted/);
    wrong(accounting(digest, finalOf([{ id: "1" }], { damage: ["page 3 is never used"] })), /page 3/);
  });
});

describe("I15, hygiene", () => {
  it("accepts a quiet process, and one that reports a pause", () => {
    right(hygiene(new Story().ready(0, "a").note(1, "a", "left").digest));
    right(hygiene(new Story().note(0, "a", "error", 0, "Error: the event loop was blocked, or …").digest));
  });

  it("accepts a report of a missing answer, if a stopped process had the lock", () => {
    const text = "StorageError: has not answered for 267 ms";
    right(hygiene(new Story().fault(0, "stop", "c").note(400, "a", "error", 0, text).fault(900, "cont", "c").digest));
    wrong(hygiene(new Story().note(400, "a", "error", 0, text).digest), /has not answered for/);
  });

  it("accepts a report of a missing answer, if other processes kept the processors busy", () => {
    const { digest } = new Story().note(400, "a", "error", 0, "StorageError: has not answered for 267 ms");
    right(hygiene(digest, { busy: true }));
  });

  it("accepts a report that the process was stopped in the middle of a call", () => {
    const text = 'LateCallError: job "1" may have been called 257 ms too late for its limits';
    right(hygiene(new Story().note(400, "a", "error", 0, text).digest));
  });

  it("sees errors, things left open, and growth", () => {
    wrong(
      hygiene(new Story().note(0, "a", "error", 0, "StorageError: locked").digest),
      /1 errors, the first: StorageError/,
    );
    wrong(hygiene(new Story().note(0, "a", "left", 2, "Timeout Timeout").digest), /2 things open/);
    const growing = new Story();
    for (let second = 0; second < 600; second++) growing.note(second * 1_000, "a", "memory", second * 2 ** 20);
    wrong(hygiene(growing.digest), /grew by 60\.1 MB a minute/);
  });
});

describe("moments", () => {
  it("require the signal to be aborted soon after a pause", () => {
    const paused = () => new Story().run(0, null, "a", "1", 1).note(2_000, "a", "paused", 1_900);
    const abort = { op: "abort", phase: "info", job: "1", token: 1, reason: "lost" } as const;
    const bounds = { leaseMs: 1_000, withinMs: 100 };
    right(abortedAfterPause(paused().at(2_050, "a", abort).digest, bounds));
    wrong(abortedAfterPause(paused().at(2_200, "a", abort).digest, bounds), /200 ms after the pause/);
    wrong(abortedAfterPause(paused().digest, bounds), /Infinity/);
  });

  it("require a worker whose process was suspended during a handler to report it", () => {
    const text = "Error: the event loop was blocked, or the process paused, for 1900 ms";
    const paused = () => new Story().run(80, 2_000, "a", "1", 1).note(2_000, "a", "paused", 1_900);
    const bounds = { leaseMs: 1_000, withinMs: 100 };
    right(warnedAfterPause(paused().note(2_010, "a", "error", 0, text).digest, bounds));
    wrong(warnedAfterPause(paused().digest, bounds), /stood still for 1900 ms .* and did not say so/);
    wrong(warnedAfterPause(paused().note(2_010, "b", "error", 0, text).digest, bounds), /did not say so/);
    wrong(warnedAfterPause(paused().note(2_110, "a", "error", 0, text).digest, bounds), /did not say so/);
    // Nothing ran, or it was too short to matter.
    expect(warnedAfterPause(new Story().note(2_000, "a", "paused", 1_900).digest, bounds).n).toBe(0);
    expect(warnedAfterPause(new Story().run(0, 999, "a", "1", 1).note(999, "a", "paused", 900).digest, bounds).n).toBe(
      0,
    );
  });

  it("require a worker to stop on a signal", () => {
    const bounds = { claimMs: 100, exitMs: 1_000 };
    const exit = (hr: number, code: number) => new Map([["a", { hr, code }]]);
    const terminated = () => new Story().note(0, "a", "term");
    right(stopsInTime(terminated().digest, exit(900, 0), bounds));
    wrong(stopsInTime(terminated().claim(150, "a", "1", 1).digest, exit(900, 0), bounds), /claimed 150 ms after/);
    wrong(stopsInTime(terminated().digest, exit(1_100, 0), bounds), /took 1100 ms/);
    wrong(stopsInTime(terminated().digest, exit(900, 1), bounds), /code 1/);
    wrong(stopsInTime(terminated().digest, new Map(), bounds), /did not end/);
  });

  it("require a returned job to keep its attempt", () => {
    const back = () => new Story().claim(0, "a", "1", 1).settle(5, "a", "1", 1, { to: "back" });
    right(attemptsKept(back().claim(9, "b", "1", 2).digest));
    wrong(attemptsKept(back().claim(9, "b", "1", 2, { attempt: 2 }).digest), /given back in attempt 1, and is in 2/);
  });

  it("require the signal of a cancelled run to be aborted", () => {
    const abort = { op: "abort", phase: "info", job: "1", token: 1, reason: "cancelled" } as const;
    const cancelled = () => new Story().run(0, 5_000, "a", "1", 1).change(100, "cancel", ["1"]);
    right(cancelReceived(cancelled().at(600, "a", abort).digest, 1_000));
    wrong(cancelReceived(cancelled().at(1_601, "a", abort).digest, 1_000), /heard 1500 ms later/);
    wrong(cancelReceived(cancelled().digest, 1_000), /Infinity/);
    expect(cancelReceived(cancelled().fault(500, "kill", "a").digest, 1_000).n).toBe(0);
  });

  it("require a poison job to be dead after its attempts", () => {
    const { digest } = new Story().run(0, null, "a", "1", 1).run(9, null, "b", "1", 2);
    right(poisonDies(digest, [{ id: "1", state: "dead", attempt: 2 }], 2));
    wrong(poisonDies(digest, [{ id: "1", state: "waiting", attempt: 2 }], 2), /is waiting/);
    wrong(poisonDies(digest, [{ id: "1", state: "dead", attempt: 1 }], 1), /ran 2 times, 1 allowed/);
  });
});

it("findings under one id are merged, and a checker that checked nothing fails", () => {
  const of = "things";
  const one = { id: "I5", n: 1, of, violations: ["a"], note: "x" };
  expect(together([one, { id: "I5", n: 2, of, violations: ["b"] }])).toEqual([
    { ...one, n: 3, violations: ["a", "b"] },
  ]);
  wrong(mustLook({ id: "I5", n: 0, of, violations: [] }), /looked at nothing/);
});
