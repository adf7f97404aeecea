import { type OptionSpecs, quoted } from "./arguments.ts";
import { UsageError } from "./failures.ts";

/** The keys of a job, as an option. */
export const KEYS = (help: string): OptionSpecs[string] => ({ value: "tenant=acme", many: true, help });

/** The keys that `--keys tenant=acme` gives, once for each; undefined: none. A value may contain `=`. */
export function keysIn(texts: readonly string[]): Readonly<Record<string, string>> | undefined {
  if (texts.length === 0) return undefined;
  const keys = texts.map((text): [string, string] => {
    const at = text.indexOf("=");
    if (at <= 0) throw new UsageError(`--keys takes name=value, such as tenant=acme, got ${quoted(text)}`);
    return [text.slice(0, at), text.slice(at + 1)];
  });
  return eachOnce("keys", keys);
}

/** The values of an option by their names. A name that is given twice is refused. */
export function eachOnce<T>(option: string, values: readonly [name: string, value: T][]): Readonly<Record<string, T>> {
  const twice = values.find(([name], i) => values.findIndex(([other]) => other === name) !== i);
  if (twice !== undefined) throw new UsageError(`--${option}: ${quoted(twice[0])} is there twice`);
  return Object.fromEntries(values);
}
