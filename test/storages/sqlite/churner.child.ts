import { SqliteStorage } from "../../../src/storages/sqlite/index.ts";

// Adds, claims and settles without end. Prints what was acknowledged, after it was.
const [path = "", name = ""] = process.argv.slice(2);
const storage = new SqliteStorage(path);
const backoff = { kind: "fixed", delay: 1 } as const;
for (let i = 0; ; i++) {
  const ids = Array.from({ length: 5 }, (_, k) => `${name}-${i}-${k}`);
  await storage.add(
    ids.map((id) => ({
      id,
      queue: "q",
      type: "t",
      data: "{}",
      due: { inMs: 0 },
      priority: 0,
      group: name,
      weights: null,
      maxAttempts: 1_000,
      backoff,
      timeout: null,
      deadline: null,
      keepFor: null,
      idempotency: null,
    })),
  );
  process.stdout.write(`${JSON.stringify(ids)}\n`);
  const limits = [{ key: "l", max: 1_000_000, windowMs: 1_000 }];
  const { jobs } = await storage.claim({
    queue: "q",
    worker: name,
    max: 3,
    types: null,
    leaseMs: 60_000,
    limits,
    settle: [],
  });
  await storage.settle(
    jobs.map(({ id, token }, k) =>
      k === 0
        ? { id, token, to: "retry", inMs: 0, error: { name: "Error", message: "again" } }
        : { id, token, to: "completed", result: null },
    ),
  );
}
