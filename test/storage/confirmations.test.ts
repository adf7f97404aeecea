import { describe, expect, it } from "vitest";
import {
  closeConfirmations,
  Confirmations,
  confirmationsOf,
  rateConfirmationsOf,
} from "../../src/storage/confirmations.ts";
import type { Confirmation } from "../../src/storage/grants.ts";
import { MemoryStorage } from "../../src/storages/memory/job-storage.ts";
import { FakeClock } from "../../src/testing/index.ts";

function setUp(answer: (call: number) => Promise<void> = async () => {}) {
  const clock = new FakeClock();
  const sent: { readonly at: number; readonly grants: readonly string[] }[] = [];
  const confirmations = new Confirmations(clock, (items: readonly Confirmation[]) => {
    sent.push({ at: clock.now(), grants: items.map(({ grant }) => grant) });
    return answer(sent.length);
  });
  return { clock, sent, confirmations };
}

const item = (grant: string): Confirmation => ({ grant, calledInMs: 1 });

describe("confirmations", () => {
  it("confirmations are sent together when the first is due", async () => {
    const { clock, sent, confirmations } = setUp();
    confirmations.add(item("a"), 500);
    await clock.advance(100);
    confirmations.add(item("b"), 50);
    confirmations.add(item("c"), 1_000);
    await clock.advance(2_000);
    expect(sent).toEqual([{ at: 150, grants: ["a", "b", "c"] }]);
    expect(clock.timers).toBe(0);
  });

  it("confirmations that a step carried are not sent again", async () => {
    const { clock, sent, confirmations } = setUp();
    confirmations.add(item("a"), 500);
    const carried = () => confirmations.carriedBy(async (items) => items);
    expect(await carried()).toEqual([item("a")]);
    expect(await carried()).toEqual([]);
    await clock.advance(2_000);
    expect(sent).toEqual([]);
    expect(clock.timers).toBe(0);
  });

  it("confirmations are sent when they are due though a step carried earlier ones", async () => {
    const { clock, sent, confirmations } = setUp();
    confirmations.add(item("a"), 500);
    await clock.advance(100);
    await confirmations.carriedBy(async () => {});
    await clock.advance(100);
    confirmations.add(item("b"), 500);
    await clock.advance(499);
    expect(sent).toEqual([]);
    await clock.advance(1);
    expect(sent).toEqual([{ at: 700, grants: ["b"] }]);
    expect(clock.timers).toBe(0);
  });

  it("confirmations are sent by a call of their own when the step that carried them failed", async () => {
    const { clock, sent, confirmations } = setUp();
    confirmations.add(item("a"), 500);
    const fails = async () => {
      confirmations.add(item("b"), 500);
      throw new Error("down");
    };
    await expect(confirmations.carriedBy(fails)).rejects.toThrow("down");
    await clock.advance(2_000);
    expect(sent).toEqual([{ at: 50, grants: ["a", "b"] }]);
  });

  it("confirmations are tried again after a failure, ever less often, and given up in the end", async () => {
    const { clock, sent, confirmations } = setUp(() => Promise.reject(new Error("down")));
    confirmations.add(item("a"), 0);
    await clock.advance(60_000);
    expect(sent.map(({ at }) => at)).toEqual([0, 50, 150, 350]);
    expect(clock.timers).toBe(0);
  });

  it("confirmations are not given up for failures that are not in a row", async () => {
    const { clock, sent, confirmations } = setUp(async (call) => {
      if (call < 5) throw new Error("down");
    });
    for (const name of ["a", "b", "c"]) {
      confirmations.add(item(name), 0);
      await clock.advance(0);
      expect(await confirmations.carriedBy(async (items) => items)).toEqual([item(name)]);
    }
    confirmations.add(item("d"), 0);
    await clock.advance(1_000);
    expect(sent.map(({ grants }) => grants)).toEqual([["a"], ["b"], ["c"], ["d"], ["d"]]);
  });

  it("confirmations do not wait for ever for a storage that does not answer", async () => {
    const { clock, sent, confirmations } = setUp((call) => (call === 1 ? new Promise(() => {}) : Promise.resolve()));
    confirmations.add(item("a"), 0);
    await clock.advance(1_000);
    confirmations.add(item("b"), 0);
    await clock.advance(10_000);
    expect(sent.map(({ grants }) => grants)).toEqual([["a"], ["a", "b"]]);
    expect(clock.timers).toBe(0);
  });

  it("confirmations are sent before their storage closes, and leave no timer", async () => {
    const { clock, sent, confirmations } = setUp(() => Promise.reject(new Error("closed")));
    confirmations.add(item("a"), 500);
    await confirmations.close();
    confirmations.add(item("b"), 500);
    expect(sent).toEqual([{ at: 0, grants: ["a"] }]);
    expect(clock.timers).toBe(0);
    expect(confirmations.close()).toBeUndefined();
  });

  it("close() waits for all confirmations, also those that are being sent", async () => {
    const answers = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const { clock, sent, confirmations } = setUp((call) => answers[call - 1]!.promise);
    confirmations.add(item("a"), 0);
    await clock.advance(0);
    confirmations.add(item("b"), 0);
    await clock.advance(0);
    let closed = false;
    const closing = confirmations.close()!.then(() => (closed = true));
    answers[0]!.resolve();
    await clock.advance(0);
    expect([sent.map(({ grants }) => grants), closed]).toEqual([[["a"], ["b"]], false]);
    answers[1]!.resolve();
    await closing;
  });

  it("all users of a storage in one process share its confirmations", () => {
    const clock = new FakeClock();
    const storage = new MemoryStorage({ clock });
    expect(confirmationsOf(storage, clock)).toBe(confirmationsOf(storage, clock));
    expect(confirmationsOf(new MemoryStorage({ clock }), clock)).not.toBe(confirmationsOf(storage, clock));
  });

  it("confirmations of all limiters over a storage of rates are sent together, one call for each name", async () => {
    const clock = new FakeClock();
    const sent: unknown[] = [];
    const storage = { confirmExecution: async (...call: unknown[]) => void sent.push([clock.now(), ...call]) };
    const confirmations = rateConfirmationsOf(storage, clock);
    expect(rateConfirmationsOf(storage, clock)).toBe(confirmations);
    confirmations.add({ name: "a", token: "1", calledInMs: 1 }, 500);
    confirmations.add({ name: "b", token: "2", calledInMs: 2 }, 100);
    confirmations.add({ name: "a", token: "3", calledInMs: 3 }, 500);
    await clock.advance(1_000);
    const both = [
      { token: "1", calledInMs: 1 },
      { token: "3", calledInMs: 3 },
    ];
    expect(sent).toEqual([
      [100, "a", both],
      [100, "b", [{ token: "2", calledInMs: 2 }]],
    ]);
    confirmations.add({ name: "b", token: "4", calledInMs: 4 }, 500);
    await closeConfirmations(storage);
    expect(sent.at(-1)).toEqual([1_000, "b", [{ token: "4", calledInMs: 4 }]]);
    expect(clock.timers).toBe(0);
  });
});
