import { JobError, JobTimeoutError, PermanentJobError, RetryableJobError } from "./errors.ts";
import type { ErrorRecord } from "./job.ts";
import { scrub } from "./scrub.ts";
import { textOf } from "./text.ts";

const LONGEST_MESSAGE = 2_000;
const LONGEST_STACK = 8_000;
const UNREADABLE = "something that cannot be shown was thrown";

/** What is stored of a thrown value: bounded, without secrets. Reading the value may throw. */
export function recordError(thrown: unknown): ErrorRecord {
  try {
    return describe(thrown);
  } catch {
    // A proxy whose traps throw, for example.
    return { name: "Error", message: "a value that cannot be read was thrown" };
  }
}

function describe(thrown: unknown): ErrorRecord {
  if (!isErrorLike(thrown)) return { name: "Error", message: clean(textOf(thrown) ?? UNREADABLE, LONGEST_MESSAGE) };
  const { name, message, stack, code } = readError(thrown);
  return {
    name: clean(name ?? "Error", 100),
    message: clean(message ?? "", LONGEST_MESSAGE),
    ...(code !== undefined && { code: clean(code, 100) }),
    ...(stack !== undefined && { stack: clean(stack, LONGEST_STACK) }),
  };
}

/** The error of a record, for another process. The `cause` has the name and message of what was thrown. */
export function errorFrom(record: ErrorRecord): JobError {
  const cause = new Error(record.message);
  cause.name = record.name;
  if (record.stack !== undefined) cause.stack = record.stack;
  if (record.code === "SLUICE_PERMANENT") return new PermanentJobError(record.message, { cause });
  if (record.code === "SLUICE_RETRYABLE") return new RetryableJobError(record.message, undefined, { cause });
  if (record.code === "SLUICE_TIMEOUT") return new JobTimeoutError(record.message, { cause });
  return new JobError(record.message, { cause });
}

function isErrorLike(thrown: unknown): thrown is object {
  return typeof thrown === "object" && thrown !== null && "message" in thrown;
}

/** Reads what may be a getter that throws. */
function readError(thrown: object): { name?: string; message?: string; stack?: string; code?: string } {
  const read: Record<string, string> = {};
  for (const key of ["name", "message", "stack", "code"]) {
    try {
      const value = (thrown as Record<string, unknown>)[key];
      if (typeof value === "string" || typeof value === "number") read[key] = String(value);
    } catch {
      // A property that throws is left out.
    }
  }
  return read;
}

/** Cuts the text first, generously, and not within a word: half a secret could not be recognised. */
function cut(text: string, longest: number): string {
  const start = text.slice(0, longest);
  const word = text.length > longest ? /\S{1,512}$/.exec(start.slice(-513)) : null;
  return word === null || word[0].length === 512 ? start : start.slice(0, -word[0].length);
}

function clean(text: string, longest: number): string {
  const scrubbed = scrub(cut(text, longest * 2))
    .toWellFormed()
    .replaceAll("\u0000", "");
  return scrubbed.length > longest ? `${scrubbed.slice(0, longest - 1).toWellFormed()}…` : scrubbed;
}
