import type { WorkerRecord } from "../../storage/workers.ts";
import { type Surface, table } from "./table.ts";
import { number, printable } from "./text.ts";
import { instant, shortDuration } from "./time.ts";

const COLUMNS = [
  { title: "id" },
  { title: "queue", atLeast: 6 },
  { title: "host", atLeast: 6 },
  { title: "pid", align: "right" },
  { title: "runs", align: "right" },
  { title: "up", align: "right" },
  { title: "seen", align: "right" },
  { title: "types", atLeast: 8 },
  { title: "limits", atLeast: 6 },
] as const;

/** Live workers as a table. `runs`: how many jobs at a time; `seen`: how long ago. */
export function workersTable(workers: readonly WorkerRecord[], now: number, surface: Surface): string {
  const rows = workers.map(({ id, queue, host, pid, concurrency, since, seenAt, types, moreTypes, ...limits }) => [
    printable(id),
    printable(queue),
    printable(host ?? ""),
    pid === null ? "" : String(pid),
    number(concurrency),
    shortDuration(Math.max(0, now - since)),
    shortDuration(Math.max(0, now - seenAt)),
    types === null ? "all" : names(types, moreTypes),
    names(limits.limits, limits.moreLimits),
  ]);
  return table(COLUMNS, rows, surface);
}

function names(listed: readonly string[], more: number): string {
  const all = listed.map((name) => printable(name)).join(", ");
  return more === 0 ? all : `${all} and ${number(more)} more`;
}

/** The same for machines. */
export function workersJson(workers: readonly WorkerRecord[]): readonly unknown[] {
  return workers.map(({ since, seenAt, ...rest }) => ({ ...rest, since: instant(since), lastSeen: instant(seenAt) }));
}
