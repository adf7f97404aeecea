import { accessSync, constants, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A folder of its own for one run. */
export function makeFolder(): string {
  return mkdtempSync(join(groundFloor(), "sluice-chaos-"));
}

/** Where folders are made: in memory if possible, so that the disk is not measured. */
export function groundFloor(): string {
  try {
    accessSync("/dev/shm", constants.W_OK);
    return "/dev/shm";
  } catch {
    return tmpdir();
  }
}
