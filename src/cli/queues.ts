import type { JobStorage, QueueOverview } from "../storage/job-storage.ts";
import { quoted } from "./arguments.ts";
import type { Context } from "./command.ts";
import { didYouMean, Failure, UsageError } from "./failures.ts";
import { printable } from "./render/text.ts";

/** The failure for an id that no job has. */
export function noSuchJob(id: string): Failure {
  return new Failure("SLUICE_JOB_NOT_FOUND", `there is no job ${quoted(id)}`);
}

/** The queue that was named, or the only one there is. */
export async function chosenQueue({ args }: Context, storage: JobStorage): Promise<QueueOverview> {
  const named = args.text("queue");
  if (named !== undefined) {
    const [found] = await storage.overview(named);
    if (found !== undefined) return found;
    const names = (await storage.overview()).map(({ queue }) => printable(queue));
    throw new Failure(
      "SLUICE_NO_QUEUE",
      `there is no queue ${printable(named)}; ${didYouMean(named, names, "queues")}`,
    );
  }
  const all = await storage.overview();
  const [only] = all;
  if (only === undefined) throw new Failure("SLUICE_NO_QUEUE", "the database holds no queue: nothing was added yet");
  if (all.length > 1) {
    throw new UsageError(`which queue? Say --queue with one of ${all.map(({ queue }) => printable(queue)).join(", ")}`);
  }
  return only;
}
