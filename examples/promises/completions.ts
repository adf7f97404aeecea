// Limiting completions instead of starts: append a rate-limited turn to the end of each operation. All of them run at
// once, and their results come out one per window.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { rateLimit } from "sluice";
import { smallestGap } from "../common/windows.ts";

const WINDOW = 100;

let running = 0;
async function operation(n: number): Promise<number> {
  running += 1;
  await sleep(20);
  return n * n;
}

const completions: number[] = [];
const turn = rateLimit(() => {
  completions.push(performance.now());
}, WINDOW);

async function completeInTurn(n: number): Promise<number> {
  try {
    return await operation(n);
  } finally {
    await turn();
  }
}

const begin = performance.now();
const results = [1, 2, 3, 4].map((n) => completeInTurn(n));
assert.equal(running, 4, "nothing holds up the starts");

assert.deepEqual(await Promise.all(results), [1, 4, 9, 16]);
for (const at of completions) console.log(`completed after ${(at - begin).toFixed(1)} ms`);
assert.ok(smallestGap(completions) >= WINDOW);
