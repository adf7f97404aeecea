import { createHash } from "node:crypto";
import { existsSync, globSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { fileURLToPath } from "node:url";

const file = new URL("RESULTS.md", import.meta.url);

const HEADER = `# Results

Each section is written by the command it names, and by that command only. Absolute figures belong to the machine and
the moment; the ratios, which come from interleaved rounds of one run, are what counts.
`;

/** Writes one section and leaves all others as they are. */
export function writeSection(title: string, body: string): void {
  const before = existsSync(file) ? readFileSync(file, "utf8") : HEADER;
  writeFileSync(file, withSection(before, title, body));
}

export function withSection(document: string, title: string, body: string): string {
  const [header = "", ...sections] = document.split(/^(?=## )/m);
  const section = `## ${title}\n\n${body.trim()}\n`;
  const position = sections.findIndex((other) => other.startsWith(`## ${title}\n`));
  if (position === -1) sections.push(section);
  else sections[position] = section;
  return `${[header, ...sections].map((part) => part.trim()).join("\n\n")}\n`;
}

/** Which build is measured. A build that changes under a run makes its rows incomparable. */
export function fingerprint(): string {
  const dist = fileURLToPath(new URL("../dist/", import.meta.url));
  const hash = createHash("sha256");
  for (const path of globSync("**/*.js", { cwd: dist }).toSorted())
    hash.update(path).update(readFileSync(`${dist}${path}`));
  return hash.digest("hex").slice(0, 12);
}

/** Where and when. */
export function circumstances(): string {
  const models = cpus();
  return [
    `- Machine: ${models[0]?.model.trim() ?? "unknown CPU"}, ${models.length} cores, ${Math.round(totalmem() / 2 ** 30)} GiB`,
    `- Node ${process.version}, ${process.platform} ${process.arch}`,
    `- Date: ${new Date().toISOString().slice(0, 10)}; build ${fingerprint()} (SHA-256 over the files of \`dist\`)`,
  ].join("\n");
}
