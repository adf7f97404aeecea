import type { JobRecord } from "../core/job.ts";
import type { Change, JobUpdate, ListQuery } from "./job-storage.ts";

/**
 * Can a database keep this text? U+0000 and lone surrogates it cannot, so no job has such an id or name. A driver would fail on it, or
 * look for another text.
 */
export function isKeepable(text: string | null): boolean {
  return text === null || (text.isWellFormed() && !text.includes("\u0000"));
}

type Found = JobRecord | undefined;

/** Finds jobs by those of the ids that can be kept. */
export async function findKeepable(
  ids: readonly string[],
  find: (ids: readonly string[]) => Promise<readonly Found[]>,
): Promise<readonly Found[]> {
  const asked = ids.filter(isKeepable);
  const found = (await find(asked)).values();
  return ids.map((id) => (isKeepable(id) ? found.next().value : undefined));
}

/** Can any job match? */
export function isListable({ queue, type, group }: Pick<ListQuery, "queue" | "type" | "group">): boolean {
  return isKeepable(queue) && isKeepable(type) && isKeepable(group);
}

/** The same change without ids that cannot exist; undefined: nothing is left. */
export function keepableChange(wanted: Change): Change | undefined {
  if ("ids" in wanted) return isKeepable(wanted.queue) ? { ...wanted, ids: wanted.ids.filter(isKeepable) } : undefined;
  return isListable({ queue: wanted.queue, ...wanted.where }) ? wanted : undefined;
}

/** Can there be such a job? */
export function isUpdatable({ queue, id }: JobUpdate): boolean {
  return isKeepable(queue) && isKeepable(id);
}
