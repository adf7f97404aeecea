import { type Command, DATABASE, QUEUE } from "../command.ts";
import { withDatabase } from "../database.ts";
import { changeMany, CONFIRM, type ManyWords, saysWhich, WHICH } from "./change-many.ts";
import { changeNamed, type ChangeWords } from "./change-named.ts";

export const cancel: Command = changeCommand({
  action: "cancel",
  summary: "cancels jobs that have not started, and asks running ones to stop",
  stateHelp: "only in these states",
  allHelp: "everything that has not ended; needed where nothing else says which",
  does: "cancels",
  done: "cancelled",
  states: ["waiting", "scheduled", "awaiting", "active"],
  unless: "and that has ended",
});

export const remove: Command = changeCommand({
  action: "remove",
  summary: "deletes jobs that are not running",
  stateHelp: "only in these states; active ones cannot be removed",
  allHelp: "everything that is not running; needed where nothing else says which",
  does: "deletes",
  done: "removed",
  states: ["waiting", "scheduled", "awaiting", "completed", "dead", "cancelled"],
  unless: "cancel it first",
});

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

interface Change extends ChangeWords, ManyWords {
  readonly action: "cancel" | "remove";
  readonly summary: string;
  readonly stateHelp: string;
  readonly allHelp: string;
}

/** A command that changes the jobs with the given ids, or many by a filter. */
function changeCommand(change: Change): Command {
  return {
    name: change.action,
    summary: change.summary,
    usage: ["<id>…", "[-q name] [--type t] [--group g] [--key k] [--state s,…]", "[-q name] --all"],
    about: "Of many it says how many there are. At a terminal --yes is needed for them.",
    options: {
      ...DATABASE,
      ...QUEUE,
      ...WHICH,
      state: { value: "s,…", short: "s", help: change.stateHelp },
      all: { help: change.allHelp },
      ...CONFIRM,
    },
    words: "any",
    run: (context) =>
      withDatabase(context, (database) =>
        saysWhich(context.args)
          ? changeMany(context, database, change)
          : changeNamed(context, database.storage, change),
      ),
  };
}
