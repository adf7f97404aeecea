import { Queue } from "../../queue/queue.ts";
import type { UpdateOptions } from "../../queue/update.ts";
import { type Arguments, quoted } from "../arguments.ts";
import { answer, type Command, DATABASE } from "../command.ts";
import { withDatabase } from "../database.ts";
import { UsageError } from "../failures.ts";
import { KEYS, keysIn } from "../named-values.ts";
import { noSuchJob } from "../queues.ts";
import { printable } from "../render/text.ts";

/** What takes an option away. */
const NONE = "none";

export const edit: Command = {
  name: "edit",
  summary: "changes a job that has not started",
  usage: ["<id> [--priority n] [--delay 10m] [--data json] …"],
  about: "What is left out stays as it is. The word none takes an option away.",
  options: {
    ...DATABASE,
    priority: { value: "n", short: "p", help: "higher runs first" },
    delay: { value: "10m", help: "due so long from now; 0: now" },
    "run-at": { value: "time", help: "due at this instant, such as 2030-01-01T12:00:00Z" },
    data: { value: "json", help: "what its handler is given" },
    weight: { value: "n=5", short: "w", many: true, help: "what it weighs, once for each name; or none" },
    group: { value: "group", short: "g", help: "the group it is in, or none" },
    keys: KEYS("what limits count it by, once for each name: all of them; or none"),
    "max-attempts": { value: "n", help: "how many attempts, the first included" },
    timeout: { value: "30s", help: "how long one attempt may take, or none" },
    deadline: { value: "1h", help: "not to start or run after so long from now, or none" },
  },
  words: "one",
  run: (context) =>
    withDatabase(context, async ({ storage }) => {
      const [id] = context.args.words;
      if (id === undefined) throw new UsageError("which job? Say its id: sluice edit <id> --priority 5");
      const options = optionsOf(context.args);
      if (Object.keys(options).length === 0) throw new UsageError("what is to change? See sluice edit --help");
      const [job] = await storage.find([id]);
      if (job === undefined) throw noSuchJob(id);
      const { updated, state } = await new Queue(job.queue, { storage }).update(id, options);
      answer(context, { action: "edit", id, updated, state }, () =>
        updated
          ? `updated ${printable(id)}: it is ${state}\n`
          : `left ${printable(id)}: it is ${state}, and only waiting and scheduled jobs can be changed\n`,
      );
      return updated ? 0 : 1;
    }),
};

function optionsOf(args: Arguments): UpdateOptions {
  const [runAt, data, group] = [args.text("run-at"), args.text("data"), args.text("group")];
  const [priority, maxAttempts] = [args.text("priority"), args.text("max-attempts")];
  const options = {
    priority: priority === undefined ? undefined : numberIn("priority", priority),
    maxAttempts: maxAttempts === undefined ? undefined : numberIn("max-attempts", maxAttempts),
    delay: args.duration("delay"),
    runAt: runAt === undefined ? undefined : instantIn(runAt),
    data: data === undefined ? undefined : jsonIn(data),
    weights: weightsIn(args.texts("weight")),
    group: group === NONE ? null : group,
    keys: args.texts("keys").join() === NONE ? null : keysIn(args.texts("keys")),
    timeout: args.text("timeout") === NONE ? null : args.duration("timeout"),
    deadline: args.text("deadline") === NONE ? null : args.duration("deadline"),
  };
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

function numberIn(option: string, text: string): number {
  if (/^-?\d{1,15}$/.test(text)) return Number(text) + 0;
  throw new UsageError(`--${option} takes an integer, got ${quoted(text)}`);
}

function instantIn(text: string): Date {
  const at = new Date(text);
  if (!Number.isNaN(at.getTime())) return at;
  throw new UsageError(`--run-at takes an instant such as 2030-01-01T12:00:00Z, got ${quoted(text)}`);
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Not what was given: it may be secret.
    throw new UsageError("--data takes JSON; text is to be in double quotes: --data '\"text\"'");
  }
}

function weightsIn(texts: readonly string[]): Record<string, number> | null | undefined {
  if (texts.length === 0) return undefined;
  if (texts.length === 1 && texts[0] === NONE) return null;
  const weights = texts.map((text): [string, number] => {
    const at = text.lastIndexOf("=");
    if (at <= 0) throw new UsageError(`--weight takes name=number, such as tokens=1200, got ${quoted(text)}`);
    return [text.slice(0, at), numberIn("weight", text.slice(at + 1))];
  });
  return Object.fromEntries(weights);
}
