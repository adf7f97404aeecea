import { changeText } from "../../storage/declaring.ts";
import type { LimitHistoryEntry } from "../../storage/limit-storage.ts";
import { type Surface, table } from "./table.ts";
import { printable } from "./text.ts";
import { instant } from "./time.ts";

/** What was changed about limits, the newest first. `named`: all of it is about one limit. */
export function historyTable(entries: readonly LimitHistoryEntry[], named: boolean, surface: Surface): string {
  const columns = [
    { title: "at" },
    ...(named ? [] : [{ title: "limit", atLeast: 8 }]),
    { title: "change", atLeast: 12 },
    { title: "by", atLeast: 8 },
  ];
  const rows = entries.map((entry) => [
    instant(entry.at),
    ...(named ? [] : [printable(entry.limit)]),
    printable(changeText(entry)),
    printable(authorText(entry)),
  ]);
  return table(columns, rows, surface);
}

/** Changes for machines. */
export function historyJson(entries: readonly LimitHistoryEntry[]): readonly Record<string, unknown>[] {
  return entries.map(({ at, limit, kind, by, owner, version, from, to }) => {
    return { at: instant(at), limit, kind, by, owner, version, from, to };
  });
}

function authorText({ by, owner, version }: LimitHistoryEntry): string {
  const parts = [
    ...(by === null ? [] : [by]),
    ...(owner === null ? [] : [`owner ${owner}`]),
    ...(version === null ? [] : [`version ${version}`]),
  ];
  return parts.join(", ");
}
