import type { JobRecord } from "../../core/job.ts";
import { explainJob } from "../../storage/explain.ts";
import type { JobStorage } from "../../storage/job-storage.ts";
import { quoted } from "../arguments.ts";
import { answer, type Command, DATABASE } from "../command.ts";
import { withDatabase } from "../database.ts";
import { Failure, UsageError } from "../failures.ts";
import { waitingLine } from "../render/explanation.ts";
import { historyJson, jobJson } from "../render/job-json.ts";
import { jobText } from "../render/job.ts";

export const show: Command = {
  name: "show",
  summary: "everything about one job: attempts, error, progress, log",
  usage: ["<id> [--data]"],
  options: {
    ...DATABASE,
    data: { help: "what it was given and what it returned, in full; that may be secret" },
  },
  words: "one",
  run: (context) =>
    withDatabase(context, async ({ storage, look }) => {
      const { args, io } = context;
      const [id] = args.words;
      if (id === undefined) throw new UsageError("which job? Say its id: sluice show <id>");
      const [job] = await storage.find([id]);
      if (job === undefined) throw new Failure("SLUICE_JOB_NOT_FOUND", `there is no job ${quoted(id)}`);
      const history = await storage.history(id);
      const data = args.flag("data");
      const paused = await whyPaused(storage, job);
      const now = await look.now();
      const waitsFor = await whatFor(storage, job, now);
      const value = { ...jobJson(job, { data }), paused: paused !== undefined, waitsFor, ...historyJson(history) };
      const surface = { paint: io.paint, columns: io.columns() };
      answer(context, value, () => jobText({ job, history, paused, waitsFor, data }, now, surface));
      return 0;
    }),
};

/** What a job that has not started waits for, in a line; `explain` has more. */
async function whatFor(storage: JobStorage, { id, state }: JobRecord, now: number): Promise<string | undefined> {
  const standing = state === "waiting" || state === "scheduled" ? await storage.explain(id) : undefined;
  return standing === undefined ? undefined : waitingLine(explainJob(standing), now);
}

/** Why a job that could start does not, if somebody paused it. */
async function whyPaused(storage: JobStorage, { queue, type, state }: JobRecord): Promise<string | undefined> {
  if (state !== "waiting" && state !== "scheduled") return undefined;
  const [overview] = await storage.overview(queue);
  if (overview?.paused) return "the queue is paused";
  return overview?.pausedTypes.includes(type) ? "its type is paused" : undefined;
}
