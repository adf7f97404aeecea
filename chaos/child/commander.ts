import { Queue } from "../../src/queue/queue.ts";
import { JobNotFoundError } from "../../src/core/errors.ts";
import { JOB_STATES } from "../../src/core/job.ts";
import { hr } from "../history/entry.ts";
import { type House, textOf } from "./house.ts";
import { sleep } from "./sleep.ts";
import type { CommanderSpec } from "./spec.ts";

/** Gives the commands of operators to jobs, at random, while they run: cancel, remove, retry, promote, pause, drain, purge. */
export async function command({ storage, recorder, chance, leave }: House, spec: CommanderSpec): Promise<void> {
  const queue = new Queue(spec.queue, { storage });
  const anyJob = async () => {
    const state = chance.pick(JOB_STATES)!;
    const { jobs } = await queue.list({ state, limit: 50 });
    return chance.pick(jobs)?.id;
  };
  const commands: (() => Promise<unknown>)[] = [
    ...(["cancel", "remove", "retry", "promote"] as const).map((action) => async () => {
      const id = await anyJob();
      if (id !== undefined) await queue[action](id);
    }),
    () => queue.drain(),
    () => queue.purge({ olderThan: chance.integer(0, 500) }),
    () => queue.redrive({ all: true }),
    async () => {
      await queue.pause();
      await sleep(20);
      await queue.resume();
    },
  ];
  recorder.write({ op: "process", phase: "info", kind: "ready", text: "", value: 0 });
  const end = hr() + spec.forMs;
  while (hr() < end) {
    try {
      // Commands that change all jobs come more seldom.
      await commands[chance.chance(0.85) ? chance.integer(0, 3) : chance.integer(4, commands.length - 1)]!();
    } catch (error) {
      if (error instanceof JobNotFoundError) continue;
      recorder.write({ op: "process", phase: "info", kind: "error", text: textOf(error), value: 0 });
    }
    await sleep(chance.integer(1, 15));
  }
  await queue.resume();
  await leave();
}
