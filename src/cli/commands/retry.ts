import { Queue } from "../../queue/queue.ts";
import type { JobStorage } from "../../storage/job-storage.ts";
import { answer, type Command, type Context, DATABASE, QUEUE } from "../command.ts";
import { withDatabase } from "../database.ts";
import { UsageError } from "../failures.ts";
import { chosenQueue } from "../queues.ts";
import { plural, printable } from "../render/text.ts";
import { changeNamed } from "./change-named.ts";

export const retry: Command = {
  name: "retry",
  summary: "starts jobs that have ended again, from their first attempt",
  usage: ["<id>…", "--all [--queue name] [--type t] [--group g]"],
  about: "With --all: every dead job of the queue, or of a type or group in it.",
  options: {
    ...DATABASE,
    ...QUEUE,
    all: { help: "all dead jobs" },
    type: { value: "type", short: "t", help: "with --all: only of this type" },
    group: { value: "group", short: "g", help: "with --all: only of this group" },
  },
  words: "any",
  run: (context) =>
    withDatabase(context, async ({ storage }) => {
      const { args } = context;
      if (args.flag("all")) return redrive(context, storage);
      for (const option of ["type", "group", "queue"]) {
        if (args.flag(option)) throw new UsageError(`--${option} goes with --all; ids need none`);
      }
      return changeNamed(context, storage, { action: "retry", done: "retried", unless: "and has not ended" });
    }),
};

async function redrive(context: Context, storage: JobStorage): Promise<number> {
  const { args } = context;
  if (args.words.length > 0) throw new UsageError("say ids or --all, not both");
  const { queue } = await chosenQueue(context, storage);
  const retried = await new Queue(queue, { storage }).redrive({
    all: true,
    type: args.text("type"),
    group: args.text("group"),
  });
  answer(
    context,
    { action: "retry", queue, retried },
    () => `retried ${plural(retried, "job")} of ${printable(queue)}\n`,
  );
  return 0;
}
