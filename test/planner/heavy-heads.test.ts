import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { NEVER, WHEN_RELEASED } from "../../src/limits/wait.ts";
import { type Asking, type HeavyHead, isOver, untilGiven, waitForHeads } from "../../src/planner/heavy-heads.ts";

const GRACE_MS = 100;
const LATER = Number.POSITIVE_INFINITY;

const heads = fc.uniqueArray(
  fc.record({
    id: fc.integer({ min: 1, max: 20 }),
    priority: fc.integer({ min: -1, max: 1 }),
    since: fc.integer({ min: 0, max: 3 }),
    until: fc.oneof(fc.integer({ min: 0, max: 1_000 }), fc.constant(WHEN_RELEASED)),
  }),
  { selector: ({ id }) => id, maxLength: 6 },
);
const instant = fc.integer({ min: 0, max: 1_200 });

/** By priority, then by who was refused first. */
const inOrder = (a: Asking, b: Asking) => b.priority - a.priority || a.since - b.since || a.id - b.id;

describe("heavy heads", () => {
  it("a heavy head waits for those that come before it, and for no others", () => {
    fc.assert(
      fc.property(heads, instant, (all, now) => {
        const sorted = all.toSorted(inOrder);
        for (const [place, head] of sorted.entries()) {
          const before = sorted.slice(0, place).map(({ until }) => (until > now ? until : until + GRACE_MS) - now);
          expect(waitForHeads(all, head, now)).toBe(Math.max(0, ...before));
        }
      }),
    );
  });

  it("a job that no key has refused for its weight waits for all heads of its priority and of higher ones", () => {
    fc.assert(
      fc.property(heads, fc.integer({ min: -2, max: 2 }), instant, (all, priority, now) => {
        const before = all.filter((head) => head.priority >= priority);
        const waits = before.map(({ until }) => (until > now ? until : until + GRACE_MS) - now);
        expect(waitForHeads(all, { id: 0, priority, since: LATER }, now)).toBe(Math.max(0, ...waits));
        // A take outside of jobs comes after all of them.
        const last = { id: 0, priority: Number.NEGATIVE_INFINITY, since: LATER };
        expect(waitForHeads(all, last, now) > 0).toBe(all.some((head) => !isOver(head, now)));
      }),
    );
  });

  it("a key is reserved until the head fits, and a grace longer, unless the claim starts the head beside the job", () => {
    const head: HeavyHead = { id: 1, priority: 0, since: 1, until: 500 };
    const light = { id: 2, priority: 0, since: LATER };
    const waits = [0, 499, 500, 599, 600, 700].map((now) => waitForHeads([head], light, now));
    expect(waits).toEqual([500, 1, 100, 1, 0, 0]);
    const claims = (mayStart: boolean, isDrained: boolean) => {
      const own = { mayStart: () => mayStart, isDrained: () => isDrained };
      return [0, 499, 500, 599, 600].map((now) => waitForHeads([head], light, now, own));
    };
    expect(claims(true, false)).toEqual([500, 1, 0, 0, 0]);
    for (const mayStart of [true, false]) expect(claims(mayStart, true)).toEqual([500, 1, 100, 1, 0]);
    expect([499, 599, 600].map((now) => isOver(head, now))).toEqual([false, false, true]);
  });

  it("what is given back is judged by whether the head fits into it", () => {
    const head: HeavyHead = { id: 1, priority: 0, since: 1, until: WHEN_RELEASED };
    expect(untilGiven(head, 300, 0, 350), "it fits since then").toBe(300);
    expect(untilGiven(head, 300, NEVER, 350), "it ends when a claim looks at it").toBe(300);
    expect(untilGiven(head, 300, WHEN_RELEASED, 350), "it waits for more").toBe(WHEN_RELEASED);
    expect(untilGiven(head, 300, 70, 350), "it waits for an instant").toBe(420);
    expect(untilGiven({ ...head, until: 200 }, 300, 0, 350), "it fitted before").toBe(200);
  });

  it("no job passes a heavy head that comes before it, however slots come back", () => {
    const SLOTS = 10;
    const job = fc.record({
      weight: fc.integer({ min: 1, max: SLOTS }),
      priority: fc.integer({ min: 0, max: 1 }),
      runs: fc.integer({ min: 1, max: 9 }),
    });
    // Every millisecond one lane is claimed by a worker of its own.
    const picks = fc.array(fc.nat({ max: 99 }), { minLength: 200, maxLength: 200 });
    fc.assert(
      fc.property(fc.array(fc.array(job, { minLength: 1 }), { minLength: 2, maxLength: 6 }), picks, (lanes, order) => {
        const waiting = lanes.map((lane) => [...lane]);
        const known = new Map<number, HeavyHead>();
        const running: { readonly until: number; readonly weight: number }[] = [];
        const used = (now: number) => running.reduce((sum, { until, weight }) => sum + (until > now ? weight : 0), 0);
        for (const [now, pick] of order.entries()) {
          const lane = pick % waiting.length;
          const head = waiting[lane]![0];
          if (head === undefined) continue;
          for (const [id, one] of known) {
            const { weight } = waiting[id - 1]![0]!;
            const fits = used(now) + weight <= SLOTS ? 0 : WHEN_RELEASED;
            known.set(id, { ...one, until: untilGiven(one, now, fits, now) });
          }
          const { priority, weight, runs } = head;
          const asking = known.get(lane + 1) ?? { id: lane + 1, priority, since: LATER };
          if (used(now) + weight > SLOTS) {
            known.set(lane + 1, { ...asking, since: Math.min(asking.since, now), until: WHEN_RELEASED });
            continue;
          }
          if (waitForHeads(known.values(), asking, now) > 0) continue;
          const before = [...known.values()].filter((one) => one.id !== lane + 1 && inOrder(one, asking) < 0);
          expect(before.filter((one) => !isOver(one, now))).toEqual([]);
          known.delete(lane + 1);
          waiting[lane]!.shift();
          running.push({ until: now + runs, weight });
        }
      }),
    );
  });
});
