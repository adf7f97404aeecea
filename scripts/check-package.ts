import { existsSync, readFileSync } from "node:fs";
import { publint } from "publint";
import { formatMessage } from "publint/utils";

interface Manifest {
  readonly exports: Readonly<Record<string, string | Readonly<Record<string, string>>>>;
  readonly dependencies?: unknown;
}

/** The exports map is true: every door opens, has types, and exports what its types say; publint has no complaint. */
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

  const { messages, pkg } = await publint({ pkgDir: ".", level: "suggestion", strict: true });
  for (const message of messages) wrong.push(`publint: ${formatMessage(message, pkg) ?? message.code}`);
  if (wrong.length > 0) throw new Error(wrong.join("\n"));
  return `${Object.keys(manifest.exports).length} doors, ${names} names`;
}
