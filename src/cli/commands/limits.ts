import { answer, type Command, type Context, DATABASE } from "../command.ts";
import { withDatabase } from "../database.ts";
import type { Database } from "../opened.ts";
import { UsageError } from "../failures.ts";
import { KEYS } from "../named-values.ts";
import { historyJson, historyTable } from "../render/limit-history.ts";
import { limitJson, limitsTable, limitText } from "../render/limits.ts";
import { ACTIONS, isAction } from "./limit-actions.ts";
import { foundLimit, keyOption } from "./limit-names.ts";

export const limits: Command = {
  name: "limits",
  summary: "shared limits: what is used, what waits; changes and pauses them",
  usage: [
    "[name] [--group g] [--keys tenant=acme]… [--history]",
    "set <name> [--max n] [--per 1m] [--concurrency n] […]",
    "restore | resume | reset <name>",
    "pause <name> [--for 10m]",
    "remove <name> --yes",
    "define <file.json> [--version n] [--owner name] […]",
  ],
  about: [
    "What is set by hand holds until `restore`, or until a declaration brings other",
    "numbers than the one before. --history shows what was changed, when and by whom.",
    "`pause` lets nothing start; `resume` takes back whatever holds it: by hand, by",
    "a service, by a breaker. `reset` forgets what was counted. For a limit by group",
    "--group names one, for a limit by keys --keys. A limit that is called like an",
    "action: `limits show set`.",
  ].join("\n"),
  options: {
    ...DATABASE,
    group: { value: "group", short: "g", help: "of a limit by group: only this group" },
    keys: KEYS("of a limit by keys: only these, once for each name"),
    max: { value: "n", help: "set: at most so much" },
    per: { value: "1m", help: "set: in any window of this length" },
    concurrency: { value: "n", help: "set: at most so much at a time" },
    every: { value: "1s", help: "set: at least so long from one start to the next" },
    for: { value: "10m", help: "pause: goes on by itself after this" },
    "on-conflict": { value: "how", help: "define: update (default), keep or reject what was declared differently" },
    version: { value: "n", help: "define: the version; a lower one than the stored changes nothing" },
    owner: { value: "name", help: "define: remove what this owner declared before and does not now" },
    history: { help: "what was changed about it, or about all: the latest 100" },
    yes: { short: "y", help: "remove: do it" },
  },
  words: "any",
  run: (context) =>
    withDatabase(context, async (database) => {
      const [first, ...rest] = context.args.words;
      if (first !== undefined && isAction(first)) return ACTIONS[first](context, database, rest);
      const words = first === "show" && rest.length > 0 ? rest : context.args.words;
      refuseOptions(context);
      if (words.length > 1) {
        throw new UsageError(`there is no action "${words[0]}"; actions: show, ${Object.keys(ACTIONS).join(", ")}`);
      }
      if (context.args.flag("history")) return showHistory(context, database, words[0]);
      return words[0] === undefined ? showAll(context, database) : showOne(context, database, words[0]);
    }),
};

/** Options that say which state of a limit is meant. */
const KEYED = ["group", "keys"];

async function showAll(context: Context, { storage, look }: Database): Promise<number> {
  const { args } = context;
  for (const option of KEYED) {
    if (args.flag(option)) throw new UsageError(`--${option}: of which limit? sluice limits <name> --${option} …`);
  }
  const found = await storage.limits.read({ name: null, group: null });
  const now = await look.now();
  answer(context, { limits: found.map((limit) => limitJson(limit, now)) }, (surface) =>
    found.length === 0 ? "There are no limits: none is declared.\n" : limitsTable(found, now, surface),
  );
  return 0;
}

async function showOne(context: Context, { storage, look }: Database, name: string): Promise<number> {
  const { limit, value } = await foundLimit(storage, name, keyOption(context.args));
  const now = await look.now();
  answer(context, limitJson(limit, now, value), (surface) => limitText(limit, now, surface, value));
  return 0;
}

/** The history of one limit, also of one that was removed, or of all. */
async function showHistory(context: Context, { storage }: Database, name: string | undefined): Promise<number> {
  const { args } = context;
  for (const option of KEYED) if (args.flag(option)) throw new UsageError(`--${option} means nothing for --history`);
  const history = await storage.limits.history({ name: name ?? null, limit: 100 });
  if (name !== undefined && history.length === 0) await foundLimit(storage, name);
  answer(context, { name, history: historyJson(history) }, (surface) =>
    history.length === 0
      ? "Nothing was changed yet: no limit has been declared.\n"
      : historyTable(history, name !== undefined, surface),
  );
  return 0;
}

/** Refuses options of actions where no action is given. */
function refuseOptions({ args }: Context): void {
  for (const option of ["max", "per", "concurrency", "every", "for", "on-conflict", "version", "owner", "yes"]) {
    if (args.flag(option)) throw new UsageError(`--${option} says what to change; which action? sluice help limits`);
  }
}
