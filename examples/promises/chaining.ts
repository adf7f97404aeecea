// The chaining trap: limiters made of promises must be nested in the right order, or the rate breaks. Here both orders
// keep both limits: a call takes its turn under both at the moment it starts.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { concurrencyLimit, rateLimit } from "sluice";
import { smallestGap } from "../common/windows.ts";

const WINDOW = 100;
/** While the first runs, the other two come to wait behind it; when it ends, nothing but the rate keeps them apart. */
const DURATIONS = [350, 1, 1];

type Operation = (ms: number) => Promise<void>;

async function run(name: string, wrap: (operation: Operation) => Operation): Promise<{ gap: number; most: number }> {
  const starts: number[] = [];
  let inFlight = 0;
  let most = 0;
  const operation = wrap(async (ms) => {
    starts.push(performance.now());
    inFlight += 1;
    most = Math.max(most, inFlight);
    await sleep(ms);
    inFlight -= 1;
  });
  await Promise.all(DURATIONS.map((ms) => operation(ms)));
  const gap = smallestGap(starts);
  console.log(`${name}: ${most} at a time, starts at least ${gap.toFixed(1)} ms apart`);
  return { gap, most };
}

/** Two promise chains that know nothing of each other: the rate is kept where calls enter the line, not where they start. */
function naive(operation: Operation): Operation {
  let line = Promise.resolve();
  let turn = Promise.resolve();
  const serialized: Operation = (ms) => (line = line.then(() => operation(ms)));
  return (ms) => {
    const result = turn.then(() => serialized(ms));
    turn = turn.then(() => sleep(WINDOW));
    return result;
  };
}

const [, ...kept] = await Promise.all([
  run("two plain promise chains       ", naive),
  run("rateLimit(concurrencyLimit(fn))", (operation) => rateLimit(concurrencyLimit(operation, 1), WINDOW)),
  run("concurrencyLimit(rateLimit(fn))", (operation) => concurrencyLimit(rateLimit(operation, WINDOW), 1)),
]);
for (const { gap, most } of kept) {
  assert.ok(gap >= WINDOW);
  assert.equal(most, 1);
}
