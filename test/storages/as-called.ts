import fc from "fast-check";
import { expect, test } from "vitest";
import type { Claim, JobStorage, Outcome } from "../../src/storage/job-storage.ts";
import type { FakeClock } from "../../src/testing/index.ts";
import { rule, window } from "../../src/testing/suite/limit-words.ts";
import { worstWindow } from "../limiter/support.ts";
import { newJob } from "./jobs.ts";

/** What becomes of one claim between its sending and the confirmation of its calls. */
interface Fate {
  /** How many it asks for. */
  readonly max: number;
  /** How long after the claim before it is sent. */
  readonly gap: number;
  /** How long its request, its answer and the way from there to the calls take; each call is checked before it is made. */
  readonly request: number;
  readonly answer: number;
  readonly calling: number;
  /** How long after its last call it is confirmed; "lost": never; "crash": neither calls nor confirmation, "late": twice. */
  readonly confirming: number | "lost" | "crash" | "twice";
  /** The confirmation goes along with a claim. */
  readonly carried: boolean;
}

const TTL = 200;
const WINDOW = 100;
const MAX = 4;
const EVERY = 12;
const GROUP_MAX = 2;

const delay = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 0, max: 8 }) },
  { weight: 2, arbitrary: fc.integer({ min: 0, max: 90 }) },
  { weight: 1, arbitrary: fc.integer({ min: 90, max: 300 }) },
);

const fate: fc.Arbitrary<Fate> = fc.record({
  max: fc.integer({ min: 1, max: 5 }),
  gap: fc.integer({ min: 0, max: 40 }),
  request: delay,
  answer: delay,
  calling: delay,
  confirming: fc.oneof(
    { weight: 8, arbitrary: delay },
    { weight: 1, arbitrary: fc.constantFrom("lost", "crash", "twice") },
  ),
  carried: fc.boolean(),
});

const request = { queue: "q", worker: "w", types: null, leaseMs: 3_600_000, limits: [] } as const;

interface Called {
  readonly at: number;
  readonly group: string | null;
}

/** Plays all fates on one clock, each at its own time, and returns when handlers were called. */
async function play(storage: JobStorage, clock: FakeClock, fates: readonly Fate[]): Promise<Called[]> {
  const called: Called[] = [];
  const later: { readonly at: number; readonly run: () => Promise<void> }[] = [];
  const after = (ms: number, run: () => Promise<void>) => later.push({ at: clock.now() + ms, run });
  let carried: { grant: string; calledInMs: number }[] = [];

  const confirm = async (fateOf: Fate, grant: string, calledInMs: number) => {
    if (fateOf.carried) carried.push({ grant, calledInMs });
    else await storage.confirm([{ grant, calledInMs }]);
    if (fateOf.confirming === "twice") after(50, () => storage.confirm([{ grant, calledInMs }]));
  };
  const call = async (fateOf: Fate, { jobs, grant }: Claim, sentAt: number) => {
    if (fateOf.confirming === "crash") return;
    const back: Outcome[] = [];
    for (const { id, token, group } of jobs) {
      // The check and the call are one step.
      if (grant === undefined || clock.now() - sentAt <= TTL) called.push({ at: clock.now(), group });
      else back.push({ id, token, to: "back", inMs: 0, held: false, error: null, hold: null, unstarted: true });
    }
    if (back.length > 0) await storage.settle(back);
    const calledInMs = clock.now() - sentAt;
    if (grant === undefined || back.length > 0 || fateOf.confirming === "lost") return;
    after(typeof fateOf.confirming === "number" ? fateOf.confirming : 0, () => confirm(fateOf, grant.id, calledInMs));
  };
  const send = (fateOf: Fate) => {
    const sentAt = clock.now();
    after(fateOf.request, async () => {
      const confirming = carried;
      carried = [];
      const claim = await storage.claim({
        ...request,
        max: fateOf.max,
        settle: [],
        grantTtlMs: TTL,
        confirm: confirming,
      });
      after(fateOf.answer + fateOf.calling, () => call(fateOf, claim, sentAt));
    });
  };

  let sendAt = 0;
  for (const one of fates) {
    sendAt += one.gap;
    later.push({ at: sendAt, run: async () => send(one) });
  }
  while (later.length > 0) {
    const next = later.reduce((first, one) => (one.at < first.at ? one : first));
    later.splice(later.indexOf(next), 1);
    if (next.at > clock.now()) await clock.advance(next.at - clock.now());
    await next.run();
  }
  return called;
}

const LIMITS = [
  rule("window", window(MAX, WINDOW)),
  rule("group", window(GROUP_MAX, WINDOW), { byGroup: true, types: ["grouped"] }),
  rule("spaced", { everyMs: EVERY }, { types: ["spaced"] }),
];

/**
 * However long requests, answers, calls and confirmations take, whichever of them is lost and whichever process dies in between: no
 * window is exceeded by the instants of the calls. When all is done, the limit is available again.
 */
export function asCalledTest(
  name: string,
  open: () => Promise<{
    readonly storage: JobStorage;
    readonly clock: FakeClock;
    readonly close?: (() => Promise<void>) | undefined;
  }>,
  numRuns: number,
): void {
  for (const type of ["plain", "grouped", "spaced"]) {
    test(`${name} never exceeds its window as called, whatever happens between a grant and its call (${type})`, async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(fate, { minLength: 1, maxLength: 40 }), async (fates) => {
          const { storage, clock, close } = await open();
          try {
            await storage.setup();
            await storage.limits.define(LIMITS);
            const group = (i: number) => (type === "grouped" ? ["a", "b", "c"][i % 3]! : null);
            await storage.add(Array.from({ length: 250 }, (_, i) => newJob({ id: `job-${i}`, type, group: group(i) })));
            const called = await play(storage, clock, fates);
            const all = called.map(({ at }) => at);
            expect(worstWindow(all, WINDOW)).toBeLessThanOrEqual(MAX);
            if (type === "spaced") expect(worstWindow(all, EVERY)).toBeLessThanOrEqual(1);
            for (const one of ["a", "b", "c"]) {
              const own = called.filter((call) => call.group === one).map(({ at }) => at);
              expect(worstWindow(own, WINDOW)).toBeLessThanOrEqual(GROUP_MAX);
            }
            await clock.advance(TTL + WINDOW);
            const { jobs } = await storage.claim({ ...request, max: 10, settle: [] });
            expect(jobs).toHaveLength(type === "spaced" ? 1 : MAX);
          } finally {
            await storage.close();
            await close?.();
          }
        }),
        { numRuns },
      );
    });
  }
}
