import { type Command, DATABASE, QUEUE } from "../command.ts";
import { withDatabase } from "../database.ts";
import { changeMany, CONFIRM, WHICH } from "./change-many.ts";

export const drain: Command = {
  name: "drain",
  summary: "removes what has not started; what runs goes on",
  usage: ["[--queue name] [--type t] [--group g] [--key k]"],
  about: "Says how many there are. At a terminal it removes them only with --yes.",
  options: { ...DATABASE, ...QUEUE, ...WHICH, ...CONFIRM },
  words: "none",
  run: (context) =>
    withDatabase(context, (database) =>
      changeMany(context, database, {
        action: "drain",
        does: "removes",
        done: "removed",
        states: ["waiting", "scheduled", "awaiting"],
      }),
    ),
};
