import { drain } from "../../storage/drain.ts";
import { explainJob } from "../../storage/explain.ts";
import { answer, type Command, type Context, DATABASE, QUEUE } from "../command.ts";
import { withDatabase } from "../database.ts";
import type { Database } from "../opened.ts";
import { UsageError } from "../failures.ts";
import { chosenQueue, noSuchJob } from "../queues.ts";
import { explanationText, queueExplanationText } from "../render/explanation.ts";

export const explain: Command = {
  name: "explain",
  summary: "why a job does not start, and when it can; or when a queue drains",
  usage: ["<id>", "[--queue name]"],
  about: [
    "Of a job: everything that holds it, with what is in use and until when, and its",
    "earliest start. Of a queue: what waits, which limit takes the longest for it,",
    "and an estimate of when the last of it will have started.",
  ].join("\n"),
  options: { ...DATABASE, ...QUEUE },
  words: "one",
  run: (context) =>
    withDatabase(context, async (database) => {
      const [id] = context.args.words;
      if (id === undefined) return ofQueue(context, database);
      if (context.args.flag("queue")) throw new UsageError("say the id of a job, or --queue, not both");
      return ofJob(context, database, id);
    }),
};

async function ofJob(context: Context, { storage }: Database, id: string): Promise<number> {
  const conditions = await storage.explain(id);
  if (conditions === undefined) throw noSuchJob(id);
  const explained = explainJob(conditions);
  answer(context, explained, (surface) => explanationText(explained, conditions.now, surface));
  return 0;
}

async function ofQueue(context: Context, { storage, look }: Database): Promise<number> {
  const { queue } = await chosenQueue(context, storage);
  const explained = drain(await storage.backlog(queue));
  const now = await look.now();
  answer(context, explained, (surface) => queueExplanationText(explained, now, surface));
  return 0;
}
