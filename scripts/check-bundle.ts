import { gzipSync } from "node:zlib";
import { build } from "esbuild";

/**
 * What a program loads that uses so much of a door, at most, in bytes (gzip). What is not used falls away. The numbers are what
 * there is and little more, so that it does not grow unnoticed; docs/decisions/0011-size.md says what it consists of.
 */
const MOST_BYTES: Readonly<Record<string, number>> = {
  '* from "sluice"': 84_200,
  '* from "sluice/server"': 45_700,
  '{ rateLimit } from "sluice"': 6_000,
  '{ concurrencyLimit } from "sluice"': 5_100,
  '{ limit, CompositeLimiter, ConcurrencyLimiter, RateLimiter, InMemoryRateLimiterStorage } from "sluice"': 15_500,
  '{ Queue } from "sluice"': 18_000,
  '{ Queue, Worker, MemoryStorage } from "sluice"': 70_600,
};

/** These doors bundle for a browser with nothing of Node in it, stay small, and do nothing when imported. */
export async function checkBundle(): Promise<string> {
  const sizes: string[] = [];
  const wrong: string[] = [];
  for (const [names, most] of Object.entries(MOST_BYTES)) {
    const bytes = gzipSync(await bundle(`export ${names};`)).length;
    sizes.push(`${bytes} for ${names}`);
    if (bytes > most) wrong.push(`${names} takes ${bytes} bytes (gzip), more than ${most}`);
  }
  const unused = await bundle('import "sluice"; import "sluice/server";');
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
