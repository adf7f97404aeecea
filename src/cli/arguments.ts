import { parseArgs } from "node:util";
import { toMilliseconds } from "../core/duration.ts";
import { JOB_STATES, type JobState } from "../core/job.ts";
import { didYouMean, UsageError } from "./failures.ts";
import { mayBeAddress, NOT_SHOWN } from "./redact.ts";

/** One option of a command. */
export interface OptionSpec {
  /** What stands for its value in the help; without one it is a flag. */
  readonly value?: string;
  readonly short?: string;
  /** It may be given several times. */
  readonly many?: true;
  readonly help: string;
}

export type OptionSpecs = Readonly<Record<string, OptionSpec>>;

export interface IntegerRange {
  readonly least: number;
  readonly most: number;
  readonly fallback: number;
}

/** The command line, checked against the options of the command. */
export class Arguments {
  /** What is not an option: ids, mostly. */
  readonly words: readonly string[];
  readonly #values: ReadonlyMap<string, readonly (string | true)[]>;

  constructor(words: readonly string[], values: ReadonlyMap<string, readonly (string | true)[]>) {
    this.words = words;
    this.#values = values;
  }

  flag(name: string): boolean {
    return this.#values.has(name);
  }

  text(name: string): string | undefined {
    return this.texts(name).at(-1);
  }

  /** All values of an option that may be given several times, in order. */
  texts(name: string): readonly string[] {
    return (this.#values.get(name) ?? []).filter((value) => value !== true);
  }

  integer(name: string, { least, most, fallback }: IntegerRange): number {
    const text = this.text(name);
    if (text === undefined) return fallback;
    const value = Number(text);
    if (!/^\d{1,15}$/.test(text) || value < least || value > most) {
      throw new UsageError(`expected --${name} to be an integer from ${least} to ${most}, got ${quoted(text)}`);
    }
    return value;
  }

  /** In milliseconds. */
  duration(name: string): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const ms = text === "0" ? 0 : toMilliseconds(text);
    if (!(ms >= 0 && ms <= LONGEST_MS)) {
      throw new UsageError(`expected --${name} to be a duration such as 250ms, 5s, 1m, 2h or 7d, got ${quoted(text)}`);
    }
    return ms;
  }

  /** States with commas between them. */
  states(name: string): readonly JobState[] | undefined {
    return this.text(name)
      ?.split(",")
      .map((word) => {
        const state = JOB_STATES.find((known) => known === word.trim());
        if (state !== undefined) return state;
        throw new UsageError(`--${name}: there is no state ${quoted(word)}; ${didYouMean(word, JOB_STATES, "states")}`);
      });
  }
}

/** A thousand years: instants that far away can still be written down. */
const LONGEST_MS = 365_250 * 86_400_000;

/** Reads a command line by the options of a command. Anything else is refused. */
export function readArguments(args: readonly string[], specs: OptionSpecs): Arguments {
  const { tokens, positionals } = parseArgs({
    args: [...args],
    options: Object.fromEntries(
      Object.entries(specs).map(([name, { value, short }]) => [
        name,
        { type: value === undefined ? "boolean" : "string", ...(short !== undefined && { short }) } as const,
      ]),
    ),
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const values = new Map<string, (string | true)[]>();
  for (const token of tokens) {
    if (token.kind !== "option") continue;
    const spec = Object.hasOwn(specs, token.name) ? specs[token.name] : undefined;
    if (spec === undefined) {
      const hint = didYouMean(token.name, Object.keys(specs), "options").replace("mean ", "mean --");
      throw new UsageError(`there is no option ${quoted(token.rawName)}; ${hint}`);
    }
    const value = valueOf(token, spec);
    values.set(token.name, [...(spec.many === true ? (values.get(token.name) ?? []) : []), value]);
  }
  return new Arguments(positionals, values);
}

interface OptionToken {
  readonly rawName: string;
  readonly value: string | undefined;
  readonly inlineValue: boolean | undefined;
}

function valueOf({ rawName, value, inlineValue }: OptionToken, spec: OptionSpec): string | true {
  if (spec.value === undefined) {
    if (value !== undefined) throw new UsageError(`${rawName} is a flag and takes no value`);
    return true;
  }
  // What looks like the next option was hardly meant as the value of this one.
  const missing = value === undefined || value === "" || (inlineValue !== true && value.startsWith("-"));
  if (missing) throw new UsageError(`${rawName} needs a value: ${rawName} <${spec.value}>`);
  return value;
}

/** What was typed, as it can be shown again: short, never a line of its own, and never an address. */
export function quoted(text: string): string {
  if (mayBeAddress(text)) return NOT_SHOWN;
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
}
