import { gzipSync } from "node:zlib";
import { build } from "esbuild";

/**
 * What somebody loads who uses so much of the front door, at most, in bytes (gzip). What is not used falls away. The
 * numbers are what there is, so that it does not grow unnoticed; docs/decisions/0011-size.md says why it is so much.
 */
const MOST_BYTES: Readonly<Record<string, number>> = {
  "*": 79_000,
  "{ concurrencyLimit }": 9_700,
  "{ limit, CompositeLimiter, ConcurrencyLimiter, RateLimiter, InMemoryRateLimiterStorage }": 15_800,
  "{ Queue, Worker, MemoryStorage }": 67_000,
};

/** The front door bundles for a browser with nothing of Node in it, stays small, and does nothing when imported. */
export async function checkBundle(): Promise<string> {
  const sizes: string[] = [];
  const wrong: string[] = [];
  for (const [names, most] of Object.entries(MOST_BYTES)) {
    const bytes = gzipSync(await bundle(`export ${names} from "sluice";`)).length;
    sizes.push(`${bytes} for ${names}`);
    if (bytes > most) wrong.push(`${names} takes ${bytes} bytes (gzip), more than ${most}`);
  }
  const unused = await bundle('import "sluice";');
  if (unused.trim() !== "") wrong.push(`importing the package for nothing leaves code behind:\n${unused}`);
  if (wrong.length > 0) throw new Error(wrong.join("\n"));
  return `gzip ${sizes.join(", ")}; no Node module, no side effect`;
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
