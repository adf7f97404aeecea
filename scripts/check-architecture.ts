import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize, sep } from "node:path";

/**
 * The rooms of the house and what each may import, besides itself. The table in ARCHITECTURE.md says the same.
 * A room is a folder of src/; in storages/ every folder is a room of its own.
 */
export const ROOMS: Readonly<Record<string, readonly string[]>> = {
  core: [],
  limits: ["core"],
  planner: ["core", "limits"],
  storage: ["core", "limits"],
  "storages/memory": ["core", "limits", "planner", "storage", "limiter"],
  "storages/sqlite": ["core", "limits", "planner", "storage", "limiter"],
  "storages/postgres": ["core", "limits", "planner", "storage", "limiter"],
  limiter: ["core", "limits", "storage"],
  queue: ["core", "limits", "storage"],
  worker: ["core", "limits", "storage", "limiter"],
  server: ["core", "storage", "limiter", "queue", "worker"],
  cli: [
    "core",
    "limits",
    "storage",
    "storages/memory",
    "storages/sqlite",
    "storages/postgres",
    "limiter",
    "queue",
    "worker",
  ],
  testing: ["core", "storage"],
  ".": ["core", "limits", "storage", "storages/memory", "limiter", "queue", "worker", "server"],
};

/** Rooms that run on Node alone, and may use its modules. */
const ON_NODE: readonly string[] = ["storages/sqlite", "cli"];

/** Modules of others that a room may use if the user has installed them: optional peers of the package. */
const PEERS: Readonly<Record<string, readonly string[]>> = { "storages/postgres": ["pg"] };

const NODE_GLOBALS = /\b(?:process|Buffer|__dirname)\s*\./;

/** Where time and chance enter. */
const EDGES: readonly { readonly uses: RegExp; readonly only: string; readonly what: string }[] = [
  {
    uses: /\b(?:Date\.now|performance\.now|setTimeout|setInterval|setImmediate|new Date\(\))/,
    only: "core/clock.ts",
    what: "the clock",
  },
  { uses: /\bMath\.random\b/, only: "core/random.ts", what: "chance" },
];

export function checkArchitecture(src = "src"): string {
  const sources = readSources(src);
  const wrong: string[] = [];
  const imports = new Map<string, string[]>();
  for (const [file, text] of sources) {
    const targets = importsOf(text);
    imports.set(
      file,
      targets.filter((target) => target.startsWith(".")).map((target) => resolveFrom(file, target)),
    );
    for (const target of targets) {
      const problem = target.startsWith(".") ? boundary(file, resolveFrom(file, target)) : foreign(file, target);
      if (problem !== undefined) wrong.push(`${file}: ${problem}`);
    }
    for (const { uses, only, what } of EDGES) {
      if (file !== only && uses.test(text)) {
        wrong.push(`${file}: uses ${what} (${uses.exec(text)?.[0]}); that is for ${only} alone`);
      }
    }
    const global = NODE_GLOBALS.exec(text)?.[0];
    if (global !== undefined && !runsOnNode(file)) wrong.push(`${file}: uses ${global}, which only Node has`);
  }
  for (const cycle of cycles(imports)) wrong.push(`cycle: ${cycle.join(" -> ")}`);
  if (wrong.length > 0) throw new Error(wrong.join("\n"));
  return `${sources.size} files keep to their rooms, without cycles`;
}

/** The text of every source, without comments, by its path in `src`. */
export function readSources(src: string): ReadonlyMap<string, string> {
  const files = readdirSync(src, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .toSorted();
  return new Map(
    files.map((file) => [file.split(sep).join("/"), withoutComments(readFileSync(join(src, file), "utf8"))]),
  );
}

/** Why `file` may not import `target`, if it may not. */
function boundary(file: string, target: string): string | undefined {
  const from = roomOf(file);
  const to = roomOf(target);
  if (from === undefined || to === undefined)
    return `is in no room that the table knows (or imports from one): ${target}`;
  if (from === to || ROOMS[from]?.includes(to)) return undefined;
  return `imports ${target}: the room ${from} may import ${ROOMS[from]?.join(", ") || "nothing"}`;
}

/** Why `file` may not import a module that is not ours, if it may not. */
function foreign(file: string, target: string): string | undefined {
  if (PEERS[roomOf(file) ?? ""]?.includes(target)) return undefined;
  if (!target.startsWith("node:")) return `imports ${target}: the package has no dependencies`;
  if (runsOnNode(file)) return undefined;
  return `imports ${target}: only ${ON_NODE.join(", ")} run on Node alone`;
}

function runsOnNode(file: string): boolean {
  const room = roomOf(file);
  return room !== undefined && ON_NODE.includes(room);
}

function roomOf(file: string): string | undefined {
  const folders = dirname(file).split("/");
  return [folders.join("/"), folders.slice(0, 2).join("/"), folders[0]].find(
    (room): room is string => room !== undefined && Object.hasOwn(ROOMS, room),
  );
}

export function resolveFrom(file: string, target: string): string {
  return normalize(join(dirname(file), target))
    .split(sep)
    .join("/");
}

/** Every module named after `from`, `import` or `import(`. */
export function importsOf(text: string): string[] {
  return [...text.matchAll(/\b(?:from|import)\s*\(?\s*"([^"\n]+)"/g)].map(([, target = ""]) => target);
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|[^:])\/\/[^\n]*/g, "$1");
}

/** Every cycle that a walk along the imports meets, types included. */
function cycles(imports: ReadonlyMap<string, readonly string[]>): string[][] {
  const found: string[][] = [];
  const done = new Set<string>();
  const walk = (file: string, path: readonly string[]): void => {
    const at = path.indexOf(file);
    if (at !== -1) {
      found.push([...path.slice(at), file]);
      return;
    }
    if (done.has(file)) return;
    for (const target of imports.get(file) ?? []) walk(target, [...path, file]);
    done.add(file);
  };
  for (const file of imports.keys()) walk(file, []);
  return found;
}
