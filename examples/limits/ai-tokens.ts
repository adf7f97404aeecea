// Tokens per minute: what a call will use is reserved by an estimate, and corrected as soon as it is known, so the next call
// can start on what was not used. A script outside of the queue shares the same quota.
import assert from "node:assert/strict";
import { defineLimits, limit, MemoryStorage, Queue, Worker } from "sluice";
import { FakeClock } from "sluice/testing";

const limits = defineLimits({
  openai_tokens: { max: 10_000, per: "1m", weight: "tokens", estimate: 1_500, types: ["chat"] },
  openai_requests: { concurrency: 4, types: ["chat"] },
});

const clock = new FakeClock();
const storage = new MemoryStorage({ clock });
const queue = new Queue("ai", { storage, clock, limits });
let chats = 0;
const chat = async (_job: unknown, ctx: { settle(weights: Record<string, number>): Promise<void> }) => {
  chats += 1;
  await ctx.settle({ tokens: 500 }); // what the answer says it used
};
const worker = new Worker("ai", { chat }, { storage, clock, concurrency: 10 });

await queue.addBulk(Array.from({ length: 18 }, (_, n) => ({ type: "chat", data: n })));
await clock.advance(59_999);
// While 1,500 are free another one starts, and uses 500: 18 of them use 9,000, and 1,000 are left.
console.log(`${chats} chats in the first minute on 10,000 tokens; on estimates alone it would have been 6`);
assert.equal(chats, 18);

// A heavier one that can never fit is refused at once, and nothing of it is kept.
await assert.rejects(queue.add("chat", null, { weights: { tokens: 20_000 } }), { name: "OptionsError" });

// What calls the service outside of the queue takes from the same quota.
const embed = limit(async (_text: string) => "done", storage.limiter("openai_tokens"), {
  weight: (text: string) => text.length,
});
await embed("x".repeat(600));
const [state] = await storage.limits.read({ name: "openai_tokens", group: null });
assert.equal(state!.states[0]!.used, 9_600);

await worker.stop();
