import { build } from "esbuild";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const REQUIRE = `import { createRequire } from "node:module"; const require = createRequire(import.meta.url);`;

/** Puts everything that a process of the harness needs into one file: it then starts in a third of the time. */
export async function bundleChild(folder: string): Promise<string> {
  const outfile = join(folder, "child.mjs");
  await build({
    entryPoints: [fileURLToPath(new URL("../child/main.ts", import.meta.url))],
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node22",
    // What is not an ES module asks for modules of Node in its own way.
    banner: { js: REQUIRE },
    external: ["pg-native"],
    logLevel: "warning",
  });
  return outfile;
}
