import { type Command, DATABASE, QUEUE } from "../command.ts";
import { withDatabase } from "../database.ts";
import { changeMany, CONFIRM, saysWhich, WHICH } from "./change-many.ts";
import { changeNamed } from "./changing.ts";

export const cancel: Command = {
  name: "cancel",
  summary: "cancels jobs that have not started, and asks running ones to stop",
  usage: ["<id>…", "[-q name] [--type t] [--group g] [--key k] [--state s,…]", "[-q name] --all"],
  about: "Of many it says how many there are. At a terminal --yes is needed for them.",
  options: {
    ...DATABASE,
    ...QUEUE,
    ...WHICH,
    state: { value: "s,…", short: "s", help: "only in these states" },
    all: { help: "everything that has not ended; needed where nothing else says which" },
    ...CONFIRM,
  },
  words: "any",
  run: (context) =>
    withDatabase(context, (database) =>
      saysWhich(context.args)
        ? changeMany(context, database, {
            action: "cancel",
            does: "cancels",
            done: "cancelled",
            states: ["waiting", "scheduled", "awaiting", "active"],
          })
        : changeNamed(context, database.storage, {
            action: "cancel",
            done: "cancelled",
            unless: "and that has ended",
          }),
    ),
};
