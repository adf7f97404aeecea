import { expect, test } from "vitest";
import { anything } from "../jobs.ts";
import { emptyStorages, newJob, rule } from "./support.ts";

const open = emptyStorages();
/** Text that no index makes smaller. */
function random(length: number, seed: number): string {
  let state = seed;
  return Array.from({ length }, () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return String.fromCharCode(0x4e00 + ((state >> 8) % 20_000));
  }).join("");
}

const LONGEST = { queue: random(200, 3), type: random(255, 4), group: random(255, 5) };

test("a lane of the longest names of a queue, type, group and limit waits at its gate", async () => {
  const { storage } = await open();
  await storage.limits.define([rule(random(255, 7), { concurrency: 1 }, { byGroup: true })]);
  await storage.add([newJob(LONGEST), newJob(LONGEST)]);
  expect((await storage.claim(anything({ queue: LONGEST.queue }))).jobs).toHaveLength(1);
  expect((await storage.claim(anything({ queue: LONGEST.queue }))).jobs).toHaveLength(0);
});

test("a job with the longest keys beside the longest names is added, counted and blocked", async () => {
  const { storage } = await open();
  // 512 bytes as JSON.
  const keys = { [random(2, 9)]: random(160, 1), b: "xxx" };
  await storage.limits.define([rule("k", { concurrency: 1 }, { byGroup: true, by: Object.keys(keys) })]);
  await storage.add([newJob({ ...LONGEST, keys }), newJob({ ...LONGEST, keys })]);
  expect((await storage.claim(anything({ queue: LONGEST.queue }))).jobs).toHaveLength(1);
  expect((await storage.claim(anything({ queue: LONGEST.queue }))).jobs).toHaveLength(0);
});
