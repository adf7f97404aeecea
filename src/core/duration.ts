/** Milliseconds, or a number with its unit: `250`, `"250ms"`, `"5s"`, `"1m"`, `"2h"`, `"1d"`. */
export type Duration = number | `${number}${"ms" | "s" | "m" | "h" | "d"}`;

const UNITS: ReadonlyMap<string, number> = new Map([
  ["ms", 1],
  ["s", 1_000],
  ["m", 60_000],
  ["h", 3_600_000],
  ["d", 86_400_000],
]);

/** The milliseconds in `value`, or NaN where it is no duration at all. */
export function toMilliseconds(value: unknown): number {
  if (typeof value === "number") return value;
  if (typeof value !== "string" || value.length > 32) return Number.NaN;
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(value);
  return match === null ? Number.NaN : Number(match[1]) * (UNITS.get(match[2] ?? "") ?? Number.NaN);
}
