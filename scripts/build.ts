import "./require-node.ts";
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { writeSql } from "./compile-sql.ts";

writeSql();

// Compiles src/ into dist/, and removes from dist/ what no longer has a source.
const { status } = spawnSync(join("node_modules", ".bin", "tsc"), ["-p", "tsconfig.build.json"], {
  stdio: "inherit",
  shell: process.platform === "win32",
});
if (status !== 0) process.exit(status ?? 1);

for (const file of readdirSync("dist", { recursive: true, encoding: "utf8" })) {
  const source = join("src", file.replace(/(\.d\.ts|\.js)$/, ".ts"));
  if (!existsSync(source)) rmSync(join("dist", file), { recursive: true, force: true });
}
