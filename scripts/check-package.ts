import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { publint } from "publint";
import { formatMessage } from "publint/utils";

interface Manifest {
  readonly exports: Readonly<Record<string, string | Readonly<Record<string, string>>>>;
  readonly dependencies?: unknown;
}

/** What `npm pack --json` says of a tarball. */
interface Tarball {
  readonly size: number;
  readonly files: readonly { readonly path: string }[];
}

/**
 * The exports map is true: every door opens, has types, and exports what its types say; publint has no complaint. The tarball
 * holds what is meant and nothing else.
 */
export async function checkPackage(): Promise<string> {
  const manifest = JSON.parse(readFileSync("package.json", "utf8")) as Manifest;
  const wrong: string[] = [];
  if (manifest.dependencies !== undefined) wrong.push("package.json: the package has no runtime dependencies");

  let names = 0;
  for (const [door, target] of Object.entries(manifest.exports)) {
    const files = typeof target === "string" ? [target] : Object.values(target);
    for (const file of files) if (!existsSync(file)) wrong.push(`${door}: ${file} does not exist`);
    if (typeof target === "string") continue;
    const module = (await import(`sluice${door.slice(1)}`)) as Record<string, unknown>;
    const exported = Object.keys(module);
    names += exported.length;
    if (exported.length === 0) wrong.push(`${door}: exports nothing`);
    const types = readFileSync(target["types"] ?? "", "utf8");
    for (const name of exported) {
      if (!new RegExp(`\\b${name}\\b`).test(types))
        wrong.push(`${door}: ${name} is exported, but its types do not say so`);
    }
  }

  const { size, files } = pack();
  for (const { path } of files) {
    const problem = strangeIn(path, readFileSync(path, "utf8"));
    if (problem !== undefined) wrong.push(`${path}: ${problem}`);
  }

  const { messages, pkg } = await publint({ pkgDir: ".", level: "suggestion", strict: true });
  for (const message of messages) wrong.push(`publint: ${formatMessage(message, pkg) ?? message.code}`);
  if (wrong.length > 0) throw new Error(wrong.join("\n"));
  return `${Object.keys(manifest.exports).length} doors, ${names} names, ${files.length} files in ${Math.round(size / 1_000)} kB`;
}

/** Beside what is compiled. */
const PAGES = new Set(["CHANGELOG.md", "LICENSE", "README.md", "package.json"]);

/** Why a file has no place in the tarball, if it has none. */
export function strangeIn(path: string, text: string): string | undefined {
  if (PAGES.has(path)) return undefined;
  const [, source] = /^dist\/(.+?)(?:\.d\.ts|\.js)$/.exec(path) ?? [];
  if (source === undefined) return "neither a compiled module nor its types: it has no place in the tarball";
  if (!existsSync(`src/${source}.ts`)) return "has no source: the build should have removed it";
  if (/^\/\/# sourceMappingURL=/m.test(text)) return "names a source map, which the tarball does not hold";
  return undefined;
}

function pack(): Tarball {
  const { status, stdout, stderr } = spawnSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], {
    encoding: "utf8",
    shell: process.platform === "win32",
    maxBuffer: 64 * 1024 * 1024,
  });
  if (status !== 0) throw new Error(`npm pack: ${stderr}`);
  return (JSON.parse(stdout) as [Tarball])[0];
}
