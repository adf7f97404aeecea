const UNITS: readonly (readonly [ms: number, unit: string])[] = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "m"],
  [1_000, "s"],
];

/** A length of time as text, in the largest unit of which it is a whole number. */
export function spanText(ms: number): string {
  const [size, unit] = UNITS.find(([of]) => ms >= of && ms % of === 0) ?? [1, "ms"];
  return `${Math.round((ms / size) * 1_000) / 1_000}${unit}`;
}

/** A length of time as rough text, in at most two units: `2h 5m`. */
export function roughText(ms: number): string {
  if (ms < 1_000) return `${Math.ceil(ms)}ms`;
  let left = Math.ceil(ms / 1_000) * 1_000;
  const words: string[] = [];
  for (const [size, unit] of UNITS) {
    if (words.length === 2) break;
    const count = Math.floor(left / size);
    left -= count * size;
    if (count > 0) words.push(`${count}${unit}`);
    else if (words.length > 0) break;
  }
  return words.join(" ");
}

/** An instant of the storage's clock as a date: rounded up to whole milliseconds, and no later than a date can be. */
export function dateAt(instant: number): Date {
  return new Date(Math.min(Math.ceil(instant), LATEST_DATE));
}

/** The last instant a `Date` can hold. */
const LATEST_DATE = 8.64e15;
