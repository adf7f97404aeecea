import { importsOf, readSources, resolveFrom } from "./check-architecture.ts";

/** Where programs enter: the doors of the package, and its binary. */
const DOORS = [
  "index.ts",
  "server/index.ts",
  "storages/sqlite/index.ts",
  "storages/postgres/index.ts",
  "testing/index.ts",
  "cli/main.ts",
];

/**
 * Every source is imported by a door, over any number of others, and every function, class and constant that is exported is
 * mentioned a second time. What tests alone use is dead.
 */
export function checkDeadCode(src = "src", doors: readonly string[] = DOORS): string {
  const sources = readSources(src);
  const wrong: string[] = [];

  const reached = new Set<string>();
  const reach = (file: string): void => {
    if (reached.has(file)) return;
    reached.add(file);
    const targets = importsOf(sources.get(file) ?? "").filter((target) => target.startsWith("."));
    for (const target of targets) reach(resolveFrom(file, target));
  };
  for (const door of doors) reach(door);
  for (const file of sources.keys()) if (!reached.has(file)) wrong.push(`${file}: no door of the package leads to it`);

  const mentions = new Map<string, number>();
  for (const text of sources.values()) {
    for (const [word] of text.matchAll(/[\w$]+/g)) mentions.set(word, (mentions.get(word) ?? 0) + 1);
  }
  const exported = /^export\s+(?:abstract\s+|async\s+)*(?:const|let|function\*?|class)\s+([\w$]+)/gm;
  for (const [file, text] of sources) {
    for (const [, name = ""] of text.matchAll(exported)) {
      if (mentions.get(name) === 1) wrong.push(`${file}: ${name} is exported and never used`);
    }
  }
  if (wrong.length > 0) throw new Error(wrong.join("\n"));
  return `every file and every exported value of ${src}/ is used`;
}
