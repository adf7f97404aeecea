import type { Finding } from "../doctor/common-findings.ts";
import type { Style } from "../io.ts";
import type { Surface } from "./table.ts";
import { plural, widthOf } from "./text.ts";

const STYLES: Readonly<Record<Finding["status"], Style>> = { ok: "green", warn: "yellow", fail: "red" };

/** One line for each finding, what to do below it, and a closing line. */
export function findingsText(all: readonly Finding[], { paint, columns }: Surface): string {
  const width = Math.max(...all.map(({ check }) => check.length)) + 2;
  const indent = " ".repeat(6 + width);
  const lines = all.flatMap(({ check, status, says, advice }) => [
    ...folded(says, columns, indent).map((line, i) =>
      i === 0 ? `${paint(STYLES[status], status.padEnd(6))}${check.padEnd(width)}${line}` : indent + line,
    ),
    ...(advice === undefined ? [] : folded(advice, columns, `${indent}→ `)).map(
      (line, i) => `${indent}${i === 0 ? paint("cyan", "→") : " "} ${line}`,
    ),
  ]);
  const count = (status: Finding["status"]) => all.filter((finding) => finding.status === status).length;
  const [fails, warns] = [count("fail"), count("warn")];
  const summary =
    fails + warns === 0 ? paint("green", "All is well.") : `${plural(fails, "failure")}, ${plural(warns, "warning")}.`;
  return [...lines, "", summary].map((line) => `${line}\n`).join("");
}

/** A sentence in as many lines as it takes beside what stands before it. */
function folded(text: string, columns: number | undefined, before: string): string[] {
  const width = columns === undefined ? Infinity : Math.max(20, columns - widthOf(before));
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`.trimStart();
    if (widthOf(longer) <= width || lines.at(-1) === "") lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}
