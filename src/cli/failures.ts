import { LimitConflictError, LimitNotFoundError, OptionsError } from "../core/errors.ts";
import { recordError } from "../core/error-record.ts";
import { nearest } from "../core/nearest.ts";
import { scrubAddresses } from "../core/scrub.ts";
import type { Redact } from "./redact.ts";

/** The command line is wrong. Exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
  readonly code = "SLUICE_USAGE";
}

/** What was asked for cannot be done, or is not there. Exit code 1. */
export class Failure extends Error {
  override readonly name = "Failure";
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** The end of a message about an unknown word: the nearest known word, or all of them. */
export function didYouMean(word: string, known: readonly string[], what: string): string {
  const near = nearest(word, known);
  if (near !== undefined) return `did you mean ${near}?`;
  return known.length === 0 ? `there are no ${what}` : `${what}: ${known.join(", ")}`;
}

/** Messages that quote the command line; they are not redacted as secrets. */
const OWN_WORDS = [UsageError, Failure, OptionsError, LimitConflictError, LimitNotFoundError];
const LONGEST = 2_000;

/** What is shown of an error: short, and without secrets from a service, a driver or an address. */
export function shownOf(thrown: unknown, redact: Redact): { readonly code: string; readonly message: string } {
  const { message, code = "SLUICE_FAILED" } = recordError(thrown);
  if (!(thrown instanceof Error) || !OWN_WORDS.some((own) => thrown instanceof own)) return { code, message };
  return { code, message: scrubAddresses(redact(thrown.message)).slice(0, LONGEST) };
}
