import { OptionsError } from "../../core/errors.ts";
import { type Arguments, type OptionSpecs, quoted } from "../arguments.ts";
import { UsageError } from "../failures.ts";
import { readJsonFile } from "../json-file.ts";
import { eachOnce } from "../named-values.ts";
import { readLimitText } from "./limit-text.ts";
import type { Plan } from "./plan.ts";
import { readPlan } from "./read-plan.ts";

/** Options that stand for an entry of `work`. A plan in a file has its own. */
export const WORK_OPTIONS: OptionSpecs = {
  jobs: { value: "n", help: "how many jobs in all; without --rate they come at once" },
  rate: { value: "5/s", help: "how many come in a second, minute (/m) or hour (/h)" },
  arrivals: { value: "how", help: "steady (default), or poisson: by chance" },
  burst: { value: "n", help: "so many of them come at the beginning, at once" },
  type: { value: "type", short: "t", help: "their type (default work)" },
  "group-count": { value: "n", help: "they belong to so many groups, by turns" },
  "key-count": {
    value: "tenant=5",
    many: true,
    help: "they have a key with so many values, by turns; may be repeated",
  },
  duration: { value: "200ms", help: "how long each runs (default 100ms)" },
  spread: { value: "0.5", help: "by chance, log-normal: how far off most are, as a part of the duration (default 0)" },
  weight: { value: "tokens=1200", many: true, help: "what each weighs; tokens=200..2000 by chance; may be repeated" },
  used: { value: "tokens=0.6", many: true, help: "what part of it is really used; may be repeated" },
};

/** Options that hold for the whole simulation, whether or not there is a plan. */
export const PLAN_OPTIONS: OptionSpecs = {
  limit: { value: "text", many: true, help: 'a limit: "mail: 120 per 1m, types send_email"; may be repeated' },
  limits: { value: "file", help: "a JSON file with limits, as given to defineLimits" },
  workers: { value: "n", help: "how many workers (default 1)" },
  concurrency: { value: "n", help: "jobs at a time in each of them (default 10)" },
  for: { value: "2h", help: "ends after so long; else when all is done" },
  seed: { value: "n", help: "the same seed, the same result (default 1)" },
  "max-jobs": { value: "n", help: "stops adding jobs after so many (default 200000)" },
};

/** Where the names differ from those in a plan. */
const FLAG_OF: Readonly<Record<string, string>> = {
  groups: "group-count",
  keys: "key-count",
  weights: "weight",
  maxJobs: "max-jobs",
};
const TEXTS = new Set(["rate", "arrivals", "type", "duration", "for"]);

/** The plan that a command line describes: from a file, or by options alone. */
export function planFrom(args: Arguments): Plan {
  const [file] = args.words;
  const work = given(args, WORK_OPTIONS);
  const settings = given(args, PLAN_OPTIONS);
  const limits = limitsFrom(args);
  if (file === undefined) {
    if (Object.keys(work).length === 0) {
      throw new UsageError("which jobs? Say --jobs, --rate or --burst, or give a file: sluice simulate plan.json");
    }
    return named(() => readPlan("simulate", { ...settings, limits, work: [work] }));
  }
  const [extra] = Object.keys(work);
  if (extra !== undefined)
    throw new UsageError(`--${FLAG_OF[extra] ?? extra}: the plan says which jobs there are; leave it out`);
  const plan = readJsonFile(file);
  if (typeof plan !== "object" || plan === null || Array.isArray(plan)) throw new UsageError(`${file} holds no plan`);
  // What the command line says holds, so that one plan can be tried in several ways.
  const own = "limits" in plan && typeof plan.limits === "object" ? plan.limits : {};
  return readPlan(file, { ...plan, ...settings, limits: { ...own, ...limits } });
}

/** Options that were given, by the names and kinds of a plan. */
function given(args: Arguments, specs: OptionSpecs): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const [flag, { many }] of Object.entries(specs)) {
    const text = args.text(flag);
    if (text === undefined || flag === "limit" || flag === "limits") continue;
    const name = Object.keys(FLAG_OF).find((key) => FLAG_OF[key] === flag) ?? flag;
    values[name] = many === true ? byName(flag, args.texts(flag)) : TEXTS.has(flag) ? text : numberIn(flag, text);
  }
  return values;
}

function limitsFrom(args: Arguments): Readonly<Record<string, unknown>> {
  const file = args.text("limits");
  const stored = file === undefined ? {} : readJsonFile(file);
  if (typeof stored !== "object" || stored === null || Array.isArray(stored)) {
    throw new UsageError(`${file} holds no limits: expected an object of names, as given to defineLimits`);
  }
  const said = args.texts("limit").map((text): [string, unknown] => {
    const { name, definition } = readLimitText(text);
    return [name, definition];
  });
  return { ...stored, ...eachOnce("limit", said) };
}

/** `tokens=1200`, `tokens=200..2000`. */
function byName(flag: string, texts: readonly string[]): Readonly<Record<string, unknown>> {
  const values = texts.map((text): [string, unknown] => {
    const [, name, least, most] = /^([^=]+)=([\d.]+?)(?:\.\.([\d.]+))?$/.exec(text) ?? [];
    if (name === undefined || least === undefined) {
      throw new UsageError(`expected --${flag} to be a name and a number such as tokens=1200, got ${quoted(text)}`);
    }
    return [name, most === undefined ? numberIn(flag, least) : [numberIn(flag, least), numberIn(flag, most)]];
  });
  return eachOnce(flag, values);
}

function numberIn(flag: string, text: string): number {
  if (/^\d+(?:\.\d+)?$/.test(text) && text.length <= 20) return Number(text);
  throw new UsageError(`expected --${flag} to be a number, got ${quoted(text)}`);
}

/** Errors use the names of the options that were given. */
function named<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof OptionsError) || error.option.includes("`") || !error.message.startsWith("simulate:"))
      throw error;
    const [option = "", ...rest] = error.option.split(".");
    const flag = [FLAG_OF[option] ?? option, ...rest].join(" ");
    const got =
      error.value === undefined
        ? ""
        : `, got ${quoted(typeof error.value === "string" ? error.value : JSON.stringify(error.value))}`;
    throw new UsageError(`expected --${flag} to be ${error.expected.replaceAll(/`(\w+)`/g, flagged)}${got}`);
  }
}

const flagged = (_: string, option: string) => `--${FLAG_OF[option] ?? option}`;
