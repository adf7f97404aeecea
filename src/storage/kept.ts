import type { BackoffPlan, ErrorRecord, JobKeys, JobProgress } from "../core/job.ts";
import { canonicalJson } from "../core/json.ts";

/*
 * Reads the parts of a job that databases keep as JSON. The text may be invalid: rows can be written by SQL.
 */

/** A stored error; a placeholder if it cannot be read. */
export function readError(text: string): ErrorRecord {
  const error = readObject(text) as ErrorRecord | null;
  if (error !== null && typeof error.name === "string" && typeof error.message === "string") return error;
  return { name: "Error", message: "what was kept of the error cannot be read" };
}

export const DEFAULT_BACKOFF: BackoffPlan = { kind: "exponential", initial: 1_000, max: 600_000 };

/** A cache of one plan: almost all jobs have the plan of the one before. */
let latestText = "";
let latestPlan: BackoffPlan = DEFAULT_BACKOFF;

/** A stored back-off plan; the default if it cannot be read. */
export function readBackoff(text: string): BackoffPlan {
  if (text !== latestText) {
    const plan = readObject(text) as BackoffPlan | null;
    latestPlan = plan !== null && isBackoff(plan) ? plan : DEFAULT_BACKOFF;
    latestText = text;
  }
  return latestPlan;
}

function isBackoff(plan: BackoffPlan): boolean {
  switch (plan.kind) {
    case "exponential":
      return isDelay(plan.initial) && isDelay(plan.max);
    case "fixed":
      return isDelay(plan.delay);
    case "custom":
      return typeof plan.name === "string";
    default:
      return false;
  }
}

const isDelay = (value: unknown): boolean => typeof value === "number" && value >= 0;

/** The stored weights of a job; null: none that can be read. */
export function readWeights(kept: unknown): Readonly<Record<string, number>> | null {
  const weights = typeof kept === "string" ? readObject(kept) : isObject(kept) ? kept : null;
  if (weights === null || !Object.values(weights).every((weight) => typeof weight === "number")) return null;
  return weights as Readonly<Record<string, number>>;
}

/** The keys of a job as text: the same for the same keys, in whatever order they were given. */
export function textOfKeys(keys: JobKeys): string {
  return canonicalJson(JSON.stringify(keys));
}

/** The keys of a job, as they were kept; undefined: none that can be read. */
export function readKeys(text: string): JobKeys | undefined {
  const keys = readObject(text);
  if (keys === null || !Object.values(keys).every((value) => typeof value === "string")) return undefined;
  return keys as JobKeys;
}

/** The stored progress of a job; null: none that can be read. */
export function readProgress(text: string): JobProgress | null {
  const progress = readObject(text) as JobProgress | null;
  return typeof progress?.percent === "number" ? progress : null;
}

/** The object in a JSON text; null if there is none. */
function readObject(text: string): object | null {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

const isObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value);
