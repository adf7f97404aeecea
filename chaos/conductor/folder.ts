import { accessSync, constants, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A folder of its own for one run: in memory where that can be had, so that the disk is not what is measured. */
export function makeFolder(): string {
  return mkdtempSync(join(inMemory() ?? tmpdir(), "sluice-chaos-"));
}

function inMemory(): string | undefined {
  try {
    accessSync("/dev/shm", constants.W_OK);
    return "/dev/shm";
  } catch {
    return undefined;
  }
}
