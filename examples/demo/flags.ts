import { parseArgs } from "node:util";
import type { Quota } from "./quota.ts";

/** What the demo is asked to do. Times are in milliseconds. */
export interface Flags extends Quota {
  readonly calls: number;
  readonly guard: number;
  readonly unlimited: boolean;
}

export const HELP = `Calls a local service that has a quota, as fast as the quota allows and never faster.

Usage: npm start -- [flags]

  --calls N        how many calls to make (default 450)
  --quota N        how many calls the service allows in any window (default 150)
  --window MS      the length of the window (default 4000)
  --concurrency N  how many calls the service allows at the same time (default 15)
  --guard MS       what the limiter adds to the window, for calls that are
                   not equally long under way (default 90)
  --unlimited      the same calls without a limiter, to see what happens
  --help           this text
`;

/** A flag that cannot be right. */
export class FlagError extends Error {}

/** Reads the command line; undefined: help was asked for. */
export function readFlags(args: readonly string[]): Flags | undefined {
  const values = parse(args);
  if (values.help) return undefined;
  return {
    calls: integer("calls", values.calls, 1, 100_000),
    quota: integer("quota", values.quota, 1, 100_000),
    windowMs: integer("window", values.window, 100, 60_000),
    concurrency: integer("concurrency", values.concurrency, 1, 500),
    guard: integer("guard", values.guard, 0, 60_000),
    unlimited: values.unlimited,
  };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        calls: { type: "string", default: "450" },
        quota: { type: "string", default: "150" },
        window: { type: "string", default: "4000" },
        concurrency: { type: "string", default: "15" },
        guard: { type: "string", default: "90" },
        unlimited: { type: "boolean", default: false },
        help: { type: "boolean", short: "h", default: false },
      },
    }).values;
  } catch (error) {
    throw new FlagError(error instanceof Error ? error.message : String(error));
  }
}

function integer(flag: string, text: string, least: number, most: number): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < least || value > most) {
    throw new FlagError(`Expected --${flag} to be an integer from ${least} to ${most}, got '${text}'.`);
  }
  return value;
}
