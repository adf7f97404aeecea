import { nameText } from "../../core/names.ts";
import { readArgument } from "../../core/options.ts";
import { readLimits } from "../../limits/define.ts";
import { labelOf } from "../../limits/rule.ts";
import { Limits } from "../../limiter/shared/limits.ts";
import type { LimitKeyOptions } from "../../limiter/shared/limit-target.ts";
import { declaredText, outcomesOf } from "../../storage/declaring.ts";
import type { OnConflict } from "../../storage/limit-storage.ts";
import { answer, type Context } from "../command.ts";
import type { Database } from "../opened.ts";
import { Failure, UsageError } from "../failures.ts";
import { readJsonFile } from "../json-file.ts";
import { allowanceText, limitWords } from "../render/limit-words.ts";
import { limitJson } from "../render/limits.ts";
import { plural, printable } from "../render/text.ts";
import { duration } from "../render/time.ts";
import { foundLimit, keyOption } from "./limit-names.ts";

type Action = (context: Context, database: Database, words: readonly string[]) => Promise<number>;

/** What can be done to limits, by the word for it. */
export const ACTIONS = { set, restore, pause, resume, reset, remove, define } satisfies Record<string, Action>;

export function isAction(word: string): word is keyof typeof ACTIONS {
  return Object.hasOwn(ACTIONS, word);
}

async function set(context: Context, database: Database, words: readonly string[]): Promise<number> {
  const name = readName(context, "set", words, ["max", "per", "concurrency", "every", "group", "keys"]);
  const { args } = context;
  const change = {
    max: numberOf(context, "max"),
    per: args.duration("per"),
    concurrency: numberOf(context, "concurrency"),
    every: args.duration("every"),
  };
  if (Object.values(change).every((value) => value === undefined)) {
    throw new UsageError("set what? Say --max, --per, --concurrency or --every");
  }
  return apply(context, database, name, (limits, key) => limits.change(name, change, key), "set");
}

async function restore(context: Context, database: Database, words: readonly string[]): Promise<number> {
  const name = readName(context, "restore", words, []);
  return apply(context, database, name, (limits) => limits.restore(name), "restored");
}

async function pause(context: Context, database: Database, words: readonly string[]): Promise<number> {
  const name = readName(context, "pause", words, ["for", "group", "keys"]);
  const forMs = context.args.duration("for");
  const keyed = ["group", "keys"].find((option) => context.args.flag(option));
  if (forMs === undefined && keyed !== undefined) {
    throw new UsageError(`--${keyed} needs --for: without an end the whole limit is paused`);
  }
  return apply(
    context,
    database,
    name,
    (limits, key) => limits.pause(name, forMs === undefined ? {} : { for: forMs, ...key }),
    forMs === undefined ? "paused" : `paused for ${duration(forMs)}:`,
  );
}

async function resume(context: Context, database: Database, words: readonly string[]): Promise<number> {
  const name = readName(context, "resume", words, []);
  return apply(context, database, name, (limits) => limits.resume(name), "resumed");
}

async function reset(context: Context, database: Database, words: readonly string[]): Promise<number> {
  const name = readName(context, "reset", words, ["group", "keys"]);
  return apply(context, database, name, (limits, key) => limits.reset(name, key), "reset");
}

async function remove(context: Context, { storage }: Database, words: readonly string[]): Promise<number> {
  const name = readName(context, "remove", words, ["yes"]);
  const {
    limit: { waiting },
  } = await foundLimit(storage, name);
  if (!context.args.flag("yes")) {
    const free = waiting === 0 ? "" : `, and ${plural(waiting, "job")} would no longer wait for it`;
    throw new Failure("SLUICE_UNCONFIRMED", `this removes the limit ${printable(name)}${free}: say --yes to do it`);
  }
  const removed = await new Limits(storage, { by: operator(context) }).remove(name);
  answer(context, { name, removed }, () => `removed ${printable(name)}\n`);
  return removed ? 0 : 1;
}

async function define(context: Context, { storage }: Database, words: readonly string[]): Promise<number> {
  const [file] = words;
  if (file === undefined || words.length > 1) throw new UsageError("which file? sluice limits define <file.json>");
  refuseOptions(context, "define", ["on-conflict", "version", "owner"]);
  const { rules } = readLimits(file, readJsonFile(file));
  const came = await storage.limits.define(rules, {
    onConflict: onConflict(context),
    version: numberOf(context, "version"),
    owner: ownerOf(context),
    by: operator(context),
  });
  const names = rules.map((rule) => rule.name);
  answer(context, { defined: names, ...came }, () => {
    const defined = `defined ${plural(names.length, "limit")}: ${names.map((name) => printable(name)).join(", ")}`;
    const outcomes = outcomesOf(came).map((one) => printable(declaredText(one)));
    return [defined, ...outcomes, ""].join("\n");
  });
  return 0;
}

/** The user that runs the command, for the history of limits. */
function operator({ io }: Context): string {
  const user = nameText.read(io.env["USER"] ?? io.env["LOGNAME"] ?? io.env["USERNAME"]);
  return user === undefined || user.length > 200 ? "cli" : `cli ${user}`;
}

function ownerOf({ args }: Context): string | undefined {
  return args.flag("owner") ? readArgument("limits define", "owner", nameText, args.text("owner")) : undefined;
}

/** Changes a limit, and shows what has become of it. */
async function apply(
  context: Context,
  { storage, look }: Database,
  name: string,
  act: (limits: Limits, key: LimitKeyOptions) => Promise<unknown>,
  done: string,
): Promise<number> {
  const key = keyOption(context.args);
  await foundLimit(storage, name, key);
  await act(new Limits(storage, { by: operator(context) }), key);
  const { limit, value } = await foundLimit(storage, name, key);
  const now = await look.now();
  answer(context, limitJson(limit, now, value), () => {
    const words = `${allowanceText(limit.rule, value ?? null)}, ${limitWords(limit, now, value).text}`;
    return `${done} ${printable(labelOf(name, value ?? null))}: ${words}\n`;
  });
  return 0;
}

/** The name of the limit. Refuses options other than these. */
function readName(context: Context, action: string, words: readonly string[], options: readonly string[]): string {
  const [name, more] = words;
  if (name === undefined) throw new UsageError(`which limit? sluice limits ${action} <name>`);
  if (more !== undefined) throw new UsageError(`one limit at a time: sluice limits ${action} <name>`);
  refuseOptions(context, action, options);
  return name;
}

const OWN = [
  "max",
  "per",
  "concurrency",
  "every",
  "for",
  "on-conflict",
  "version",
  "owner",
  "yes",
  "group",
  "keys",
  "history",
];

/** Refuses options that do nothing here: they were meant for something else. */
function refuseOptions({ args }: Context, action: string, allowed: readonly string[]): void {
  const extra = OWN.find((option) => args.flag(option) && !allowed.includes(option));
  if (extra !== undefined) throw new UsageError(`--${extra} means nothing for \`limits ${action}\``);
}

function numberOf({ args }: Context, option: string): number | undefined {
  return args.flag(option) ? args.integer(option, { least: 0, most: 1e15, fallback: 0 }) : undefined;
}

function onConflict({ args }: Context): OnConflict {
  const word = args.text("on-conflict") ?? "update";
  if (word === "update" || word === "keep" || word === "reject") return word;
  throw new UsageError(`expected --on-conflict to be update, keep or reject, got "${printable(word)}"`);
}
