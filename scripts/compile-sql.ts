import "./require-node.ts";
import { readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join, sep } from "node:path";
import { fileURLToPath } from "node:url";

const SOURCE = join("src", "storages", "postgres", "sql");
const MODULE = join("src", "storages", "postgres", "sql.ts");

const HEAD = `// Made of the files in sql/ by \`node scripts/compile-sql.ts\`: change those, and run it.

export interface SqlFile {
  /** Where it is, in sql/. */
  readonly path: string;
  /** \`{schema}\` in it stands for the schema, quoted. */
  readonly text: string;
}

/** All of them, in the order in which they are applied: the tables first. */
export const SQL_FILES: readonly SqlFile[] = [
`;

/** The module that holds all SQL, so that no file is read at run time. */
function compileSql(): string {
  const files = readdirSync(SOURCE, { recursive: true, encoding: "utf8" })
    .map((file) => file.split(sep).join("/"))
    .filter((file) => file.endsWith(".sql"))
    .toSorted((a, b) => depth(a) - depth(b) || (a < b ? -1 : 1));
  const entries = files.map((path) => {
    const text = readFileSync(join(SOURCE, path), "utf8");
    return `  {\n    path: ${JSON.stringify(path)},\n    text: \`${text.replaceAll(/[\\`]|\$\{/g, String.raw`\$&`)}\`,\n  },\n`;
  });
  return `${HEAD}${entries.join("")}];\n`;
}

/** Writes the module, if it has changed. Whoever reads it meanwhile finds it whole. */
export function writeSql(): void {
  const compiled = compileSql();
  if (current() === compiled) return;
  const half = `${MODULE}.${process.pid}.tmp`;
  writeFileSync(half, compiled);
  renameSync(half, MODULE);
}

function current(): string | undefined {
  try {
    return readFileSync(MODULE, "utf8");
  } catch {
    return undefined;
  }
}

function depth(path: string): number {
  return path.split("/").length;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeSql();
