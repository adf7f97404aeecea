import type { JobStorage } from "../../storage/job-storage.ts";
import type { LimitState } from "../../storage/limit-storage.ts";
import { Failure, UsageError } from "../failures.ts";
import { didYouMean } from "../nearest.ts";
import { printable } from "../render/text.ts";

/** The limit of this name, with the state of one group if so wanted. */
export async function foundLimit(storage: JobStorage, name: string, group: string | undefined): Promise<LimitState> {
  const [found] = await storage.limits.read({ name, group: group ?? null });
  if (found === undefined) {
    const names = (await storage.limits.read({ name: null, group: null })).map(({ rule }) => printable(rule.name));
    const hint = didYouMean(name, names, "limits");
    throw new Failure("SLUICE_LIMIT_NOT_FOUND", `there is no limit ${printable(name)}; ${hint}`);
  }
  if (group !== undefined && !found.rule.byGroup) throw new UsageError(`--group: ${printable(name)} is not by group`);
  return found;
}
