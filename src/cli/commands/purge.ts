import { ENDED } from "../../core/job.ts";
import { Queue } from "../../queue/queue.ts";
import { answer, type Command, DATABASE, OF_TYPE_AND_GROUP, QUEUE } from "../command.ts";
import { withDatabase } from "../database.ts";
import { UsageError } from "../failures.ts";
import { chosenQueue } from "../queues.ts";
import { plural, printable } from "../render/text.ts";
import { askForYes, CONFIRM } from "./change-many.ts";

export const purge: Command = {
  name: "purge",
  summary: "deletes jobs that have ended, many at once",
  usage: ["--state s,… [--older-than 7d] [--type t] [--group g]", "--older-than 7d", "--all"],
  about: "Says how many there are. At a terminal it deletes them only with --yes.",
  options: {
    ...DATABASE,
    ...QUEUE,
    state: { value: "s,…", short: "s", help: "any state but active (default completed,dead,cancelled)" },
    "older-than": { value: "7d", help: "only those that ended longer ago than this" },
    ...OF_TYPE_AND_GROUP,
    all: { help: "all that have ended; needed where nothing else says which" },
    ...CONFIRM,
  },
  words: "none",
  run: (context) =>
    withDatabase(context, async ({ storage, look }) => {
      const { args } = context;
      const state = args.states("state");
      const olderThan = args.duration("older-than");
      const type = args.text("type");
      const group = args.text("group");
      const all = args.flag("all");
      if ([state, olderThan, type, group].every((given) => given === undefined) && !all) {
        throw new UsageError("which jobs? Say --state, --older-than, --type or --group, or --all");
      }
      if (state?.includes("active")) throw new UsageError("active jobs cannot be deleted; cancel them first");
      const { queue } = await chosenQueue(context, storage);
      const filter = { queue, states: state ?? ENDED, type: type ?? null, group: group ?? null };
      const found = await look.count({ ...filter, endedForMs: olderThan ?? null });
      if (args.flag("dry-run")) {
        answer(
          context,
          { queue, found, removed: 0 },
          () => `${plural(found, "job")} of ${printable(queue)} would go\n`,
        );
        return 0;
      }
      askForYes(context, "deletes", found, queue);
      const removed = await new Queue(queue, { storage }).purge({
        state: filter.states,
        ...(olderThan !== undefined && { olderThan }),
        type,
        group,
      });
      answer(context, { queue, found, removed }, () => `removed ${plural(removed, "job")} of ${printable(queue)}\n`);
      return 0;
    }),
};
