import type { JobRecord } from "../../core/job.ts";
import { explainJob } from "../../storage/explain.ts";
import type { JobStorage } from "../../storage/job-storage.ts";
import { quoted } from "../arguments.ts";
import { answer, type Command, type Context, DATABASE, QUEUE } from "../command.ts";
import { withDatabase } from "../database.ts";
import { Failure, UsageError } from "../failures.ts";
import { chosenQueue, noSuchJob } from "../queues.ts";
import { waitingLine } from "../render/explanation.ts";
import { historyJson, jobJson, jobText } from "../render/job.ts";
import { printable } from "../render/text.ts";

export const show: Command = {
  name: "show",
  summary: "everything about one job: attempts, error, progress, log",
  usage: ["<id> [--data]", "--key k [--queue name] [--data]"],
  options: {
    ...DATABASE,
    ...QUEUE,
    key: { value: "key", short: "k", help: "the job that has this idempotency key now, instead of an id" },
    data: { help: "what it was given and what it returned, in full; that may be secret" },
  },
  words: "one",
  run: (context) =>
    withDatabase(context, async ({ storage, look }) => {
      const job = await meant(context, storage);
      const history = await storage.history(job.id);
      const data = context.args.flag("data");
      const paused = await whyPaused(storage, job);
      const now = await look.now();
      const waitsFor = await whatFor(storage, job, now);
      const value = { ...jobJson(job, { data }), paused: paused !== undefined, waitsFor, ...historyJson(history) };
      answer(context, value, (surface) => jobText({ job, history, paused, waitsFor, data }, now, surface));
      return 0;
    }),
};

/** The job of the id, or the one that has the key. */
async function meant(context: Context, storage: JobStorage): Promise<JobRecord> {
  const { args } = context;
  const [id] = args.words;
  const key = args.text("key");
  if (key === undefined) {
    if (id === undefined) throw new UsageError("which job? Say its id: sluice show <id>");
    if (args.flag("queue")) throw new UsageError("--queue goes with --key; an id needs none");
    const [job] = await storage.find([id]);
    if (job === undefined) throw noSuchJob(id);
    return job;
  }
  if (id !== undefined) throw new UsageError("say an id or --key, not both");
  const { queue } = await chosenQueue(context, storage);
  const job = await storage.findByKey(queue, key);
  if (job === undefined) {
    throw new Failure(
      "SLUICE_JOB_NOT_FOUND",
      `no job of ${printable(queue)} has the idempotency key ${quoted(key)} now`,
    );
  }
  return job;
}

/** What a job that has not started waits for, in a line; `explain` has more. */
async function whatFor(storage: JobStorage, { id, state }: JobRecord, now: number): Promise<string | undefined> {
  const conditions = state === "waiting" || state === "scheduled" ? await storage.explain(id) : undefined;
  return conditions === undefined ? undefined : waitingLine(explainJob(conditions), now);
}

/** Why a job that could start does not, if its queue or type is paused. */
async function whyPaused(storage: JobStorage, { queue, type, state }: JobRecord): Promise<string | undefined> {
  if (state !== "waiting" && state !== "scheduled") return undefined;
  const [overview] = await storage.overview(queue);
  if (overview?.paused) return "the queue is paused";
  return overview?.pausedTypes.includes(type) ? "its type is paused" : undefined;
}
