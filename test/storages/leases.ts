import fc from "fast-check";
import { expect, it } from "vitest";
import type { Lease, Outcome } from "../../src/storage/job-storage.ts";
import type { OpenedStorage } from "../../src/testing/index.ts";
import { anything, newJob } from "./jobs.ts";

const LEASE_MS = 100;

type Act =
  | { readonly kind: "take"; readonly max: number }
  /** A present or former holder of the lease gives it back: once, twice, or long after. */
  | { readonly kind: "release"; readonly pick: number; readonly how: number; readonly twice: boolean }
  | { readonly kind: "renew"; readonly pick: number }
  | { readonly kind: "wait"; readonly ms: number }
  | { readonly kind: "sweep" };

const acts = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.record({ kind: fc.constant("take" as const), max: fc.integer({ min: 1, max: 4 }) }) },
    {
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constant("release" as const),
        pick: fc.nat({ max: 40 }),
        how: fc.nat({ max: 2 }),
        twice: fc.boolean(),
      }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("renew" as const), pick: fc.nat({ max: 40 }) }) },
    {
      weight: 2,
      arbitrary: fc.record({ kind: fc.constant("wait" as const), ms: fc.constantFrom(1, 50, 99, 100, 250) }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("sweep" as const) }) },
  ),
  { minLength: 4, maxLength: 24 },
) satisfies fc.Arbitrary<Act[]>;

const ways: readonly ((lease: Lease) => Outcome)[] = [
  (lease) => ({ ...lease, to: "back", inMs: 0, held: false, error: null, hold: null, unstarted: false }),
  (lease) => ({ ...lease, to: "retry", inMs: 0, error: { name: "Error", message: "it broke" } }),
  (lease) => ({ ...lease, to: "completed", result: null }),
];

/**
 * Jobs are slots here: whatever is released twice, too late, by a worker that had lost it long ago, or not at all, there are
 * never more holders than slots, never two of one slot, and every lease ends at most once.
 */
export function leaseProperty(name: string, open: () => Promise<OpenedStorage>, numRuns: number): void {
  it(`${name}: leases are never doubled nor lost (${numRuns} random sequences)`, { timeout: 120_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 3 }), acts, async (slots, sequence) => {
        const { storage, clock, close } = await open();
        const all: Lease[] = [];
        /** Leases that are valid, by the answers to their holders. */
        const holding = new Map<number, { id: string; until: number }>();
        const ended = new Set<number>();
        const completed = new Set<string>();
        const alive = () => [...holding.values()].filter(({ until }) => until > clock.wall());
        await storage.add(
          Array.from({ length: slots }, (_, i) => newJob({ id: `s${i}`, maxAttempts: 1e6, keepFor: 1e9 })),
        );

        const release = async (lease: Lease, how: number) => {
          const [stale] = await storage.settle([ways[how]!(lease)]);
          if (stale !== undefined) return;
          expect(ended.has(lease.token)).toBe(false);
          ended.add(lease.token);
          holding.delete(lease.token);
          if (how === 2) completed.add(lease.id);
        };

        for (const act of sequence) {
          const lease = "pick" in act && all.length > 0 ? all[act.pick % all.length] : undefined;
          if (act.kind === "take") {
            const { jobs } = await storage.claim(anything({ max: act.max, leaseMs: LEASE_MS }));
            for (const { id, token, leaseUntil } of jobs) {
              expect(completed.has(id)).toBe(false);
              all.push({ id, token });
              holding.set(token, { id, until: leaseUntil! });
            }
          } else if (act.kind === "release" && lease !== undefined) {
            await release(lease, act.how);
            if (act.twice) await release(lease, (act.how + 1) % 3);
          } else if (act.kind === "renew" && lease !== undefined) {
            const { lost } = await storage.heartbeat([lease], LEASE_MS);
            if (lost.length === 0) holding.set(lease.token, { id: lease.id, until: clock.wall() + LEASE_MS });
          } else if (act.kind === "wait") {
            await clock.advance(act.ms);
          } else if (act.kind === "sweep") {
            await storage.sweep();
          }
          const ids = alive().map(({ id }) => id);
          expect(ids.length).toBeLessThanOrEqual(slots);
          expect(new Set(ids).size).toBe(ids.length);
        }

        // Crashed workers release their jobs: after a lease and a sweep every slot that was not used up is available.
        await clock.advance(LEASE_MS);
        await storage.sweep();
        const { jobs } = await storage.claim(anything());
        expect(jobs.length).toBe(slots - completed.size);
        await storage.close();
        await close?.();
      }),
      { numRuns },
    );
  });
}
