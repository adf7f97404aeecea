// One after the other: `concurrencyLimit(fn, 1)`. Each starts when the one before has ended, well or badly.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { concurrencyLimit } from "sluice";

const events: string[] = [];
const save = concurrencyLimit(async (name: string, ms: number) => {
  events.push(`${name} starts`);
  await sleep(ms);
  events.push(`${name} ends`);
  if (name === "second") throw new Error("disk full");
  return name;
}, 1);

const outcomes = await Promise.allSettled([save("first", 30), save("second", 10), save("third", 0)]);

console.log(events.join(", "));
console.log(outcomes.map(({ status }) => status).join(", "));
assert.deepEqual(events, ["first starts", "first ends", "second starts", "second ends", "third starts", "third ends"]);
assert.deepEqual(
  outcomes.map(({ status }) => status),
  ["fulfilled", "rejected", "fulfilled"],
);
