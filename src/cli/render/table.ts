import type { Paint } from "../io.ts";
import { fit, widthOf, wrap } from "./text.ts";

export interface Column {
  readonly title: string;
  readonly align?: "left" | "right";
  /** May be cut down to this if there are too few columns. */
  readonly atLeast?: number;
}

export interface Surface {
  readonly paint: Paint;
  /** How many columns there are; undefined: as many as it takes. */
  readonly columns: number | undefined;
}

/** Rows under titles, aligned. What does not fit is first put closer together, then cut where that is allowed. */
export function table(columns: readonly Column[], rows: readonly (readonly string[])[], surface: Surface): string {
  const widths = columns.map(({ title }, i) => Math.max(widthOf(title), ...rows.map((row) => widthOf(row[i] ?? ""))));
  const gap = shrink(columns, widths, surface.columns);
  const line = (cells: readonly string[]) =>
    columns
      .map(({ align }, i) => {
        const cell = fit(cells[i] ?? "", widths[i]!);
        const padding = " ".repeat(widths[i]! - widthOf(cell));
        return align === "right" ? padding + cell : cell + padding;
      })
      .join(gap)
      .trimEnd();
  const titles = surface.paint("bold", line(columns.map(({ title }) => title)));
  return [titles, ...rows.map((row) => line(row))].map((text) => `${text}\n`).join("");
}

/** Makes the widths fit. The answer is what stands between two columns. */
function shrink(columns: readonly Column[], widths: number[], room: number | undefined): string {
  const excess = (gap: number) =>
    room === undefined ? 0 : widths.reduce((sum, width) => sum + width, gap * (columns.length - 1)) - room;
  const gap = excess(2) > 0 ? 1 : 2;
  for (const [i, { atLeast }] of columns.entries()) {
    if (atLeast === undefined) continue;
    widths[i] = Math.max(Math.min(atLeast, widths[i]!), widths[i]! - Math.max(0, excess(gap)));
  }
  return " ".repeat(gap);
}

/** Labels and what belongs to them, one below the other; further lines of a text stand below its first. */
export function listing(rows: readonly (readonly [string, string | readonly string[]])[], { paint }: Surface): string {
  const width = labelWidth(rows);
  return rows
    .flatMap(([label, text]) =>
      [text].flat().map((line, i) => `${paint("dim", (i === 0 ? label : "").padEnd(width))}${line}`.trimEnd()),
    )
    .map((line) => `${line}\n`)
    .join("");
}

/** The same, with long texts in as many lines as it takes to stay within the columns there are. */
export function wrappedListing(
  rows: readonly (readonly [string, string | readonly string[]])[],
  surface: Surface,
): string {
  const room = (surface.columns ?? Number.POSITIVE_INFINITY) - labelWidth(rows);
  const lines = (text: string) => wrap(text, Math.max(20, room));
  return listing(
    rows.map(([label, text]) => [label, [text].flat().flatMap((line) => lines(line))]),
    surface,
  );
}

function labelWidth(rows: readonly (readonly [string, unknown])[]): number {
  return Math.max(...rows.map(([label]) => widthOf(label))) + 2;
}
