import { type Command, DATABASE } from "../command.ts";
import { withDatabase } from "../database.ts";
import { changeNamed } from "./changing.ts";

export const cancel: Command = {
  name: "cancel",
  summary: "cancels jobs that have not started, and asks running ones to stop",
  usage: ["<id>…"],
  options: DATABASE,
  words: "any",
  run: (context) =>
    withDatabase(context, ({ storage }) =>
      changeNamed(context, storage, { action: "cancel", done: "cancelled", unless: "and that has ended" }),
    ),
};
