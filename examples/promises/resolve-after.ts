// Spacing work out used to take a building block, `resolveAfter(ms)`. To wait, Node has it built in; to space work out,
// a limiter waits only for what is left of the delay, and not at all before the first.
import assert from "node:assert/strict";
import { setTimeout as resolveAfter } from "node:timers/promises";
import { DelayLimiter } from "sluice";

const DELAY = 60;
const WORK = 40;
const TIMES = 5;

async function sleeping(): Promise<number> {
  const begin = performance.now();
  for (let i = 0; i < TIMES; i++) {
    await resolveAfter(WORK);
    await resolveAfter(DELAY);
  }
  return performance.now() - begin;
}

async function limited(): Promise<number> {
  const limiter = new DelayLimiter(DELAY);
  const begin = performance.now();
  for (let i = 0; i < TIMES; i++) {
    const permit = await limiter.acquire();
    assert.ok(performance.now() - begin >= i * DELAY, `start ${i} came too early`);
    await resolveAfter(WORK);
    await permit.release();
  }
  return performance.now() - begin;
}

const [slept, waited] = await Promise.all([sleeping(), limited()]);

console.log(`${TIMES} times ${WORK} ms of work, ${DELAY} ms from start to start at least`);
console.log(`a sleep after each:     ${slept.toFixed(0)} ms`);
console.log(`a limiter before each:  ${waited.toFixed(0)} ms`);
assert.ok(waited < slept);
