import type { JobState } from "../../core/job.ts";
import type { ChangeAction, JobStorage } from "../../storage/job-storage.ts";
import { answer, type Context } from "../command.ts";
import { UsageError } from "../failures.ts";
import { plural, printable } from "../render/text.ts";

/** The texts of an action. */
export interface ChangeWords {
  readonly action: ChangeAction;
  /** What has become of a job: `cancelled`. */
  readonly done: string;
  /** Completes "x is active: …" for a job that was left as it is. */
  readonly unless: string;
}

interface Changed {
  readonly changed: readonly string[];
  readonly unchanged: readonly { readonly id: string; readonly state: JobState }[];
  readonly notFound: readonly string[];
}

/** Does something to the jobs that were named, in whatever queue each is. Exit code 1 if one was left as it is. */
export async function changeNamed(context: Context, storage: JobStorage, words: ChangeWords): Promise<number> {
  const ids = [...new Set(context.args.words)];
  if (ids.length === 0)
    throw new UsageError(
      `which jobs? Say one id or more; \`sluice ${words.action} --help\` lists other ways to say which`,
    );
  const result = await changeAll(storage, words.action, ids);
  answer(context, { action: words.action, ...result }, () => changeText(result, words));
  return result.changed.length === ids.length ? 0 : 1;
}

async function changeAll(storage: JobStorage, action: ChangeAction, ids: readonly string[]): Promise<Changed> {
  const found = (await storage.find(ids)).filter((job) => job !== undefined);
  const changed = new Set<string>();
  for (const [queue, jobs] of Map.groupBy(found, (job) => job.queue)) {
    const done = await storage.change({ action, queue, ids: jobs.map(({ id }) => id) });
    for (const id of done) changed.add(id);
  }
  const known = new Set(found.map(({ id }) => id));
  return {
    changed: ids.filter((id) => changed.has(id)),
    unchanged: found.filter(({ id }) => !changed.has(id)).map(({ id, state }) => ({ id, state })),
    notFound: ids.filter((id) => !known.has(id)),
  };
}

function changeText({ changed, unchanged, notFound }: Changed, { done, unless }: ChangeWords): string {
  const lines = [
    ...changed.map((id) => `${done} ${printable(id)}`),
    ...unchanged.map(({ id, state }) => `left ${printable(id)}: it is ${state}, ${unless}`),
    ...notFound.map((id) => `not found ${printable(id)}`),
  ];
  const total = changed.length + unchanged.length + notFound.length;
  if (total > 1) lines.push(`${plural(changed.length, "job")} of ${total} ${done}.`);
  return lines.map((line) => `${line}\n`).join("");
}
