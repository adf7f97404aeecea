import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";

const here = new URL("./", import.meta.url);

/** Installs the peers at their pinned versions, unless they are there. Without them, each is skipped and says so. */
export function installPeers(): void {
  const { dependencies } = readJson("package.json") as { dependencies: Record<string, string> };
  const missing = Object.entries(dependencies).filter(([name, version]) => installed(name) !== version);
  if (missing.length === 0) return;
  console.log(`Installing ${missing.map(([name, version]) => `${name}@${version}`).join(", ")}`);
  const [command, ...first] = npm();
  const { status, error } = spawnSync(command, [...first, "ci", "--ignore-scripts", "--omit=optional"], {
    cwd: here,
    stdio: ["ignore", "ignore", "inherit"],
    timeout: 180_000,
  });
  if (status !== 0) console.log(`npm ci failed (${error?.message ?? `status ${status}`}): what is missing is skipped.`);
}

function installed(name: string): string | undefined {
  try {
    return (readJson(`node_modules/${name}/package.json`) as { version: string }).version;
  } catch {
    return undefined;
  }
}

function readJson(path: string): unknown {
  return JSON.parse(readFileSync(new URL(path, here), "utf8"));
}

/** The npm that runs this script, if one does; else the one on the path. */
function npm(): [string, ...string[]] {
  const script = process.env["npm_execpath"];
  return script !== undefined && /\.c?js$/.test(script) ? [process.execPath, script] : ["npm"];
}
