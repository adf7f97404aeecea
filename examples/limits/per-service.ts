// One quota for each service, whatever types of jobs call it, in whatever queue: three kinds of mail share 120 a minute, and
// do not make 360 of them.
import assert from "node:assert/strict";
import { defineLimits, MemoryStorage, Queue, Worker } from "sluice";
import { FakeClock } from "sluice/testing";
import { mostInAnyWindow } from "../common/windows.ts";

const MINUTE = 60_000;
const limits = defineLimits({
  email_provider: { max: 120, per: "1m", types: ["send_email", "send_digest", "send_notification"] },
  payment_gateway: { max: 60, per: "1m", types: ["charge_card", "refund", "retry_payment"] },
});

const clock = new FakeClock();
const storage = new MemoryStorage({ clock });
const starts: { type: string; at: number }[] = [];
const work = async (job: { type: string }) => void starts.push({ type: job.type, at: clock.now() });

// Two queues, three workers. Only the first declares the limits: they bind all.
const first = new Worker("mail", work, { storage, clock, concurrency: 10, limits });
const second = new Worker("mail", work, { storage, clock, concurrency: 10 });
const third = new Worker("shop", work, { storage, clock, concurrency: 10 });
const workers = [first, second, third];
await Promise.all(workers.map((worker) => worker.start()));

const mail = new Queue("mail", { storage, clock });
const shop = new Queue("shop", { storage, clock });
for (const type of ["send_email", "send_digest"]) {
  await mail.addBulk(Array.from({ length: 150 }, (_, n) => ({ type, data: n })));
}
for (const type of ["send_notification", "charge_card", "refund", "retry_payment"]) {
  await shop.addBulk(Array.from({ length: 100 }, (_, n) => ({ type, data: n })));
}
await clock.advance(10 * MINUTE);

const times = (types: readonly string[]) => starts.filter(({ type }) => types.includes(type)).map(({ at }) => at);
const emails = times(["send_email", "send_digest", "send_notification"]);
const payments = times(["charge_card", "refund", "retry_payment"]);
console.log(`${emails.length} mails, ${mostInAnyWindow(emails, MINUTE)} in the fullest minute`);
console.log(`${payments.length} payments, ${mostInAnyWindow(payments, MINUTE)} in the fullest minute`);
assert.equal(emails.length, 400);
assert.equal(mostInAnyWindow(emails, MINUTE), 120);
assert.equal(payments.length, 300);
assert.equal(mostInAnyWindow(payments, MINUTE), 60);

await Promise.all(workers.map((worker) => worker.stop()));
