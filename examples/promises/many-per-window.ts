// M operations per window is not one per M-th of a window. Two operations of 200 ms under "2 per 200 ms" are done after
// 200 ms; under "1 per 100 ms" the same two take 300, with no benefit.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { rateLimit } from "sluice";
import { mostInAnyWindow } from "../common/windows.ts";

const WINDOW = 200;
const operation = () => sleep(WINDOW);

const begin = performance.now();
async function twice(name: string, limited: () => Promise<void>): Promise<string> {
  await Promise.all([limited(), limited()]);
  console.log(`${name}: done after ${(performance.now() - begin).toFixed(0)} ms`);
  return name;
}

const together = rateLimit(operation, WINDOW, 2);
const apart = rateLimit(operation, WINDOW / 2, 1);
const runs = [twice("1 per 100 ms", apart), twice("2 per 200 ms", together)];
assert.equal(together.running, 2, "both run at once");
assert.equal(apart.running, 1);
assert.equal(await Promise.race(runs), "2 per 200 ms");
await Promise.all(runs);

// However many there are, no window holds more than two starts.
const starts: number[] = [];
const many = rateLimit(() => starts.push(performance.now()), WINDOW, 2);
await Promise.all(Array.from({ length: 7 }, () => many()));
console.log(`7 more started after ${starts.map((start) => (start - starts[0]!).toFixed(0)).join(", ")} ms`);
assert.equal(mostInAnyWindow(starts, WINDOW), 2);
