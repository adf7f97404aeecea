import { toMilliseconds } from "../../core/duration.ts";
import { OptionsError } from "../../core/errors.ts";
import { jobKeys } from "../../core/job-keys.ts";
import { nameText } from "../../core/names.ts";
import {
  anything,
  type Check,
  count,
  countOrZero,
  durationOrZero,
  oneOf,
  optional,
  readArgument,
  readOptions,
  weight,
} from "../../core/options.ts";
import { DEFAULT_QUEUE, type Values, type Work } from "./plan.ts";

/** A number of jobs in a unit of time, as the time from one to the next. */
const rate: Check<number> = {
  expected: 'a rate such as "5/s", "300/m" or "10/h"',
  read: (value) => {
    const [, many, unit] = (typeof value === "string" && /^(\d+(?:\.\d+)?)\/(ms|s|m|h|d)$/.exec(value)) || [];
    const everyMs = unit === undefined ? Number.NaN : toMilliseconds(`1${unit}`) / Number(many);
    return everyMs > 0 && everyMs <= 1e15 ? everyMs : undefined;
  },
};

const part: Check<number> = {
  expected: "a number from 0 to 100",
  read: (value) => (typeof value === "number" && value >= 0 && value <= 100 ? value : undefined),
};

const priority: Check<number> = {
  expected: "an integer",
  read: (value) => (Number.isSafeInteger(value) ? (value as number) : undefined),
};

/** How many groups or values of a key, or names and how often each comes by proportion. */
const values: Check<readonly (readonly [string, number])[] | number> = {
  expected: "an integer from 1 to 100000, or an object of names with a number > 0 for each",
  read: (value) => {
    if (typeof value === "number") return count.read(value) !== undefined && value <= 100_000 ? value : undefined;
    const shares = typeof value === "object" && value !== null ? Object.entries(value) : [];
    const right = shares.every(
      ([name, share]) => nameText.read(name) !== undefined && Number.isFinite(share) && share > 0,
    );
    return shares.length > 0 && right ? (shares as [string, number][]) : undefined;
  },
};

/** What one entry of `work` in a plan may say. The same words as options of the command, or nearly. */
const WORK = {
  type: optional(nameText, "work"),
  queue: optional(nameText, DEFAULT_QUEUE),
  priority: optional(priority, 0),
  jobs: optional(count, undefined),
  rate: optional(rate, undefined),
  arrivals: optional(oneOf("steady", "poisson"), undefined),
  burst: optional(countOrZero, 0),
  from: optional(durationOrZero, 0),
  groups: optional(values, undefined),
  keys: optional(anything, {}),
  duration: optional(durationOrZero, undefined),
  spread: optional(part, 0),
  weights: optional(anything, {}),
  used: optional(anything, {}),
};

/** The default duration of a job. */
const USUAL_MS = 100;

/** Reads one kind of work. `timed`: the simulation ends at some time, whatever is left. */
export function readWork(owner: string, given: unknown, timed: boolean): Work {
  const read = readOptions(owner, WORK, given);
  const { jobs, rate: everyMs, burst, arrivals } = read;
  if (jobs === undefined && everyMs === undefined && burst === 0) {
    throw new OptionsError(owner, "jobs", undefined, "given, or else `rate` or `burst`");
  }
  if (everyMs === undefined && arrivals !== undefined) {
    throw new OptionsError(owner, "arrivals", arrivals, "left out where there is no `rate`: all come at once");
  }
  if (everyMs === undefined && jobs !== undefined && burst > 0) {
    throw new OptionsError(owner, "burst", burst, "left out where there is no `rate`: all come at once");
  }
  if (jobs !== undefined && burst > jobs) throw new OptionsError(owner, "burst", burst, `at most \`jobs\`, ${jobs}`);
  if (jobs === undefined && everyMs !== undefined && !timed) {
    throw new OptionsError(owner, "jobs", undefined, "given, or else `for`: with `rate` alone they come for ever");
  }
  const weights = byName(owner, "weights", read.weights, weightRange);
  const used = byName(owner, "used", read.used, part);
  for (const name of Object.keys(used)) {
    if (!Object.hasOwn(weights, name)) {
      throw new OptionsError(owner, `used.${name}`, used[name], "left out where `weights` does not have that name");
    }
  }
  return {
    queue: read.queue,
    type: read.type,
    priority: read.priority,
    jobs: jobs ?? null,
    burst,
    everyMs: everyMs ?? null,
    arrivals: arrivals ?? "steady",
    fromMs: read.from,
    groups: read.groups === undefined ? null : valuesOf("g", read.groups),
    keys: keysOf(owner, read.keys),
    durationMs: read.duration ?? USUAL_MS,
    spread: read.spread,
    weights,
    used,
  };
}

/** So many values by turns, or the named ones by chance. */
function valuesOf(name: string, read: readonly (readonly [string, number])[] | number): Values {
  if (typeof read !== "number") return { shares: read, byTurns: false };
  return { shares: Array.from({ length: read }, (_, i): [string, number] => [`${name}${i + 1}`, 1]), byTurns: true };
}

/** The values of each key, which has to be one that a job can have. */
function keysOf(owner: string, given: unknown): Work["keys"] {
  const read = Object.entries(byName(owner, "keys", given, values));
  readArgument(owner, "keys", jobKeys, Object.fromEntries(read.map(([name]) => [name, name])));
  return Object.fromEntries(read.map(([name, one]) => [name, valuesOf(name, one)]));
}

/** One weight, or the least and the most. */
const weightRange: Check<readonly [number, number]> = {
  expected: `${weight.expected}, or two of them: the least and the most`,
  read: (value) => {
    const [least, most] = Array.isArray(value) && value.length === 2 ? (value as unknown[]) : [value, value];
    const range = [weight.read(least), weight.read(most)] as const;
    return range[0] !== undefined && range[1] !== undefined && range[0] <= range[1] ? [range[0], range[1]] : undefined;
  },
};

function byName<T>(owner: string, option: string, given: unknown, check: Check<T>): Readonly<Record<string, T>> {
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw new OptionsError(owner, option, given, "an object of names");
  }
  const read = Object.entries(given).map(([name, value]): [string, T] => [
    readArgument(owner, `name in \`${option}\``, nameText, name),
    readArgument(owner, `${option}.${name}`, check, value),
  ]);
  return Object.fromEntries(read);
}
