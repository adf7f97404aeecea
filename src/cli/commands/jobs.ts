import type { JobStorage } from "../../storage/job-storage.ts";
import { answer, type Command, DATABASE, OF_TYPE_AND_GROUP, QUEUE } from "../command.ts";
import { withDatabase } from "../database.ts";
import { chosenQueue } from "../queues.ts";
import { jobJson } from "../render/job.ts";
import { jobsTable } from "../render/jobs.ts";

export const jobs: Command = {
  name: "jobs",
  summary: "lists jobs, newest first",
  usage: ["[--state s,…] [--type t] [--since 1h] [--limit n] …"],
  about: "Prints the cursor of the next page. With --json: { jobs, cursor }.",
  options: {
    ...DATABASE,
    ...QUEUE,
    state: { value: "s,…", short: "s", help: "waiting, scheduled, active, completed, dead, cancelled, awaiting" },
    ...OF_TYPE_AND_GROUP,
    since: { value: "1h", help: "added so long ago at most" },
    limit: { value: "n", short: "n", help: "how many at most, from 1 to 1000 (default 20)" },
    cursor: { value: "c", help: "where the page before ended" },
    data: { help: "with --json: the payloads too, which may be secret" },
  },
  words: "none",
  run: (context) =>
    withDatabase(context, async ({ storage, look }) => {
      const { args } = context;
      const since = args.duration("since");
      const limit = args.integer("limit", { least: 1, most: 1_000, fallback: 20 });
      const now = await look.now();
      const query: Omit<Parameters<JobStorage["list"]>[0], "queue"> = {
        states: args.states("state") ?? null,
        type: args.text("type") ?? null,
        group: args.text("group") ?? null,
        since: since === undefined ? null : now - since,
        until: null,
        limit,
        cursor: args.text("cursor") ?? null,
      };
      const { queue } = await chosenQueue(context, storage);
      const page = await storage.list({ queue, ...query });
      const value = { jobs: page.jobs.map((job) => jobJson(job, { data: args.flag("data") })), cursor: page.cursor };
      answer(context, value, (surface) => {
        if (page.jobs.length === 0) return "No such jobs.\n";
        const more = page.cursor === null ? "" : `${surface.paint("dim", `More: --cursor ${page.cursor}`)}\n`;
        return jobsTable(page.jobs, now, surface) + more;
      });
      return 0;
    }),
};
