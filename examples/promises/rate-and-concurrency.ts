// Rate and concurrency do not replace each other. At one start per 100 ms, operations that last nearly 300 ms are three
// at a time; and one at a time keeps no rate at all when the operations are short.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { concurrencyLimit, rateLimit } from "sluice";
import { mostInAnyWindow } from "../common/windows.ts";

const WINDOW = 100;
const LONG = 280;

let inFlight = 0;
let most = 0;
const long = rateLimit(async () => {
  inFlight += 1;
  most = Math.max(most, inFlight);
  await sleep(LONG);
  inFlight -= 1;
}, WINDOW);
await Promise.all(Array.from({ length: 10 }, () => long()));
console.log(`one start per ${WINDOW} ms, ${LONG} ms each: ${most} in flight`);
assert.equal(most, 3);

const starts: number[] = [];
const short = concurrencyLimit(async () => {
  starts.push(performance.now());
  await sleep(1);
}, 1);
await Promise.all(Array.from({ length: 20 }, () => short()));
const crowded = mostInAnyWindow(starts, WINDOW);
console.log(`one at a time, 1 ms each: ${crowded} starts in ${WINDOW} ms`);
assert.ok(crowded > 1);
