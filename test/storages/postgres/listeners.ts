import type { JobEvent } from "../../../src/core/events.ts";
import type { Hub } from "../../../src/storages/postgres/hub.ts";
import { addArgument } from "../../../src/storages/postgres/jobs/add.ts";
import { opened } from "./client-support.ts";
import { once, temporaryDatabase } from "./server.ts";
import { newJob } from "./support.ts";

/** A database with its tables, and a function that returns its argument, in place of a step. */
export async function sayingDatabase(): Promise<string> {
  const url = await temporaryDatabase();
  await opened(url).setup();
  await once(url, "CREATE FUNCTION sluice.say(answer text) RETURNS text LANGUAGE sql AS 'SELECT answer'");
  return url;
}

/** Active jobs that are asked to stop, whichever worker has them. */
export async function stopping(url: string, ...ids: readonly string[]): Promise<void> {
  await once(url, "SELECT sluice.add_2($1::json, false)", [addArgument(ids.map((id) => newJob({ id })))]);
  await once(
    url,
    `UPDATE sluice.jobs SET state = 'active', cancel_requested = true, attempt = 1, started_at = 1, lease_until = 1e15,
      worker = 'w', token = 1`,
  );
}

/** Listens to a queue and records what it receives. */
export function listener(hub: Hub, queue: string | null = "q") {
  const wakes: boolean[] = [];
  const cancelled: string[] = [];
  const events: JobEvent[] = [];
  const unsubscribe = hub.subscribe({
    queue,
    wake: (mayStart) => wakes.push(mayStart),
    cancelled: (ids) => cancelled.push(...ids),
  });
  const recordEvents = () => hub.subscribe({ queue, event: (event) => events.push(event) });
  return { wakes, cancelled, events, unsubscribe, recordEvents };
}
