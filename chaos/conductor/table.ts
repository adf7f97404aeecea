import type { Outcome } from "./world.ts";

const HEAD = ["scenario", "faults injected", "operations", "checkers (n)", "verdict"];

function rowsOf(outcomes: readonly Outcome[]): string[][] {
  return outcomes.map(({ name, tests, faults, operations, verdicts, seconds }) => {
    const wrong = verdicts.reduce((sum, { violations }) => sum + violations.length, 0);
    return [
      `${name} (${tests})`,
      faults,
      String(operations),
      verdicts.map(({ id, n, of }) => `${id} ${n} ${of}`).join(", "),
      `${wrong === 0 ? "ok" : `${wrong} VIOLATIONS`}, ${seconds.toFixed(0)} s`,
    ];
  });
}

/** For people at a terminal. */
export function toText(outcomes: readonly Outcome[]): string {
  const lines = [HEAD, ...rowsOf(outcomes)].map((row) => row.join(" | "));
  return lines.join("\n");
}

/** For people who read a file. */
export function toMarkdown(outcomes: readonly Outcome[]): string {
  const line = (row: readonly string[]) => `| ${row.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(HEAD), line(HEAD.map(() => "---")), ...rowsOf(outcomes).map(line)].join("\n");
}

/** What checkers found out besides. */
export function notesOf(outcomes: readonly Outcome[]): string[] {
  return outcomes.flatMap(({ name, verdicts }) =>
    verdicts.flatMap(({ id, note }) => (note === undefined ? [] : [`${name}, ${id}: ${note}`])),
  );
}
