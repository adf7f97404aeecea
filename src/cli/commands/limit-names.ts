import {
  checkedValue,
  isGiven,
  KEY_OPTIONS,
  type LimitKey,
  namesGiven,
  valueBy,
} from "../../limiter/shared/limit-target.ts";
import { readOptions } from "../../core/options.ts";
import type { JobStorage } from "../../storage/job-storage.ts";
import type { LimitState } from "../../storage/limit-storage.ts";
import type { Arguments } from "../arguments.ts";
import { didYouMean, Failure, UsageError } from "../failures.ts";
import { keysIn } from "../named-values.ts";
import { printable } from "../render/text.ts";

/** A limit with the state of what was asked for. */
export interface FoundLimit {
  readonly limit: LimitState;
  /** The value of a group or keys; undefined: none was asked for. */
  readonly value: string | undefined;
}

/** What `--group` and `--keys` say. */
export function keyOption(args: Arguments): LimitKey {
  return readOptions("limits", KEY_OPTIONS, { group: args.text("group"), keys: keysIn(args.texts("keys")) });
}

/** The limit of this name, with the state of a group or of keys if so wanted. */
export async function foundLimit(
  storage: JobStorage,
  name: string,
  key: LimitKey = { group: undefined, keys: undefined },
): Promise<FoundLimit> {
  const guess = valueBy(namesGiven(key), key);
  const [found] = await storage.limits.read({ name, group: guess });
  if (found === undefined) {
    const names = (await storage.limits.read({ name: null, group: null })).map(({ rule }) => printable(rule.name));
    const hint = didYouMean(name, names, "limits");
    throw new Failure("SLUICE_LIMIT_NOT_FOUND", `there is no limit ${printable(name)}; ${hint}`);
  }
  if (!isGiven(key)) return { limit: found, value: undefined };
  if (!found.rule.byGroup) {
    const option = key.group === undefined ? "keys" : "group";
    throw new UsageError(`--${option}: ${printable(name)} is not by group or keys`);
  }
  const value = checkedValue("limits", found.rule, key);
  const [own = found] = value === guess ? [found] : await storage.limits.read({ name, group: value });
  return { limit: own, value: value ?? undefined };
}
