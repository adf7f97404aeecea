import { type Command, DATABASE, QUEUE } from "../command.ts";
import { withDatabase } from "../database.ts";
import { changeMany, CONFIRM, saysWhich, WHICH } from "./change-many.ts";
import { changeNamed } from "./changing.ts";

export const remove: Command = {
  name: "remove",
  summary: "deletes jobs that are not running",
  usage: ["<id>…", "[-q name] [--type t] [--group g] [--key k] [--state s,…]", "[-q name] --all"],
  about: "Of many it says how many there are. At a terminal --yes is needed for them.",
  options: {
    ...DATABASE,
    ...QUEUE,
    ...WHICH,
    state: { value: "s,…", short: "s", help: "only in these states; active ones cannot be removed" },
    all: { help: "everything that is not running; needed where nothing else says which" },
    ...CONFIRM,
  },
  words: "any",
  run: (context) =>
    withDatabase(context, (database) =>
      saysWhich(context.args)
        ? changeMany(context, database, {
            action: "remove",
            does: "deletes",
            done: "removed",
            states: ["waiting", "scheduled", "awaiting", "completed", "dead", "cancelled"],
          })
        : changeNamed(context, database.storage, { action: "remove", done: "removed", unless: "cancel it first" }),
    ),
};
