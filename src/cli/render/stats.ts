import { JOB_STATES, type JobState } from "../../core/job.ts";
import type { QueueOverview } from "../../storage/job-storage.ts";
import type { LimitInUse } from "../../storage/inspection.ts";
import { type Surface, table } from "./table.ts";
import { number, printable } from "./text.ts";
import { duration, shortDuration } from "./time.ts";

/** What there is to see of a database at one moment. */
export interface Stats {
  readonly queues: readonly QueueOverview[];
  /** How many live workers each queue has. */
  readonly workers: ReadonlyMap<string, number>;
  /** Limits that block jobs or have counted something lately. */
  readonly limits: readonly LimitInUse[];
}

/** Most queues have no flows: their column is shown where there is something in it. */
const RARE: ReadonlySet<JobState> = new Set(["awaiting", "cancelled"]);

export function statsText(stats: Stats, surface: Surface): string {
  if (stats.queues.length === 0) return "There are no queues: nothing was added yet.\n";
  const parts = [queuesTable(stats, surface), notes(stats, surface)];
  if (stats.limits.length > 0) parts.push(`\n${limitsTable(stats.limits, surface)}`);
  return parts.join("");
}

function queuesTable({ queues, workers }: Stats, surface: Surface): string {
  const states = JOB_STATES.filter((state) => !RARE.has(state) || queues.some(({ counts }) => counts[state] > 0));
  const columns = [
    { title: "queue", atLeast: 4 },
    ...states.map((state) => ({ title: state, align: "right" as const })),
    { title: "oldest", align: "right" as const },
    { title: "workers", align: "right" as const },
  ];
  const rows = queues.map(({ queue, counts, oldestWaitingMs }) => [
    printable(queue),
    ...states.map((state) => compact(counts[state])),
    oldestWaitingMs === null ? "" : shortDuration(oldestWaitingMs),
    compact(workers.get(queue) ?? 0),
  ]);
  return table(columns, rows, surface);
}

/** What does not fit into a row: pauses, and queues whose jobs no worker takes. */
function notes({ queues, workers }: Stats, { paint }: Surface): string {
  const lines = queues.flatMap(({ queue, paused, pausedTypes, counts }) => [
    ...(paused ? [paint("yellow", `${printable(queue)} is paused.`)] : []),
    ...(pausedTypes.length > 0 ? [paint("yellow", `${printable(queue)}: ${pausedText(pausedTypes)}.`)] : []),
    ...(counts.waiting > 0 && !workers.has(queue)
      ? [paint("yellow", `${printable(queue)} has jobs waiting, and no live worker.`)]
      : []),
  ]);
  return lines.map((line) => `${line}\n`).join("");
}

/** Completes "mail: …". */
export function pausedText(types: readonly string[]): string {
  const names = types.map((type) => printable(type)).join(", ");
  return types.length === 1 ? `type ${names} is paused` : `types ${names} are paused`;
}

function limitsTable(limits: readonly LimitInUse[], surface: Surface): string {
  const columns = [
    { title: "limit", atLeast: 12 },
    { title: "starts", align: "right" as const },
    { title: "in the last", align: "right" as const },
    { title: "held for", align: "right" as const },
  ];
  const rows = limits.map(({ name, starts, windowMs, heldForMs }) => [
    printable(name),
    number(starts),
    windowMs > 0 ? duration(windowMs) : "",
    heldForMs === null ? "" : duration(heldForMs),
  ]);
  return table(columns, rows, surface);
}

/** A count that stays narrow: 99,999, then 123k and 4.56M. */
function compact(count: number): string {
  if (count < 100_000) return number(count);
  if (count < 1e6) return `${Math.floor(count / 1e3)}k`;
  return count < 1e9
    ? `${(Math.floor(count / 1e4) / 100).toFixed(2)}M`
    : `${(Math.floor(count / 1e7) / 100).toFixed(2)}G`;
}

/** The same for machines. */
export function statsJson({ queues, workers, limits }: Stats): unknown {
  const views = queues.map(({ queue, counts, paused, pausedTypes, oldestWaitingMs }) => {
    return { queue, counts, paused, pausedTypes, oldestWaitingMs, workers: workers.get(queue) ?? 0 };
  });
  return { queues: views, limits };
}
