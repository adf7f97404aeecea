// A queue that would only grow: with `maxQueue`, calls that find it full are rejected at once. There is nothing to clean
// up after them, and as soon as the queue is below its bound again it takes calls again.
import assert from "node:assert/strict";
import { QueueOverflowError, rateLimit } from "sluice";

const order: string[] = [];
const send = rateLimit((message: string) => order.push(`sent ${message}`), 50, 1, { maxQueue: 3 });

const messages = ["a", "b", "c", "d", "e", "f"];
const outcomes = await Promise.allSettled(
  messages.map((message) =>
    send(message).catch((error: unknown) => {
      order.push(`rejected ${message}`);
      throw error;
    }),
  ),
);

console.log(order.join(", "));
assert.deepEqual(order, ["sent a", "rejected e", "rejected f", "sent b", "sent c", "sent d"]);

const overflow = outcomes.find((outcome) => outcome.status === "rejected")?.reason as unknown;
assert.ok(overflow instanceof QueueOverflowError);
assert.equal(overflow.code, "SLUICE_QUEUE_OVERFLOW");
console.log(`${overflow.name}: ${overflow.message}`);

await send("g");
assert.equal(order.at(-1), "sent g");
