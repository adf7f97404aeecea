import type { JobStorage } from "../../storage/job-storage.ts";
import { answer, type Command, type Context, DATABASE, QUEUE } from "../command.ts";
import { withDatabase } from "../database.ts";
import { chosenQueue } from "../queues.ts";
import { pausedText } from "../render/stats.ts";
import { printable } from "../render/text.ts";

const OPTIONS = {
  ...DATABASE,
  ...QUEUE,
  type: { value: "type", short: "t", help: "only this type" },
};

export const pause: Command = {
  name: "pause",
  summary: "lets nothing of a queue, or a type in it, start; what runs goes on",
  usage: ["[--queue name] [--type t]"],
  about: "A queue that is named may be one that nothing was added to yet.",
  options: OPTIONS,
  words: "none",
  run: (context) =>
    withDatabase(context, async ({ storage }) => {
      // A pause may come before the first job.
      const queue = context.args.text("queue") ?? (await chosenQueue(context, storage)).queue;
      return setPaused(context, storage, queue, true);
    }),
};

export const resume: Command = {
  name: "resume",
  summary: "takes a pause back",
  usage: ["[--queue name] [--type t]"],
  options: OPTIONS,
  words: "none",
  run: (context) =>
    withDatabase(context, async ({ storage }) => {
      const { queue } = await chosenQueue(context, storage);
      return setPaused(context, storage, queue, false);
    }),
};

async function setPaused(context: Context, storage: JobStorage, queue: string, paused: boolean): Promise<number> {
  const type = context.args.text("type") ?? null;
  const before = await storage.overview(queue);
  await storage.setPaused(queue, type, paused);
  const [after] = await storage.overview(queue);
  const value = { queue, paused: after?.paused ?? false, pausedTypes: after?.pausedTypes ?? [] };
  answer(context, value, () => {
    const what = type === null ? printable(queue) : `${printable(type)} of ${printable(queue)}`;
    const others =
      paused || (!value.paused && value.pausedTypes.length === 0)
        ? ""
        : `; ${value.paused ? "the queue as a whole is paused" : pausedText(value.pausedTypes)}`;
    const unknown = paused && before.length === 0 ? " (nothing was added to it yet)" : "";
    return `${paused ? "paused" : "resumed"} ${what}${unknown}${others}\n`;
  });
  return 0;
}
