import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Calls back with the path of a database that does not exist yet, and deletes it afterwards. */
export async function withFile<T>(use: (file: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-bench-"));
  try {
    return await use(join(folder, "bench.db"));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** One clock for all processes of a computer, in milliseconds. */
export function sharedNow(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
