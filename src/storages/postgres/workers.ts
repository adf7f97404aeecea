import {
  detailsOf,
  type Registered,
  type UnhandledType,
  unhandledOf,
  type WaitingTypes,
  type WorkerEntry,
  workerOf,
  type WorkerRecord,
  type WorkerRow,
} from "../../storage/workers.ts";
import type { Database } from "./database.ts";

export async function register(
  database: Database,
  workers: readonly WorkerEntry[],
  ttlMs: number,
  gone: readonly string[],
): Promise<Registered> {
  const entries = workers.map((one) => ({
    id: one.id,
    queue: one.queue,
    upMs: one.upMs,
    info: JSON.stringify(detailsOf(one)),
  }));
  const { first } = await database.call<Registered>(
    "register_workers",
    JSON.stringify(entries),
    ttlMs,
    JSON.stringify(gone),
  );
  return { first };
}

export async function liveWorkers(database: Database, queue?: string): Promise<WorkerRecord[]> {
  return (await database.call<readonly WorkerRow[]>("read_workers", queue ?? null)).map(workerOf);
}

export async function unhandled(database: Database): Promise<UnhandledType[]> {
  const { queues, workers } = await database.call<{
    readonly queues: readonly WaitingTypes[];
    readonly workers: readonly WorkerRow[];
  }>("read_waiting_types");
  return unhandledOf(queues, workers.map(workerOf));
}
