import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  AbortSignalJobError,
  type IJobExecuteContext,
  Job,
  JobQueueClient,
  JobQueueServer,
  PermanentJobError,
} from "../../src/index.ts";
import { SqliteStorage } from "../../src/storages/sqlite/index.ts";

class Work extends Job<string, string> {
  async execute(input: string, { signal, updateProgress }: IJobExecuteContext): Promise<string> {
    if (input === "dead") throw new PermanentJobError("no");
    await updateProgress(10, input);
    if (input === "endless") {
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    }
    return input.toUpperCase();
  }
}

/* Client and server share a file and nothing else, as two processes would. */
describe("a client and a server that share a file", () => {
  let folder: string;
  let here: SqliteStorage;
  let there: SqliteStorage;
  let server: JobQueueServer<string, string>;
  let client: JobQueueClient<string, string>;

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "sluice-"));
    here = new SqliteStorage(join(folder, "jobs.db"));
    there = new SqliteStorage(join(folder, "jobs.db"));
    server = new JobQueueServer(Work, { storage: there, queueName: "q", workerCount: 2 });
    client = new JobQueueClient<string, string>({ storage: here, queueName: "q" });
    await server.start();
  });
  afterEach(async () => {
    await server.stop({ timeout: 0 });
    await Promise.all([here.close(), there.close()]);
    rmSync(folder, { recursive: true, force: true });
  });

  it("a client in another process gets results, errors and progress", async () => {
    const [fine, dead] = await client.submitBatch(["fine", "dead"]);
    expect(await fine!.waitFor()).toBe("FINE");
    await expect(client.waitFor(dead!.id)).rejects.toThrow(PermanentJobError);
    expect(await client.getJob(fine!.id)).toMatchObject({ status: "completed", progress: { percent: 10 } });
    expect(server.getStats()).toMatchObject({ completedJobs: 1, failedJobs: 1 });
  });

  it("a client in another process aborts running and waiting jobs", async () => {
    const started = new Promise<unknown[]>((resolve) => {
      const ids: unknown[] = [];
      client.on("progress", ({ id }) => {
        if (ids.push(id) === 2) resolve(ids);
      });
    });
    const handles = await client.submitBatch(["endless", "endless", "waits"]);
    const ended = Promise.all(handles.map((handle) => expect(handle.waitFor()).rejects.toThrow(AbortSignalJobError)));
    await started;
    expect(await client.size()).toBe(1);
    for (const handle of handles.toReversed()) expect(await handle.abort()).toBe(true);
    await ended;
    expect(await client.size("cancelled")).toBe(3);
    expect(server.getStats()).toMatchObject({ totalJobs: 2, abortedJobs: 2 });
  });

  it("a client in another process gets the result though the server starts later", async () => {
    await server.stop();
    const handle = await client.submit("later");
    const waiting = handle.waitFor();
    await server.start();
    expect(await waiting).toBe("LATER");
  });
});
