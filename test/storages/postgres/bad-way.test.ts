import { describe, expect, onTestFinished, test } from "vitest";
import { Proxy } from "../../../chaos/conductor/proxy.ts";
import { Seeded } from "../../../chaos/conductor/seeded.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { after, completed, office, until } from "./office.ts";
import { once, sharedServer, temporaryDatabase } from "./server.ts";
import { rule } from "./support.ts";

/** A proxy in front of a database of its own on the shared server, whose connections can be made worse. */
async function throughProxy(
  seed = 1,
): Promise<{ readonly proxy: Proxy; readonly url: string; readonly direct: string }> {
  const direct = await temporaryDatabase();
  const random = new Seeded(seed);
  const proxy = await Proxy.open(Number(new URL(await sharedServer()).port), () => random.next());
  onTestFinished(() => proxy.close());
  const url = new URL(direct);
  url.port = String(proxy.port);
  return { proxy, url: url.href, direct };
}

describe("a bad connection to the server", () => {
  test("a listening connection that goes silent is replaced, and jobs start within seconds meanwhile", async () => {
    const { proxy, url, direct } = await throughProxy();
    const { queue, runs, close } = office(direct, url);
    await queue.add("t", {});
    await until(() => runs.size === 1, 5_000, "the first job runs");
    const listening = () => [...proxy.passages].filter(({ said }) => /\bLISTEN\b/.test(said));
    await until(() => listening().length > 0, 5_000, "a connection listens");
    const deaf = listening();
    for (const passage of deaf) passage.blackhole();
    // Subscribers look every five seconds; that it is never later is for listener-heartbeats.test.ts, which does not depend on the machine.
    for (let i = 2; i <= 4; i++) {
      await queue.add("t", {});
      await until(() => runs.size === i, 8_000, `job ${i} runs although no notification arrives`);
    }
    await until(() => listening().some((passage) => !deaf.includes(passage)), 16_000, "another connection listens");
    // The wake-up came by a notification, and not by the regular look.
    const lags: number[] = [];
    for (let i = 5; i < 10; i++) {
      await queue.add("t", {});
      lags.push(await until(() => runs.size === i, 2_000, `job ${i} runs`));
    }
    expect(lags.toSorted((a, b) => a - b)[2]).toBeLessThan(300);
    await close();
  });

  test("connections that are reset again and again lose no job, run none twice and exceed no window", async () => {
    const { proxy, url, direct } = await throughProxy(7);
    const chance = new Seeded(11);
    const { queue, runs, storages, close } = office(url, url, { takesMs: 5 });
    await storages[0].limits.define([rule("lots", { max: 40, windowMs: 200 })]);
    const added: string[] = [];
    const end = systemClock.now() + 3_000;
    const producing = (async () => {
      // Not many more than the limit grants meanwhile.
      while (systemClock.now() < end) {
        added.push((await queue.add("t", {})).id);
        await after(2);
      }
    })();
    while (systemClock.now() < end) {
      await after(chance.integer(100, 500));
      proxy.resetAll();
    }
    await producing;
    await until(async () => (await completed(queue)) === added.length, 20_000, "all jobs are completed");
    expect(added.length).toBeGreaterThan(50);
    expect(new Set(added).size).toBe(added.length);
    // A connection that breaks while an answer is on its way is no reason to run something again.
    const attempts = (await once(direct, "SELECT started_at FROM sluice.jobs ORDER BY 1")) as { started_at: number }[];
    const over40 = attempts.filter(({ started_at: at }, i) => i >= 40 && at - attempts[i - 40]!.started_at < 200);
    expect(over40).toEqual([]);
    expect([...runs.values()].filter((times) => times > 1)).toEqual([]);
    await close();
  });

  test("a connection of a high latency loses no lease and runs no job twice", async () => {
    const { proxy, url, direct } = await throughProxy(3);
    const { queue, runs, close } = office(direct, url, { lease: 1_500, takesMs: 2_500, concurrency: 10 });
    await queue.addBulk(Array.from({ length: 10 }, () => ({ type: "t", data: {} })));
    await until(() => runs.size > 0, 5_000, "jobs run");
    proxy.way = { latencyMs: 50, jitterMs: 200 };
    await until(async () => (await completed(queue)) === 10, 20_000, "all jobs are completed");
    expect([...runs.values()]).toEqual(Array.from({ length: 10 }, () => 1));
    await close();
  });
});
