import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";

const FILE = new URL("../RESULTS.md", import.meta.url);
const TITLE = `# What the chaos runs found

Written by \`npm run chaos\` and \`npm run chaos:self\`; see [CONTRIBUTING.md](../CONTRIBUTING.md). Zero violations in n trials
bound the true rate by about 3/n only: so n is beside every checker.
`;

/** Puts a section in place of the one with the same title. */
export function writeSection(title: string, body: string): void {
  const before = existsSync(FILE) ? readFileSync(FILE, "utf8") : TITLE;
  const [, ...sections] = before.split(/^## /m);
  const kept = sections.filter((section) => !section.startsWith(`${title}\n`)).map((section) => section.trim());
  const all = [...kept, `${title}\n\n${body.trim()}`].toSorted().toReversed();
  writeFileSync(FILE, `${TITLE}\n${all.map((section) => `## ${section}`).join("\n\n")}\n`);
}

export function circumstances(storage: string): string {
  const [first] = cpus();
  return `${new Date().toISOString().slice(0, 10)}, Node ${process.versions.node}, ${storage}, ${cpus().length} cores (${first?.model ?? "unknown"})`;
}
