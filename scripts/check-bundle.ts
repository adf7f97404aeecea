import { gzipSync } from "node:zlib";
import { build } from "esbuild";

/** Everything the front door exports, for somebody who uses all of it. What is not used falls away. */
const MOST_BYTES = 16_500;

/** The front door bundles for a browser with nothing of Node in it, stays small, and does nothing when imported. */
export async function checkBundle(): Promise<string> {
  const whole = await bundle('export * from "sluice";');
  const bytes = gzipSync(whole).length;
  if (bytes > MOST_BYTES) throw new Error(`the core is ${bytes} bytes (gzip), more than ${MOST_BYTES}`);
  const unused = await bundle('import "sluice";');
  if (unused.trim() !== "") throw new Error(`importing the package for nothing leaves code behind:\n${unused}`);
  const sizes = [];
  for (const names of [
    "concurrencyLimit",
    "limit, CompositeLimiter, ConcurrencyLimiter, RateLimiter, InMemoryRateLimiterStorage",
  ]) {
    sizes.push(`${gzipSync(await bundle(`export { ${names} } from "sluice";`)).length} for { ${names} }`);
  }
  return `gzip ${bytes} bytes in all (at most ${MOST_BYTES}), ${sizes.join(", ")}; no Node module, no side effect`;
}

async function bundle(contents: string): Promise<string> {
  // For a browser every import of a Node module is an error.
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: process.cwd() },
    bundle: true,
    minify: true,
    format: "esm",
    platform: "browser",
    target: "es2022",
    write: false,
    logLevel: "silent",
    legalComments: "none",
  });
  return outputFiles[0]?.text ?? "";
}
