import { answer, type Command, DATABASE } from "../command.ts";
import { withDatabase } from "../database.ts";
import { workersJson, workersTable } from "../render/workers.ts";

export const workers: Command = {
  name: "workers",
  summary: "lists live workers, idle ones too, and what they handle",
  usage: ["[--queue name]"],
  about: "A worker that was killed is listed for 45 s after its last heartbeat.",
  options: { ...DATABASE, queue: { value: "name", short: "q", help: "only of this queue" } },
  words: "none",
  run: (context) =>
    withDatabase(context, async ({ storage, look }) => {
      const live = await storage.workers(context.args.text("queue"));
      const now = await look.now();
      answer(context, { workers: workersJson(live) }, (surface) =>
        live.length === 0 ? "There are no live workers.\n" : workersTable(live, now, surface),
      );
      return 0;
    }),
};
