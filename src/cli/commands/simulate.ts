import type { LimitRule } from "../../limits/rule.ts";
import { answer, type Command, DATABASE } from "../command.ts";
import { withDatabase } from "../database.ts";
import type { Database } from "../opened.ts";
import { simulationJson, simulationText } from "../render/simulation.ts";
import { PLAN_OPTIONS, planFrom, WORK_OPTIONS } from "../simulate/flags.ts";
import { simulate as play } from "../simulate/simulate.ts";

export const simulate: Command = {
  name: "simulate",
  summary: "plays jobs against limits on a virtual clock: hours in seconds",
  usage: ['--limit "mail: 120 per 1m" --rate 5/s --for 2h …', "plan.json [--limit …] [--workers n] …"],
  about: [
    "Decides by the same code as workers do, and says how long jobs wait, what for,",
    "and what would be in the way next. A limit is a name, a colon, and parts with",
    'commas between: "120 per 1m", "200000 tokens per 1m", "2 at a time",',
    '"every 500ms", "types a b", "queues q", "by group", "estimate 1500".',
    "It needs no database, and changes nothing.",
  ].join("\n"),
  options: {
    ...PLAN_OPTIONS,
    ...WORK_OPTIONS,
    ...DATABASE,
    db: { value: "path|url", help: "under the limits that are stored in this database, too" },
    ascii: { help: "plots without characters that some terminals lack" },
  },
  words: "one",
  async run(context) {
    const { args } = context;
    const plan = planFrom(args);
    const stored = args.flag("db") || args.flag("db-file") ? await withDatabase(context, storedRules) : [];
    const simulation = await play({ ...plan, limits: together(stored, plan.limits) });
    answer(context, simulationJson(simulation), (surface) => simulationText(simulation, surface, args.flag("ascii")));
    return 0;
  },
};

async function storedRules({ storage }: Database): Promise<readonly LimitRule[]> {
  return (await storage.limits.read({ name: null, group: null })).map(({ rule }) => {
    // What holds a limit at this moment is by the clock of the database, and nothing to plan with.
    const { heldUntil: _held, blindUntil: _blind, ...numbers } = rule;
    return numbers;
  });
}

/** What was said here takes the place of what is stored under the same name. */
function together(stored: readonly LimitRule[], said: readonly LimitRule[]): readonly LimitRule[] {
  const names = new Set(said.map(({ name }) => name));
  return [...stored.filter(({ name }) => !names.has(name)), ...said];
}
