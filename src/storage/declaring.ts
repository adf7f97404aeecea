import type { LimitChanged, LimitKept, LimitRulePart } from "../core/limit-change.ts";
import type { DefinedLimits } from "../limits/define.ts";
import type { JobStorage } from "./job-storage.ts";
import type { LimitsDeclared } from "./limit-storage.ts";
import { spanText } from "./span.ts";

/** The effect of a declaration of a worker or a queue, for each limit that was changed or kept. */
export type LimitDeclared =
  | ({ readonly outcome: "changed" } & LimitChanged)
  | ({ readonly outcome: "kept" } & LimitKept);

/** Is called with the effect of a declaration. */
export type LimitListener = (declared: LimitDeclared) => void;

/**
 * Declares limits for a worker or a queue, and calls the listener. The storage publishes changes; this function publishes limits that were
 * kept because a newer version is stored. `by`: the author, such as `worker 0193…`.
 */
export async function declareLimits(
  storage: JobStorage,
  { rules, onConflict, version, owner }: DefinedLimits,
  by: string,
  listener: LimitListener | undefined,
): Promise<void> {
  const came = await storage.limits.define(rules, { onConflict, version, owner, by });
  for (const outcome of outcomesOf(came)) report(listener ?? log, outcome);
  for (const one of came.kept) {
    await storage.publish({ event: "limit-kept", queue: null, ...one }).catch(() => {});
  }
}

/** The effects to report. New limits are left out: they change nothing that was in force. */
export function outcomesOf({ changes, kept }: LimitsDeclared): readonly LimitDeclared[] {
  const outcomes: LimitDeclared[] = [];
  for (const change of changes) if (change.from !== null) outcomes.push({ outcome: "changed", ...change });
  for (const one of kept) outcomes.push({ outcome: "kept", ...one });
  return outcomes;
}

/** A listener that fails must not keep a worker from starting. */
function report(listener: LimitListener, declared: LimitDeclared): void {
  try {
    listener(declared);
  } catch {
    // The event and the history have the change, too.
  }
}

function log(declared: LimitDeclared): void {
  // oxlint-disable-next-line no-console -- other numbers than before are worth a line; `onLimitChange` takes its place
  console.info(`sluice: ${declaredText(declared)}`);
}

/** The change as one line of text. */
export function declaredText(declared: LimitDeclared): string {
  const { limit, by } = declared;
  if (declared.outcome === "changed") return `the limit "${limit}" was ${changeText(declared)}, by ${by}`;
  const { version, kept, keptVersion } = declared;
  const held = kept === null ? "was removed by a newer version" : `stays as version ${keptVersion} declared it`;
  const own = version === null ? "has no version" : `is version ${version}`;
  return `the limit "${limit}" ${held}; the declaration by ${by} ${own} (${differenceText(kept, declared.declared)})`;
}

/** The change as text: `declared (max 10 -> 20)`. */
export function changeText({ kind, from, to }: LimitChanged): string {
  const difference = to === null || kind === "paused" || kind === "resumed" ? "" : differenceText(from, to);
  return difference === "" ? kind : `${kind} (${difference})`;
}

function differenceText(from: LimitRulePart | null, to: LimitRulePart): string {
  const [was, is] = [from === null ? new Map<string, string>() : wordsOf(from), wordsOf(to)];
  const differing = [...new Set([...was.keys(), ...is.keys()])].filter((key) => was.get(key) !== is.get(key));
  return differing
    .map((key) =>
      from === null ? `${key} ${is.get(key)}` : `${key} ${was.get(key) ?? "none"} -> ${is.get(key) ?? "none"}`,
    )
    .join(", ");
}

/** The parts of a rule that differ from the default, by the names of their options. */
function wordsOf({ quota, groups = {}, paused, ...rest }: LimitRulePart): Map<string, string> {
  const { max, windowMs, concurrency, everyMs } = quota;
  const words: [string, string | null][] = [
    ["max", max === null ? null : String(max)],
    ["per", windowMs === null ? null : spanText(windowMs)],
    ["concurrency", concurrency === null ? null : String(concurrency)],
    ["every", everyMs === null ? null : spanText(everyMs)],
    ["paused", paused ? "yes" : null],
    ...Object.entries(rest).map(([key, value]): [string, string] => [key, JSON.stringify(value)]),
    ...Object.entries(groups).map(([group, own]): [string, string] => [`group ${group}`, JSON.stringify(own)]),
  ];
  // The estimate has no meaning if every start has weight one.
  const silent = (key: string, value: string | null) =>
    value === null || value === "null" || value === "false" || (key === "estimate" && rest.weight === null);
  return new Map(words.filter((entry): entry is [string, string] => !silent(...entry)));
}
