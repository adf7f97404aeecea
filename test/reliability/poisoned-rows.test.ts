import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import { Queue, Worker } from "../../src/index.ts";
import { SqliteStorage } from "../../src/storages/sqlite/index.ts";

/** Values that SQL may write into the tables: the column, the value, and the state in which the job ends. */
const POISON: readonly {
  readonly column: string;
  readonly value: string | number;
  readonly state: "completed" | "dead";
}[] = [
  { column: "data", value: "{not json", state: "dead" },
  { column: "data", value: "", state: "dead" },
  { column: "backoff", value: "no plan", state: "completed" },
  { column: "backoff", value: '{"kind":"fixed","delay":"soon"}', state: "completed" },
  { column: "backoff", value: '{"kind":"custom","name":"__proto__"}', state: "completed" },
  { column: "weights", value: "[1,", state: "completed" },
  { column: "weights", value: '{"tokens":"many"}', state: "completed" },
  { column: "progress", value: '{"percent":"half"}', state: "completed" },
  { column: "error", value: "x".repeat(1_000_000), state: "completed" },
  { column: "error", value: '{"name":1}', state: "completed" },
  { column: "type", value: "an unknown type", state: "completed" },
  { column: "grp", value: "another group than its lane's", state: "completed" },
  { column: "attempt", value: 1_000_000, state: "completed" },
  { column: "max_attempts", value: -1, state: "completed" },
  { column: "timeout", value: -5, state: "completed" },
  { column: "token", value: 2 ** 52, state: "completed" },
];

describe("rows that were written by SQL", () => {
  it.each(POISON)(
    "$column = $value: the job ends $state, others run, and everything can be looked at",
    async (poison) => {
      const connection = new DatabaseSync(":memory:");
      const storage = new SqliteStorage(connection);
      const queue = new Queue("q", { storage });
      const [before, bad, after] = await queue.addBulk([1, 2, 3].map((data) => ({ type: "work", data })));
      connection.prepare(`UPDATE sluice_jobs SET ${poison.column} = ? WHERE id = ?`).run(poison.value, bad!.id);

      const errors: unknown[] = [];
      const seen: unknown[] = [];
      const worker = new Worker("q", ({ data }) => void seen.push(data), {
        storage,
        onError: (error) => errors.push(error),
      });
      await Promise.all([before!.result(), after!.result()]);
      await worker.onIdle();
      await worker.stop();

      expect(errors).toEqual([]);
      expect((await bad!.info())?.state).toBe(poison.state);
      expect(seen.length).toBe(poison.state === "dead" ? 2 : 3);
      expect((await queue.list()).jobs).toHaveLength(3);
      expect((await queue.counts())[poison.state]).toBeGreaterThan(0);
      await bad!.history();
      await storage.close();
    },
  );

  it("a worker keeps running when stored events and attempts are invalid", async () => {
    const connection = new DatabaseSync(":memory:");
    const storage = new SqliteStorage(connection);
    const queue = new Queue("q", { storage });
    const completed: string[] = [];
    const unsubscribe = queue.on("completed", ({ id }) => completed.push(id));
    const job = await queue.add("work", null);
    connection.exec("INSERT INTO sluice_events (at, origin, event) VALUES (0, 'other', '{not json')");
    connection.exec(
      "INSERT INTO sluice_attempts (job, attempt, started_at, ended_at, worker, error) SELECT seq, 1, 0, 0, '', '[' FROM sluice_jobs",
    );
    await using _worker = new Worker("q", () => "done", { storage });
    expect(await job.result()).toBe("done");
    expect((await job.history()).attempts).toHaveLength(1);
    expect(completed).toEqual([job.id]);
    unsubscribe();
  });
});
