// A trigger adds a job for every new row, whichever program inserts it: another language, or psql. The job
// commits with the row, and a worker is notified at once.
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
await pool.query(`
  CREATE TABLE ${schema}.signups (email text PRIMARY KEY);
  CREATE FUNCTION ${schema}.welcome() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM ${schema}.add_job('mail', 'welcome', jsonb_build_object('to', NEW.email),
      jsonb_build_object('idempotencyKey', 'welcome-' || NEW.email, 'priority', 5));
    RETURN NULL;
  END $$;
  CREATE TRIGGER welcome AFTER INSERT ON ${schema}.signups FOR EACH ROW EXECUTE FUNCTION ${schema}.welcome();
`);

interface Jobs {
  welcome: { data: { to: string }; result: void };
}
const welcomed: string[] = [];
const queue = new Queue<Jobs>("mail", { storage });
const worker = new Worker<Jobs>("mail", { welcome: async ({ data }) => void welcomed.push(data.to) }, { storage });
const three = new Promise<void>((resolve) => {
  queue.on("completed", () => welcomed.length === 3 && resolve());
});

await pool.query(`INSERT INTO ${schema}.signups VALUES ('ada@example.com'), ('grace@example.com')`);
// What is rolled back was never there.
const tx = await pool.connect();
await tx.query("BEGIN");
await tx.query(`INSERT INTO ${schema}.signups VALUES ('missing@example.com')`);
await tx.query("ROLLBACK");
tx.release();
// The same row again: the key is taken, and the same person is not welcomed twice.
await pool.query(`DELETE FROM ${schema}.signups WHERE email = 'ada@example.com'`);
await pool.query(`INSERT INTO ${schema}.signups VALUES ('ada@example.com'), ('edsger@example.com')`);

await three;
console.log(`welcomed ${welcomed.join(", ")}`);
assert.deepEqual(welcomed.toSorted(), ["ada@example.com", "edsger@example.com", "grace@example.com"]);
const { jobs } = await queue.list();
assert.equal(jobs.length, 3);
assert.ok(jobs.every(({ priority }) => priority === 5));
// A misspelt option is refused where it is written, as everywhere else.
await assert.rejects(pool.query(`SELECT ${schema}.add_job('mail', 'welcome', '{}', '{"dealy": "5m"}')`), {
  code: "22023",
});

await worker.stop();
await storage.close();
await pool.end();
