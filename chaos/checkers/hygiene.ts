import { type Digest, groupBy } from "../history/digest.ts";
import { blockedBy, within } from "./blocked.ts";
import { Finding, round, type Verdict } from "./verdict.ts";

/** Processes that lived for less than this have not warmed up. */
const WARM_MS = 30_000;
const MOST_MB_PER_MINUTE = 1;
/**
 * A process that is younger than some minutes is allowed this growth while its heap finds its size, whatever the slope: one that
 * allocates much and keeps nothing grows to several times its live size before it stays constant.
 */
const BREATH_MB = 64;
/** A worker reports a storage that has not answered for about this long. */
const NEAR_MS = 1_500;

/**
 * I15, hygiene: no unhandled error, none about locks, nothing left open at the end, no growth. A worker reports
 * when its process was paused, also in the middle of a call, when answers come too late to start anything (that work continues all
 * the same is for other checkers), or when its storage did not answer for a while: that is what it should do, the latter only if a
 * stopped process had the lock, or if others kept the processors busy (`busy`). `outages`: the storage was unreachable at
 * times, and workers may report that.
 */
export function hygiene(
  history: Digest,
  {
    outages = false,
    busy = false,
  }: { readonly outages?: boolean | undefined; readonly busy?: boolean | undefined } = {},
): Verdict {
  const found = new Finding("I15", "processes");
  const blocked = blockedBy(history);
  const isExpected = (text: string, hr: number) =>
    text.includes("the event loop was blocked") ||
    text.startsWith("LateCallError") ||
    text.includes("claims were answered too late") ||
    (text.includes("has not answered for") && (busy || within(blocked, hr - NEAR_MS, hr) > 0));
  for (const [p, notes] of groupBy(history.notes, (note) => note.p)) {
    const bad = notes.filter(
      ({ kind, text, hr }) =>
        kind === "unhandled" || (kind === "error" && !isExpected(text, hr) && !(outages && isAboutStorage(p, text))),
    );
    found.check(bad.length === 0, () => `${p}: ${bad.length} errors, the first: ${bad[0]?.text}`);
    for (const { kind, value, text } of notes) {
      if (kind === "left") found.check(value === 0, () => `${p} ended with ${value} things open: ${text}`);
    }
    const memory = notes.filter(({ kind }) => kind === "memory");
    const slope = growth(memory);
    found.check(slope <= MOST_MB_PER_MINUTE, () => `${p} grew by ${round(slope)} MB a minute`);
  }
  return found.verdict;
}

/** A worker recovers by itself; a producer must see no error that a short retry would have avoided. */
const isAboutStorage = (p: string, text: string) => p.startsWith("worker") && text.startsWith("StorageError");

/** Megabytes a minute, from the median of the middle third of its life to that of the last. */
function growth(samples: readonly { readonly hr: number; readonly value: number }[]): number {
  const first = samples[0];
  const last = samples.at(-1);
  if (first === undefined || last === undefined || last.hr - first.hr < WARM_MS) return 0;
  const third = Math.floor(samples.length / 3);
  const middle = samples.slice(third, 2 * third);
  const end = samples.slice(2 * third);
  const grown = (median(end) - median(middle)) / 2 ** 20;
  const minutes = (last.hr - first.hr) / 3 / 60_000;
  return grown <= BREATH_MB && minutes < 5 ? 0 : grown / minutes;
}

function median(samples: readonly { readonly value: number }[]): number {
  const values = samples.map(({ value }) => value).toSorted((a, b) => a - b);
  return values[Math.floor(values.length / 2)] ?? 0;
}
