import { scrubAddresses } from "../core/scrub.ts";
import type { Io } from "./io.ts";

/** The text shown instead of an address. */
export const NOT_SHOWN = "(an address, not shown here)";

/**
 * The argument as it may be shown. Anything that can be an address is not shown, however it was quoted, cut or written: it may
 * contain a password, which belongs in the environment or in a file.
 */
export function shownWord(text: string): string {
  return mayBeAddress(text) ? NOT_SHOWN : text;
}

/** A URL; `user:password@host`; `host=… password=…`; a line of a password file. */
export function mayBeAddress(text: string): boolean {
  return isAddress(text) || /^\W{0,4}(?![a-z]:[\\/])[^/\\:@]{1,64}:[^]*@|^[^\s:/\\]*:[\d*]*:[^:]*:[^:]*:/i.test(text);
}

/** Names of jobs, groups and limits may look like some addresses; these they do not look like. */
function isAddress(text: string): boolean {
  return /[a-z]:\/\/|^\W{0,4}postgres(?:ql)?:|(?:password|passwd|pwd)\s*=/i.test(text);
}

/** An address with neither a user nor a password, which may be part of a message or of a job. */
function isHarmless(text: string): boolean {
  return scrubAddresses(text) === text && !text.includes("@");
}

export type Redact = (text: string) => string;

/** Takes out addresses that were typed or stand in the environment, wherever a text has them. */
export function redactor(argv: readonly string[], env: Io["env"]): Redact {
  const given = [...argv, ...argv.map((arg) => arg.slice(arg.indexOf("=") + 1)), ...Object.values(env)];
  const secret = given.filter((text) => text !== undefined && isAddress(text) && !isHarmless(text));
  const forms = new Set(secret.flatMap((text) => [text!, text!.trim(), JSON.stringify(text).slice(1, -1)]));
  const longestFirst = [...forms].toSorted((a, b) => b.length - a.length);
  return (text) => longestFirst.reduce((kept, form) => kept.replaceAll(form, NOT_SHOWN), text);
}

/** All output of a command leaves through here. */
export function redacting(io: Io, redact: Redact): Io {
  return { ...io, out: (text) => io.out(redact(text)), err: (text) => io.err(redact(text)) };
}
