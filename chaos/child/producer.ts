import { Queue } from "../../src/queue/queue.ts";
import type { AddOptions } from "../../src/queue/add-options.ts";
import { hr } from "../history/entry.ts";
import { type House, textOf } from "./house.ts";
import { sleep } from "./sleep.ts";
import type { ProducerSpec, Work } from "./spec.ts";

/** So much later, as a delay or as an instant. */
const laterBy = (ms: number, given: boolean): AddOptions =>
  given ? { runAt: new Date(Date.now() + ms) } : { delay: ms };

/** Adds jobs for a while. */
export async function produce({ storage, recorder, chance, leave }: House, spec: ProducerSpec): Promise<void> {
  const { queue: name, maxAttempts, bulk, keyMs, groups, delayed = 0, given = 0, priority = 0, bytes } = spec;
  const backoff = { kind: "fixed", delay: 50 } as const;
  const queue = new Queue<Record<string, { data: Work; result: unknown }>>(name, {
    storage,
    defaults: { maxAttempts, backoff },
  });
  const options = (): AddOptions => ({
    priority,
    ...(keyMs !== undefined && { idempotencyKey: `key-${Math.floor(hr() / keyMs)}` }),
    ...(groups !== undefined && { group: `group-${chance.integer(1, groups)}` }),
    ...(chance.chance(delayed) && laterBy(chance.integer(1, 500), chance.chance(given))),
  });
  const more = bytes === undefined ? {} : { padding: "x".repeat(bytes) };
  const one = () => ({
    type: "work",
    data: { ...(keyMs === undefined ? chance.pick(spec.work)! : spec.work[0]!), ...more },
    options: options(),
  });
  recorder.write({ op: "process", phase: "info", kind: "ready", text: "", value: 0 });
  const begin = hr();
  let added = 0;
  while (hr() - begin < spec.forMs) {
    try {
      if (bulk !== undefined && chance.chance(bulk.probability)) {
        await queue.addBulk(Array.from({ length: bulk.size }, one));
        added += bulk.size;
      } else {
        const { type, data, options: own } = one();
        await queue.add(type, data, own);
        added += 1;
      }
    } catch (error) {
      recorder.write({ op: "process", phase: "info", kind: "error", text: textOf(error), value: 0 });
    }
    const ahead = (added / spec.perSecond) * 1_000 - (hr() - begin);
    if (ahead > 0) await sleep(ahead);
  }
  await leave();
}
