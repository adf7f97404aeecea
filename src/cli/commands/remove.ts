import { type Command, DATABASE } from "../command.ts";
import { withDatabase } from "../database.ts";
import { changeNamed } from "./changing.ts";

export const remove: Command = {
  name: "remove",
  summary: "deletes jobs that are not running",
  usage: ["<id>…"],
  options: DATABASE,
  words: "any",
  run: (context) =>
    withDatabase(context, ({ storage }) =>
      changeNamed(context, storage, { action: "remove", done: "removed", unless: "cancel it first" }),
    ),
};
