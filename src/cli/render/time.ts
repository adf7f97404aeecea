const UNITS: readonly (readonly [string, number])[] = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
];

/** A length of time in its two largest units: `412 ms`, `4.2 s`, `3 m 20 s`, `5 h 12 m`. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${Number((ms / 1_000).toFixed(1))} s`;
  const seconds = Math.round(ms / 1_000) * 1_000;
  const first = UNITS.findIndex(([, size]) => seconds >= size);
  const [large, small] = [UNITS[first]!, UNITS[first + 1]];
  const rest = small === undefined ? 0 : Math.floor((seconds % large[1]) / small[1]);
  return `${Math.floor(seconds / large[1])} ${large[0]}${rest > 0 ? ` ${rest} ${small![0]}` : ""}`;
}

/** The same for a narrow column: `412ms`, `4s`, `3m`, `5h`, `12d`. */
export function shortDuration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)}ms`;
  const unit = UNITS.find(([, size]) => ms >= size)!;
  return `${Math.floor(ms / unit[1])}${unit[0]}`;
}

/** An instant for people and machines. Stored instants may be anything, so one that no date can hold is shown as a number. */
export function instant(at: number): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? String(at) : date.toISOString();
}

/** How far away an instant is: `3 m 20 s ago`, `in 4.2 s`. */
export function distance(at: number, now: number): string {
  return at <= now ? `${duration(now - at)} ago` : `in ${duration(at - now)}`;
}

/** The time of day where the user is, in whole seconds, rounded up; with the date if that is another day. */
export function timeOfDay(at: number, now: number): string {
  const [date, today] = [new Date(Math.ceil(at / 1_000) * 1_000), new Date(now)];
  if (Number.isNaN(date.getTime())) return String(at);
  const two = (value: number) => String(value).padStart(2, "0");
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => two(part)).join(":");
  if (date.toDateString() === today.toDateString()) return time;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${time}`;
}
