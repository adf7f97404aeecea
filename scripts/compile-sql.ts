import "./require-node.ts";
import { readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join, posix, sep } from "node:path";
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

/**
 * A line that stands for a part of a long function: `-- {part walk/ask}` in `jobs/walk.sql`, or in one of its parts, for the file
 * `jobs/walk/ask.part.sql`, indented as the line is.
 */
const PART_LINE = /^( *)-- \{part ([\w/]+)\}$/;
const PART_ENDING = ".part.sql";

/** The files, each with as many functions as belong together; long functions put together of their parts. */
export function sqlFiles(source = SOURCE): { readonly path: string; readonly text: string }[] {
  const paths = readdirSync(source, { recursive: true, encoding: "utf8" })
    .map((file) => file.split(sep).join("/"))
    .filter((file) => file.endsWith(".sql"))
    .toSorted();
  const textOf = (path: string) => readFileSync(join(source, path), "utf8").replaceAll("\r\n", "\n");
  const texts = new Map(paths.map((path) => [path, textOf(path)]));
  const used = new Set<string>();

  /** `inside`: the function, and the parts of it that lead here. */
  const assembled = (inside: readonly string[]): string => {
    const path = inside.at(-1)!;
    const lines = texts.get(path)!.split("\n");
    return lines
      .map((line, i) => (line.includes("{part") ? partFor(line, `${path}:${i + 1}`, inside) : line))
      .join("\n");
  };
  const partFor = (line: string, where: string, inside: readonly string[]): string => {
    const [, indent, name] = PART_LINE.exec(line) ?? [];
    if (name === undefined) throw new Error(`${where}: a part has a line of its own, like "-- {part walk/ask}"`);
    const part = posix.join(posix.dirname(inside[0]!), name + PART_ENDING);
    if (!texts.has(part)) throw new Error(`${where}: there is no ${part}`);
    if (inside.includes(part)) throw new Error(`${where}: ${part} is a part of itself`);
    used.add(part);
    return assembled([...inside, part])
      .trimEnd()
      .replaceAll(/^(?=.)/gm, indent!);
  };

  const isPart = (path: string) => path.endsWith(PART_ENDING);
  const files = paths.filter((path) => !isPart(path)).map((path) => ({ path, text: assembled([path]) }));
  const unused = paths.filter((path) => isPart(path) && !used.has(path));
  if (unused.length > 0) throw new Error(`${unused.join(", ")}: a part of no function`);
  return files;
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
