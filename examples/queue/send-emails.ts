// Sending mail from a queue: typed jobs, urgent ones first, one mail per order however often it is asked for, another try
// when the mail server is busy, and a dead letter that is sent again once its cause is mended.
import assert from "node:assert/strict";
import { MemoryStorage, PermanentJobError, Queue, RetryableJobError, Worker } from "sluice";

interface Jobs {
  send_email: { data: { to: string; subject: string }; result: { messageId: string } };
}

const storage = new MemoryStorage();
const queue = new Queue<Jobs>("mail", { storage, defaults: { maxAttempts: 3 } });

const known = new Set(["ada@example.com", "grace@example.com"]);
const sent: string[] = [];
async function deliver(to: string, subject: string): Promise<string> {
  if (!known.has(to)) throw new PermanentJobError(`550 no such user: ${to}`); // asking again will not help
  sent.push(`${subject} to ${to}`);
  return `message-${sent.length}`;
}

// All jobs are added before the worker starts, so that the order can be seen.
const order = { idempotencyKey: "order-17" };
const receipt = await queue.add("send_email", { to: "ada@example.com", subject: "Your receipt" }, order);
const twice = await queue.add("send_email", { to: "ada@example.com", subject: "Your receipt" }, order);
const news = await queue.add("send_email", { to: "grace@example.com", subject: "News" });
const reset = await queue.add(
  "send_email",
  { to: "grace@example.com", subject: "Your new password" },
  { priority: 10 },
);
const lost = await queue.add("send_email", { to: "alan@example.com", subject: "News" });

const worker = new Worker<Jobs>(
  "mail",
  {
    send_email: async (job) => {
      const { to, subject } = job.data;
      const busy = subject === "News" && job.attempt === 1 && known.has(to);
      if (busy) throw new RetryableJobError("421 try again in a moment", new Date(Date.now() + 100));
      return { messageId: await deliver(to, subject) };
    },
  },
  { storage },
);

console.log(await receipt.result(), await reset.result(), await news.result());
console.log(sent);
assert.equal(twice.id, receipt.id, "one order, one mail");
assert.equal(twice.created, false);
assert.deepEqual(sent, [
  "Your new password to grace@example.com", // the urgent one first
  "Your receipt to ada@example.com",
  "News to grace@example.com", // at its second attempt
]);

await assert.rejects(lost.result(), PermanentJobError);
const { jobs: dead } = await queue.deadLetters();
console.log(dead.map(({ data, error }) => `${data.to}: ${error?.message}`));
assert.equal(dead.length, 1);

known.add("alan@example.com"); // the address is repaired
assert.equal(await queue.redrive({ all: true }), 1);
console.log(await lost.result());
assert.equal(sent.at(-1), "News to alan@example.com");
await worker.stop();
