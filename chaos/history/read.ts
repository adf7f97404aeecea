import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Entry } from "./entry.ts";

/** All that was written in a folder, in the order of the clock. A last line that was cut off is left out. */
export function readHistory(folder: string): Entry[] {
  const entries: Entry[] = [];
  for (const file of readdirSync(folder)) {
    if (!file.endsWith(".jsonl")) continue;
    for (const line of readFileSync(join(folder, file), "utf8").split("\n")) {
      if (!line.endsWith("}")) continue;
      try {
        entries.push(JSON.parse(line) as Entry);
      } catch {
        // It was killed while it wrote.
      }
    }
  }
  return entries.toSorted((a, b) => a.hr - b.hr || a.seq - b.seq);
}
