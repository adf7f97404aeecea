import type { JobState } from "../../core/job.ts";
import { Queue } from "../../queue/queue.ts";
import type { ChangeAllOptions } from "../../queue/bulk.ts";
import type { Arguments, OptionSpecs } from "../arguments.ts";
import { answer, type Context, OF_TYPE_AND_GROUP } from "../command.ts";
import { Failure, UsageError } from "../failures.ts";
import type { Database } from "../opened.ts";
import { chosenQueue } from "../queues.ts";
import { plural, printable } from "../render/text.ts";

/** Options that say which jobs of a queue. */
export const WHICH: OptionSpecs = {
  ...OF_TYPE_AND_GROUP,
  key: { value: "key", short: "k", help: "only the job that has this idempotency key now" },
};

/** Options of work on many jobs. */
export const CONFIRM: OptionSpecs = {
  yes: { short: "y", help: "do it, without asking" },
  "dry-run": { help: "only count" },
};

/** What is done to many jobs, and the words for it. */
export interface ManyWords {
  readonly action: "cancel" | "remove" | "drain";
  /** What will become of jobs: "this cancels 3 jobs". */
  readonly does: string;
  /** What has become of them. */
  readonly done: string;
  /** The states of jobs that it applies to. */
  readonly states: readonly JobState[];
}

/** Was it said, in words of `WHICH` or beside them, which jobs are meant? */
export function saysWhich(args: Arguments): boolean {
  return ["type", "group", "key", "state", "all"].some((option) => args.flag(option));
}

/** At a terminal, a change of many jobs needs `--yes`. */
export function askForYes({ args, io }: Context, does: string, found: number, queue: string): void {
  if (!io.interactive || args.flag("yes")) return;
  throw new Failure("SLUICE_UNCONFIRMED", `this ${does} ${plural(found, "job")} of ${queue}: say --yes to do it`);
}

/** Counts them, asks for `--yes` at a terminal, and does it in small steps, which Ctrl-C stops. */
export async function changeMany(context: Context, { storage, look }: Database, words: ManyWords): Promise<number> {
  const { args, io } = context;
  if (args.words.length > 0) throw new UsageError("say ids, or which jobs, not both");
  const { action, done, does } = words;
  const [type, group, key] = [args.text("type"), args.text("group"), args.text("key")];
  const states = action === "drain" ? words.states : (args.states("state") ?? words.states);
  const wrong = states.find((state) => !words.states.includes(state));
  if (wrong !== undefined)
    throw new UsageError(`${wrong} jobs cannot be ${done}; say one of ${words.states.join(", ")}`);
  const { queue } = await chosenQueue(context, storage);
  const found = await count();
  if (args.flag("dry-run")) {
    answer(
      context,
      { action, queue, found, changed: 0 },
      () => `${plural(found, "job")} of ${printable(queue)} would be ${done}\n`,
    );
    return 0;
  }
  askForYes(context, does, found, queue);
  const signal = io.interrupted();
  const shows = io.terminal && !context.json;
  let changed = 0;
  const onProgress = (now: number) => {
    changed = now;
    if (shows && found > now) io.err(`\r${now} of ${found} ${done}`);
  };
  const options: ChangeAllOptions = { type, group, idempotencyKey: key, signal, onProgress };
  const jobs = new Queue(queue, { storage });
  try {
    if (action === "drain") changed = await jobs.drain(options);
    else if (action === "cancel") changed = await jobs.cancelAll({ ...options, state: states });
    else changed = await jobs.removeAll({ ...options, state: states });
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new Failure("SLUICE_INTERRUPTED", `stopped after ${plural(changed, "job")} of ${found} ${done}`);
  } finally {
    if (shows && found > changed) io.err("\r\u001b[K");
  }
  answer(
    context,
    { action, queue, found, changed },
    () => `${done} ${plural(changed, "job")} of ${printable(queue)}\n`,
  );
  return 0;

  async function count(): Promise<number> {
    if (key === undefined) {
      return look.count({ queue, states, type: type ?? null, group: group ?? null, endedForMs: null });
    }
    const job = await storage.findByKey(queue, key);
    const fits = (type === undefined || job?.type === type) && (group === undefined || job?.group === group);
    return job !== undefined && fits && states.includes(job.state) ? 1 : 0;
  }
}
