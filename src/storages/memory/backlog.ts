import type { Backlog, LimitState, TypeBacklog } from "../../storage/limit-storage.ts";
import { originOfClaim } from "../../storage/stored-rules.ts";
import { workersFor } from "../../storage/workers.ts";
import type { Book } from "./book.ts";
import { keptState, stateOf } from "./limits/reading.ts";
import type { Line } from "./lanes.ts";
import type { MemoryQueue } from "./queues.ts";
import { rulesFor } from "./explaining.ts";

/** Average weights are those of so many jobs. */
const WEIGHED = 1_000;

/** The jobs of a queue that have not started, and their limits. */
export function backlog(book: Book, name: string, now: number): Backlog {
  const queue = book.queues.get(name);
  if (queue === undefined) return { queue: name, paused: false, types: [], limits: [] };
  for (const one of book.queues.values()) book.promoteAll(one, now);
  const workers = book.workers.live(now, name);
  const active = new Map<string, number>();
  for (const job of book.leases) if (job.queue === name) active.set(job.type, (active.get(job.type) ?? 0) + 1);
  const types = [...new Set([...queue.lines.keys(), ...active.keys()])]
    .toSorted()
    .map((type) => typeBacklog(queue, type, active.get(type) ?? 0, workersFor(workers, type).handling))
    .filter((one) => one.waiting + one.scheduled + one.active > 0);
  return { queue: name, paused: queue.paused, types, limits: limitsOf(book, queue, types, now) };
}

function typeBacklog(queue: MemoryQueue, type: string, active: number, workers: number): TypeBacklog {
  const line = queue.lines.get(type);
  const groups = new Map<string | null, number>();
  for (const { group, waiting } of line?.lanes() ?? []) groups.set(group, (groups.get(group) ?? 0) + waiting);
  let mostInGroup = 0;
  for (const waiting of groups.values()) mostInGroup = Math.max(mostInGroup, waiting);
  return {
    type,
    paused: queue.pausedTypes.has(type),
    workers,
    waiting: line?.waiting ?? 0,
    scheduled: line?.scheduled.size ?? 0,
    active,
    groups: groups.size,
    mostInGroup,
    weights: averageWeights(line),
    ranMs: queue.ranMs(type) ?? null,
  };
}

/** For each weight: which part of the jobs has it, and its average. */
function averageWeights(line: Line | undefined): TypeBacklog["weights"] {
  const said = new Map<string, { sum: number; jobs: number }>();
  let left = WEIGHED;
  for (const lane of line?.lanes() ?? []) {
    for (let job = lane.first; job !== undefined && left > 0; job = job.after, left -= 1) {
      for (const [name, weight] of Object.entries(job.weights ?? {})) {
        const one = said.get(name);
        if (one === undefined) said.set(name, { sum: weight, jobs: 1 });
        else {
          one.sum += weight;
          one.jobs += 1;
        }
      }
    }
    if (left === 0) break;
  }
  const looked = WEIGHED - left;
  return Object.fromEntries(
    [...said].map(([name, { sum, jobs }]) => [name, { part: jobs / looked, mean: sum / jobs }]),
  );
}

/** Every limit that applies to one of the types. */
function limitsOf(book: Book, queue: MemoryQueue, types: readonly TypeBacklog[], now: number): LimitState[] {
  const time = book.limitTime(now);
  const rules = new Set(types.flatMap(({ type }) => rulesFor(book, queue, type)));
  return [...rules]
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .map((rule) =>
      queue.claimLimits.includes(rule)
        ? stateOf(book, rule, originOfClaim(rule), null, [queue], time)
        : keptState(book, rule, null, time),
    );
}
