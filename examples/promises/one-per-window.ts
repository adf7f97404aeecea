// One operation per N milliseconds: `rateLimit(fn, N)`. The first operation is not delayed.
import assert from "node:assert/strict";
import { rateLimit } from "sluice";
import { smallestGap } from "../common/windows.ts";

const WINDOW = 100;

const starts: number[] = [];
const operation = rateLimit(async (name: string) => {
  starts.push(performance.now());
  return name.toUpperCase();
}, WINDOW);

const results = ["a", "b", "c", "d"].map((name) => operation(name));
assert.equal(starts.length, 1, "the first has started before the first await");
assert.equal(operation.waiting, 3);

assert.deepEqual(await Promise.all(results), ["A", "B", "C", "D"]);
for (const start of starts) console.log(`started after ${(start - starts[0]!).toFixed(1)} ms`);
assert.ok(smallestGap(starts) >= WINDOW);
