import type { Answer, Row, Verdict } from "./row.ts";

/** For the terminal: columns aligned, the first one to the left. */
export function toText({ columns, lines, verdicts, skipped }: Answer): string {
  const rows = [columns, ...lines].map((row) => row.map((cell) => cell.replaceAll("**", "")));
  const widths = columns.map((_, i) => Math.max(...rows.map((row) => row[i]!.length)));
  const last = columns.length - 1;
  const out = rows.map((row) =>
    row
      .map((cell, i) =>
        i === 0 || (i === last && isProse(columns[i]!)) ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!),
      )
      .join("  ")
      .trimEnd(),
  );
  out.splice(1, 0, "-".repeat(Math.max(...out.map((line) => line.length))));
  for (const { name, reason } of skipped) out.push(`${name}: not measured (${reason})`);
  for (const verdict of verdicts) out.push(sentence(verdict));
  return out.map((line) => `  ${line}`).join("\n");
}

/** For RESULTS.md. */
export function toMarkdown({ title, compares }: Pick<Row, "title" | "compares">, answer: Answer): string {
  const { columns, lines, verdicts, skipped } = answer;
  const last = columns.length - 1;
  const rule = columns.map((column, i) => (i === 0 || (i === last && isProse(column)) ? "---" : "---:"));
  const table = [columns, rule, ...lines].map((row) => `| ${row.join(" | ")} |`).join("\n");
  const notes = [...verdicts.map(sentence), ...skipped.map(({ name, reason }) => `${name}: not measured (${reason}).`)];
  return [`### ${title}`, compares, table, notes.map((note) => `- ${note}`).join("\n")].join("\n\n");
}

function sentence({ goal, outcome, found }: Verdict): string {
  return `${{ won: "Won", tied: "TIED", lost: "LOST" }[outcome]}: ${goal}. Found: ${found}.`;
}

function isProse(column: string): boolean {
  return column === "note";
}
