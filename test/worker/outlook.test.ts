import { describe, expect, it } from "vitest";
import type { JobRecord } from "../../src/core/job.ts";
import type { Claim } from "../../src/storage/job-storage.ts";
import { Outlook } from "../../src/worker/outlook.ts";

const NOTHING: Claim = { jobs: [], stale: [], more: false, nextInMs: null, blockedBy: null };
const blocked = (nextInMs: number | null, blockedBy = "gpu"): Claim => ({ ...NOTHING, nextInMs, blockedBy });
const GOT: Claim = { ...NOTHING, jobs: [{} as JobRecord] };

/** A worker that looks as soon as it may, for so long; what it finds is always the same. */
function looks(outlook: Outlook, claim: Claim, until: number, wake: (now: number) => void): number[] {
  const at: number[] = [];
  for (let now = 0; now < until; now++) {
    wake(now);
    if (!outlook.mayAsk(now)) continue;
    outlook.looks(now);
    at.push(now);
    outlook.learn(claim, 1, false, now);
  }
  return at;
}

describe("a worker that a limit keeps back", () => {
  it("sleeps until the computed instant, whatever else happens in the queue", () => {
    const outlook = new Outlook(0);
    outlook.learn(blocked(700), 1, false, 0);
    expect(outlook.nextAt).toBe(700);
    expect([1, 350, 699].map((now) => outlook.mayAsk(now))).toEqual([false, false, false]);
    expect(outlook.mayAsk(700)).toBe(true);
  });

  it("looks at once when there is news", () => {
    const outlook = new Outlook(0);
    outlook.learn(blocked(60_000), 1, false, 0);
    outlook.heardNews();
    expect(outlook.mayAsk(10)).toBe(true);
  });

  it("spreads its looks while news brings nothing: at once, 25 ms later, twice that, and so on up to 1,250", () => {
    const at = looks(new Outlook(0), blocked(null), 10_000, () => {});
    expect(at).toEqual([0]);
    const outlook = new Outlook(0);
    const eager = looks(outlook, blocked(null), 6_000, () => outlook.heardNews());
    // The first look is nobody's news.
    expect(eager).toEqual([0, 1, 26, 76, 176, 376, 776, 1_576, 2_826, 4_076, 5_326]);
  });

  it("is eager again once a claim got something", () => {
    const outlook = new Outlook(0);
    looks(outlook, blocked(null), 3_000, () => outlook.heardNews());
    outlook.heardNews();
    expect(outlook.mayAsk(3_001)).toBe(false);
    outlook.learn({ ...GOT, blockedBy: "gpu" }, 1, false, 3_001);
    outlook.heardNews();
    expect(outlook.mayAsk(3_002)).toBe(true);
  });

  it("looks at once after a long silence, however much was in vain before", () => {
    const outlook = new Outlook(0);
    looks(outlook, blocked(null), 3_000, () => outlook.heardNews());
    outlook.learn(blocked(null), 1, false, 3_000);
    outlook.heardNews();
    expect(outlook.mayAsk(9_000)).toBe(true);
  });

  it("does not lose news that came while a claim was under way, nor tells old from new", () => {
    const outlook = new Outlook(0);
    outlook.learn(blocked(60_000), 1, false, 0);
    outlook.heardNews();
    expect(outlook.mayAsk(10)).toBe(true);
    outlook.looks(10);
    outlook.learn(blocked(60_000), 1, false, 12);
    // What it has looked at is no news any more.
    expect(outlook.mayAsk(1_000)).toBe(false);
    outlook.heardNews();
    expect(outlook.mayAsk(1_001)).toBe(true);
    outlook.looks(1_001);
    outlook.heardNews();
    outlook.learn(blocked(60_000), 1, false, 1_003);
    expect(outlook.mayAsk(1_004)).toBe(false);
    expect(outlook.nextAt).toBe(1_051);
    expect(outlook.mayAsk(1_051)).toBe(true);
  });

  it("sleeps, and does not spin, after a look that came to nothing", () => {
    const outlook = new Outlook(0);
    outlook.learn(blocked(60_000), 1, false, 0);
    for (const now of [100, 200]) {
      outlook.heardNews();
      expect(outlook.mayAsk(now)).toBe(true);
      outlook.looks(now);
      if (now === 100) outlook.learn(blocked(60_000), 1, false, now);
    }
    // The storage did not answer: whatever there was to hear may have been missed.
    outlook.heardNews();
    expect(outlook.mayAsk(201)).toBe(false);
    expect(outlook.nextAt).toBe(225);
  });

  it("looks every 30 s by itself when only a release can help", () => {
    const outlook = new Outlook(0);
    expect(looks(outlook, blocked(null), 100_000, () => {})).toEqual([0, 30_000, 60_000, 90_000]);
  });

  it("listens to everything while there is something that it could take", () => {
    const outlook = new Outlook(0);
    outlook.learn({ ...blocked(5_000), more: true }, 0, false, 0);
    expect(outlook.mayAsk(1)).toBe(true);
    outlook.learn(NOTHING, 1, false, 1);
    expect(outlook.mayAsk(2)).toBe(true);
  });

  it("tells of a limit once, and again now and then if it lets something through; of another one as soon as that can be", () => {
    const outlook = new Outlook(0);
    const told = (claim: Claim, now: number) => outlook.learn(claim, 1, false, now);
    expect(told(blocked(100, "a"), 0)).toBe(true);
    expect(told(blocked(100, "a"), 5_000)).toBe(false);
    expect(told(blocked(100, "b"), 5_001)).toBe(true);
    expect(told(blocked(100, "a"), 5_002)).toBe(false);
    expect(told({ ...GOT, blockedBy: "a" }, 5_003)).toBe(true);
    for (let now = 5_004; now < 6_253; now++) expect(told({ ...GOT, blockedBy: "a" }, now)).toBe(false);
    expect(told({ ...GOT, blockedBy: "a" }, 6_253)).toBe(true);
    expect(told(NOTHING, 9_000)).toBe(false);
    expect(told(blocked(100, "a"), 9_001)).toBe(true);
    expect(told(blocked(100, "a"), 19_001)).toBe(false);
  });
});
