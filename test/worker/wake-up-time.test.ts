import { describe, expect, it } from "vitest";
import type { JobRecord } from "../../src/core/job.ts";
import type { Claim } from "../../src/storage/job-storage.ts";
import { WakeUpTime } from "../../src/worker/wake-up-time.ts";

const NOTHING: Claim = { jobs: [], stale: [], more: false, nextInMs: null, blockedBy: null };
const blocked = (nextInMs: number | null, blockedBy = "gpu"): Claim => ({ ...NOTHING, nextInMs, blockedBy });
const GOT: Claim = { ...NOTHING, jobs: [{} as JobRecord] };

/** A worker that claims as soon as it may, until `until`; the answer is always the same. Returns when it claimed. */
function claimsOf(wakeUpTime: WakeUpTime, claim: Claim, until: number, wake: (now: number) => void): number[] {
  const at: number[] = [];
  for (let now = 0; now < until; now++) {
    wake(now);
    if (!wakeUpTime.mayClaim(now)) continue;
    wakeUpTime.claims(now);
    at.push(now);
    wakeUpTime.answered(claim, 1, false, now);
  }
  return at;
}

describe("the wake-up time of a worker", () => {
  it("a blocked worker sleeps until the computed wake-up time, whatever else happens in the queue", () => {
    const wakeUpTime = new WakeUpTime(0);
    wakeUpTime.answered(blocked(700), 1, false, 0);
    expect(wakeUpTime.nextAt).toBe(700);
    expect([1, 350, 699].map((now) => wakeUpTime.mayClaim(now))).toEqual([false, false, false]);
    expect(wakeUpTime.mayClaim(700)).toBe(true);
  });

  it("a blocked worker claims at once after a wake-up", () => {
    const wakeUpTime = new WakeUpTime(0);
    wakeUpTime.answered(blocked(60_000), 1, false, 0);
    wakeUpTime.wakeUp();
    expect(wakeUpTime.mayClaim(10)).toBe(true);
  });

  it("claims after wake-ups that get nothing back off: at once, 25 ms later, twice that, and so on up to 1,250", () => {
    const at = claimsOf(new WakeUpTime(0), blocked(null), 10_000, () => {});
    expect(at).toEqual([0]);
    const wakeUpTime = new WakeUpTime(0);
    const eager = claimsOf(wakeUpTime, blocked(null), 6_000, () => wakeUpTime.wakeUp());
    // The first claim is caused by no wake-up.
    expect(eager).toEqual([0, 1, 26, 76, 176, 376, 776, 1_576, 2_826, 4_076, 5_326]);
  });

  it("a worker that waits among others backs off for an eighth of a second at most, so that it is there at their turns", () => {
    const wakeUpTime = new WakeUpTime(0);
    const among = { ...blocked(null), othersWaitMs: 1 };
    const at = claimsOf(wakeUpTime, among, 1_000, () => wakeUpTime.wakeUp());
    expect(at).toEqual([0, 1, 26, 76, 176, 301, 426, 551, 676, 801, 926]);
  });

  it("the back-off ends once a claim got something", () => {
    const wakeUpTime = new WakeUpTime(0);
    claimsOf(wakeUpTime, blocked(null), 3_000, () => wakeUpTime.wakeUp());
    wakeUpTime.wakeUp();
    expect(wakeUpTime.mayClaim(3_001)).toBe(false);
    wakeUpTime.answered({ ...GOT, blockedBy: "gpu" }, 1, false, 3_001);
    wakeUpTime.wakeUp();
    expect(wakeUpTime.mayClaim(3_002)).toBe(true);
  });

  it("a worker claims at once after a long silence, however many claims got nothing before", () => {
    const wakeUpTime = new WakeUpTime(0);
    claimsOf(wakeUpTime, blocked(null), 3_000, () => wakeUpTime.wakeUp());
    wakeUpTime.answered(blocked(null), 1, false, 3_000);
    wakeUpTime.wakeUp();
    expect(wakeUpTime.mayClaim(9_000)).toBe(true);
  });

  it("a wake-up during a claim is not lost, and one before it causes no second claim", () => {
    const wakeUpTime = new WakeUpTime(0);
    wakeUpTime.answered(blocked(60_000), 1, false, 0);
    wakeUpTime.wakeUp();
    expect(wakeUpTime.mayClaim(10)).toBe(true);
    wakeUpTime.claims(10);
    wakeUpTime.answered(blocked(60_000), 1, false, 12);
    // The claim has used up the wake-up.
    expect(wakeUpTime.mayClaim(1_000)).toBe(false);
    wakeUpTime.wakeUp();
    expect(wakeUpTime.mayClaim(1_001)).toBe(true);
    wakeUpTime.claims(1_001);
    wakeUpTime.wakeUp();
    wakeUpTime.answered(blocked(60_000), 1, false, 1_003);
    expect(wakeUpTime.mayClaim(1_004)).toBe(false);
    expect(wakeUpTime.nextAt).toBe(1_051);
    expect(wakeUpTime.mayClaim(1_051)).toBe(true);
  });

  it("a worker sleeps, and does not spin, after a claim that failed", () => {
    const wakeUpTime = new WakeUpTime(0);
    wakeUpTime.answered(blocked(60_000), 1, false, 0);
    for (const now of [100, 200]) {
      wakeUpTime.wakeUp();
      expect(wakeUpTime.mayClaim(now)).toBe(true);
      wakeUpTime.claims(now);
      if (now === 100) wakeUpTime.answered(blocked(60_000), 1, false, now);
    }
    // The storage did not answer: a wake-up may have been missed.
    wakeUpTime.wakeUp();
    expect(wakeUpTime.mayClaim(201)).toBe(false);
    expect(wakeUpTime.nextAt).toBe(225);
  });

  it("a worker leaves the slot of a job to others that have waited for a quarter of a second, and claims 20 ms later whatever happens", () => {
    const wakeUpTime = new WakeUpTime(0);
    const job = (token: number) => ({ id: String(token), token }) as JobRecord;
    const any = Number.POSITIVE_INFINITY;
    wakeUpTime.answered({ ...NOTHING, jobs: [job(1)], blockedBy: "gpu", othersWaitMs: 1 }, 1, false, 1_000);
    wakeUpTime.answered({ ...NOTHING, jobs: [job(2), job(3)], blockedBy: "gpu", othersWaitMs: 250 }, 1, false, 1_010);
    wakeUpTime.answered({ ...NOTHING, jobs: [job(4), job(5)] }, 1, false, 1_020);
    expect(wakeUpTime.mostAfter([], 5_000)).toBe(any);
    expect(wakeUpTime.mostAfter([job(4)], 5_000)).toBe(any);
    // Others have waited for 249 ms.
    expect(wakeUpTime.mostAfter([job(1)], 1_248)).toBe(any);
    expect(wakeUpTime.mostAfter([job(2)], 1_248)).toBe(0);
    wakeUpTime.handedOver(1_250);
    expect(wakeUpTime.nextAt).toBe(1_270);
    wakeUpTime.wakeUp();
    expect([wakeUpTime.mayClaim(1_269), wakeUpTime.nextAt]).toEqual([false, 1_270]);
    // Jobs that end meanwhile are followed by others in their own slots, and take nothing of that.
    expect(wakeUpTime.mostAfter([job(3)], 1_255)).toBe(1);
    expect(wakeUpTime.mostAfter([job(5)], 1_260)).toBe(0);
    wakeUpTime.handedOver(1_260);
    expect(wakeUpTime.nextAt).toBe(1_270);
    expect(wakeUpTime.mayClaim(1_270)).toBe(true);
    expect(wakeUpTime.mostAfter([job(6)], 1_270)).toBe(any);
  });

  it.each([
    [0, 20],
    [1_000, 10],
    [3_000, 5],
    [9_000, 2],
    [19_000, 1],
  ])(
    "of workers that wait for slots, one that started something %i ms ago claims %i ms after a wake-up",
    (ago, after) => {
      const wakeUpTime = new WakeUpTime(0);
      wakeUpTime.answered(GOT, 1, false, 0);
      wakeUpTime.answered({ ...blocked(null), othersWaitMs: 1 }, 1, false, ago);
      wakeUpTime.wakeUp();
      expect(wakeUpTime.mayClaim(ago)).toBe(after === 0);
      // Other wake-ups do not put it off.
      for (let i = 1; i < after; i++) {
        wakeUpTime.wakeUp();
        expect(wakeUpTime.mayClaim(ago + i)).toBe(false);
      }
      wakeUpTime.wakeUp();
      expect(wakeUpTime.mayClaim(ago + after)).toBe(true);
    },
  );

  it("a worker that waits for slots alone claims at once after a wake-up, whenever it started something", () => {
    const wakeUpTime = new WakeUpTime(0);
    wakeUpTime.answered(GOT, 1, false, 0);
    wakeUpTime.answered(blocked(null), 1, false, 10);
    wakeUpTime.wakeUp();
    expect(wakeUpTime.mayClaim(11)).toBe(true);
  });

  it("a worker that claimed with a job that ended, and not for a wake-up, is not late after that", () => {
    for (const yielded of [false, true]) {
      const wakeUpTime = new WakeUpTime(0);
      wakeUpTime.answered(GOT, 1, false, 0);
      wakeUpTime.answered({ ...blocked(null), othersWaitMs: 1 }, 1, false, 0);
      wakeUpTime.wakeUp();
      if (yielded) expect(wakeUpTime.mayClaim(0)).toBe(false);
      wakeUpTime.claims(1);
      wakeUpTime.answered(blocked(5), 1, false, 1);
      expect(wakeUpTime.mayClaim(6)).toBe(true);
    }
  });

  it("a worker that waits for a release claims every 30 s", () => {
    const wakeUpTime = new WakeUpTime(0);
    expect(claimsOf(wakeUpTime, blocked(null), 100_000, () => {})).toEqual([0, 30_000, 60_000, 90_000]);
  });

  it("a worker that no limit blocks may claim at any time", () => {
    const wakeUpTime = new WakeUpTime(0);
    wakeUpTime.answered({ ...blocked(5_000), more: true }, 0, false, 0);
    expect(wakeUpTime.mayClaim(1)).toBe(true);
    wakeUpTime.answered(NOTHING, 1, false, 1);
    expect(wakeUpTime.mayClaim(2)).toBe(true);
  });
});
