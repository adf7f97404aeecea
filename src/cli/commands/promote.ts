import { type Command, DATABASE } from "../command.ts";
import { withDatabase } from "../database.ts";
import { changeNamed } from "./changing.ts";

export const promote: Command = {
  name: "promote",
  summary: "makes scheduled jobs due now",
  usage: ["<id>…"],
  options: DATABASE,
  words: "any",
  run: (context) =>
    withDatabase(context, ({ storage }) =>
      changeNamed(context, storage, {
        action: "promote",
        done: "due now",
        unless: "and only scheduled jobs can be promoted",
      }),
    ),
};
