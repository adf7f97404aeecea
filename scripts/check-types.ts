import { spawnSync } from "node:child_process";
import { join } from "node:path";

/** Everything type-checks: sources, tests (with what they say about types), examples, scripts. */
export function checkTypes(): string {
  const { status, stdout } = spawnSync(join("node_modules", ".bin", "tsc"), ["-p", "tsconfig.json"], {
    encoding: "utf8",
    shell: process.platform === "win32",
  });
  if (status !== 0) throw new Error(stdout);
  return "sources, tests, examples and scripts agree";
}
