// An order and the jobs that it brings are one transaction: both are there, or neither is, whatever crashes in between. No
// outbox table is needed, and no process that empties it.
import assert from "node:assert/strict";
import pg from "pg";
import { Queue, Worker } from "sluice";
import { PostgresStorage } from "sluice/postgres";
import { exampleDatabase } from "../common/database.ts";

await using database = await exampleDatabase();
const { url, schema } = database;
const pool = new pg.Pool({ connectionString: url, max: 5 });
const storage = new PostgresStorage(pool, { schema });
await storage.setup();
await pool.query(`CREATE TABLE ${schema}.orders (id int PRIMARY KEY, paid boolean NOT NULL)`);

interface Jobs {
  confirm: { data: { order: number }; result: string };
}
const queue = new Queue<Jobs>("orders", { storage });

/** Keeps an order and adds the mail about it. An order that is not paid is rolled back at the last moment. */
async function placeOrder(id: number, paid: boolean) {
  const tx = await pool.connect();
  try {
    await tx.query("BEGIN");
    await tx.query(`INSERT INTO ${schema}.orders VALUES ($1, $2)`, [id, paid]);
    const job = await queue.add("confirm", { order: id }, { tx, idempotencyKey: `confirm-${id}` });
    assert.equal((await queue.counts()).waiting, 0, "no other transaction sees it before the commit");
    if (!paid) throw new Error("not paid");
    await tx.query("COMMIT");
    return job;
  } catch (error) {
    await tx.query("ROLLBACK");
    throw error;
  } finally {
    tx.release();
  }
}

// Rolled back: neither the order nor the job is there, and the idempotency key is free.
await assert.rejects(placeOrder(1, false), /not paid/);
assert.equal((await pool.query(`SELECT FROM ${schema}.orders`)).rowCount, 0);
assert.equal((await queue.counts()).waiting, 0);
console.log("an order that was not paid left nothing behind");

// Committed: both are.
const job = await placeOrder(1, true);
assert.equal(job.created, true);
assert.equal((await pool.query(`SELECT FROM ${schema}.orders`)).rowCount, 1);

const worker = new Worker<Jobs>("orders", { confirm: async ({ data }) => `confirmed ${data.order}` }, { storage });
assert.equal(await job.result(), "confirmed 1");
console.log("an order that was paid was confirmed");

await worker.stop();
await storage.close();
await pool.end();
