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

/** All of them, sorted by their paths. Functions may be created in any order: their bodies are not checked then (migrations.ts). */
export const SQL_FILES: readonly SqlFile[] = [
`;

/** The files, each with as many functions as belong together. */
export function sqlFiles(source = SOURCE): { readonly path: string; readonly text: string }[] {
  return readdirSync(source, { recursive: true, encoding: "utf8" })
    .map((file) => file.split(sep).join("/"))
    .filter((file) => file.endsWith(".sql"))
    .toSorted()
    .map((path) => ({ path, text: readFileSync(join(source, path), "utf8").replaceAll("\r\n", "\n") }));
}

/** The module that holds all SQL, so that no file is read at run time. */
function compileSql(): string {
  const entries = sqlFiles().map(({ path, text }) => {
    return `  {\n    path: ${JSON.stringify(path)},\n    text: \`${text.replaceAll(/[\\`]|\$\{/g, String.raw`\$&`)}\`,\n  },\n`;
  });
  return `${HEAD}${entries.join("")}];\n`;
}

/** Writes the module, if it has changed. It is replaced atomically, so that a reader never sees part of it. */
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

if (process.argv[1] === fileURLToPath(import.meta.url)) writeSql();
