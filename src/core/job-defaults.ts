import type { Duration } from "./duration.ts";
import { OptionsError } from "./errors.ts";
import type { BackoffPlan } from "./job.ts";
import type { TypeOf } from "./job-map.ts";
import { nameText } from "./names.ts";
import {
  type Check,
  durationOrZero,
  isPlain,
  LARGEST_COUNT,
  oneOf,
  optional,
  positiveDuration,
  readArgument,
  readOptions,
  required,
  smallCount,
  weight,
} from "./options.ts";
import { DEFAULT_BACKOFF } from "./retry.ts";

/** How the delay before the next attempt is found. */
export type BackoffOption =
  /** Doubles from `initial` (default 1 s) up to `max` (default 10 minutes), with full jitter: the default. */
  | { readonly kind: "exponential"; readonly initial?: Duration; readonly max?: Duration }
  /** Always the same. */
  | { readonly kind: "fixed"; readonly delay: Duration }
  /** A strategy of your own, given to the workers under this name (`backoffs`). */
  | { readonly kind: "custom"; readonly name: string };

/** Options that a queue can set for its jobs: for all of them, or by type. */
export interface JobDefaults {
  /** Higher runs first; an integer, default 0. */
  readonly priority?: number | undefined;
  /** How many attempts a job has, the first included. Default 5. */
  readonly maxAttempts?: number | undefined;
  /** How long to wait after a failed attempt. Default: exponential from 1 s, at most 10 minutes, full jitter. */
  readonly backoff?: BackoffOption | undefined;
  /** How long one attempt may take; then its signal is aborted. Default: no timeout. */
  readonly timeout?: Duration | undefined;
  /** How long the job is kept once it has ended; 0: not at all. Default: a day, and 30 days if dead. */
  readonly keepFor?: Duration | undefined;
  /** What the job weighs under limits that count something else than starts: `{ tokens: 1200 }`. */
  readonly weights?: Readonly<Record<string, number>> | undefined;
  /** How long an idempotency key is kept, even if the job ends before. Default one day. */
  readonly idempotencyTtl?: Duration | undefined;
  /**
   * What to do when the idempotency key is taken. `"return"` (the default): answer with the earlier job if its payload is
   * the same, else fail. `"reject"`: fail. `"replace"`: take its place, unless it is running.
   */
  readonly onDuplicate?: "return" | "replace" | "reject" | undefined;
}

/**
 * Defaults of a queue: options for all of its jobs, and, under the name of a type, for those of that type:
 * `{ timeout: "1m", send_email: { maxAttempts: 3 } }`. An option of the job itself comes first, then one of its type, then one of the queue.
 * The name of an option is always that option, and cannot be a type here.
 */
export type QueueDefaults<Jobs> =
  string extends TypeOf<Jobs>
    ? JobDefaults | (JobDefaults & { readonly [type: string]: JobDefaults | JobDefaults[keyof JobDefaults] })
    : JobDefaults & { readonly [Type in Exclude<TypeOf<Jobs>, keyof JobDefaults>]?: JobDefaults | undefined };

/** Checked defaults: for all types, and by type. */
export interface ReadDefaults {
  /** The defaults for a job of this type. */
  of(type: string): JobDefaults;
}

const priority: Check<number> = {
  expected: `an integer from ${-LARGEST_COUNT} to ${LARGEST_COUNT}`,
  read: (value) =>
    typeof value === "number" && Number.isInteger(value) && Math.abs(value) <= LARGEST_COUNT && !Object.is(value, -0)
      ? value
      : undefined,
};

const weights: Check<Readonly<Record<string, number>>> = {
  expected: "a plain object of names and integer weights >= 1, such as { tokens: 1200 }",
  read: (value) => {
    if (!isPlain(value)) return undefined;
    const entries = Object.entries(value);
    const right = entries.every(([key, n]) => nameText.read(key) !== undefined && weight.read(n) !== undefined);
    return right && entries.length <= 32 ? Object.fromEntries(entries as [string, number][]) : undefined;
  },
};

const BACKOFFS = {
  exponential: {
    kind: required(oneOf("exponential")),
    initial: optional(positiveDuration, DEFAULT_BACKOFF.initial),
    max: optional(positiveDuration, DEFAULT_BACKOFF.max),
  },
  fixed: { kind: required(oneOf("fixed")), delay: required(durationOrZero) },
  custom: { kind: required(oneOf("custom")), name: required(nameText) },
} as const;

const backoff: Check<BackoffPlan> = {
  expected: 'an object with `kind: "exponential"`, `"fixed"` or `"custom"`',
  read: (value) => {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, "kind")) return undefined;
    const { kind } = value as { readonly kind: unknown };
    if (kind !== "exponential" && kind !== "fixed" && kind !== "custom") return undefined;
    const plan = readOptions("backoff", BACKOFFS[kind], value) as BackoffPlan;
    if (plan.kind === "exponential" && plan.max < plan.initial) {
      throw new OptionsError("backoff", "max", plan.max, `at least initial (${plan.initial})`);
    }
    return plan;
  },
};

const ONE_DAY = 86_400_000;

/** The options that defaults may set, with the built-in default of each. */
export const JOB_DEFAULTS = {
  priority: optional(priority, 0),
  maxAttempts: optional(smallCount, 5),
  backoff: optional(backoff, DEFAULT_BACKOFF),
  timeout: optional(positiveDuration),
  keepFor: optional(durationOrZero),
  weights: optional(weights),
  idempotencyTtl: optional(positiveDuration, ONE_DAY),
  onDuplicate: optional(oneOf("return", "replace", "reject"), "return"),
};

/** Checks defaults, all of them. */
export function readDefaults(owner: string, defaults: unknown): ReadDefaults {
  if (!isPlain(defaults))
    throw new OptionsError(owner, "defaults", defaults, "an object of options, and of options by type");
  const all: Record<string, unknown> = {};
  const types = new Map<string, JobDefaults>();
  for (const [key, value] of Object.entries(defaults)) {
    if (Object.hasOwn(JOB_DEFAULTS, key) || !isPlain(value)) {
      if (value !== undefined) all[key] = value;
      continue;
    }
    readArgument(`${owner} defaults`, "type", nameText, key);
    readOptions(`${owner} defaults.${key}`, JOB_DEFAULTS, value);
    types.set(key, value);
  }
  readOptions(`${owner} defaults`, JOB_DEFAULTS, all);
  for (const [type, own] of types) types.set(type, { ...all, ...given(own) });
  return { of: (type) => types.get(type) ?? all };
}

/** Without the options that are `undefined`. */
export function given<T extends object>(options: T): Partial<T> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Partial<T>;
}
