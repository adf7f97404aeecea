import type { Reason } from "../../limits/key-state.ts";
import { labelOf } from "../../limits/rule.ts";
import type { QueueExplanation } from "../../storage/drain.ts";
import type { Explanation, Blocker, LimitBlocker } from "../../storage/explain.ts";
import { dateAt } from "../../storage/span.ts";
import { type Surface, table, wrappedListing } from "./table.ts";
import { number, plural, printable, wrap } from "./text.ts";
import { duration, timeOfDay } from "./time.ts";

type Row = readonly [string, string | readonly string[]];

/** Why a job does not start, or that it could. */
export function explanationText(explained: Explanation, now: number, surface: Surface): string {
  const { id, queue, type, state, position } = explained;
  const holds = holdsOf(explained);
  const waits = state === "waiting" || state === "scheduled";
  const rows: (Row | undefined)[] = [
    ["id", printable(id)],
    ["queue", printable(queue)],
    ["type", printable(type)],
    ["state", surface.paint("bold", state)],
    waits ? ["position", positionText(position)] : undefined,
    ["held by", holds.length === 0 ? nothingText(explained) : holds.map((one) => blockerText(one, now))],
    waits ? ["earliest", earliestText(explained, now)] : undefined,
  ];
  return wrappedListing(
    rows.filter((row): row is Row => row !== undefined),
    surface,
  );
}

/** Its blockers, without the jobs before it: these are in its position. */
function holdsOf({ blockers }: Explanation): readonly Blocker[] {
  return blockers.filter(({ kind }) => kind !== "order");
}

function nothingText({ runnable }: Explanation): string {
  return runnable ? "nothing: it starts when a worker asks" : "jobs before it, which may start first";
}

/** What it waits for, in one line. */
export function waitingLine(explained: Explanation, now: number): string {
  const [first, ...rest] = holdsOf(explained);
  if (first === undefined) return explained.runnable ? "a worker" : "those before it";
  return blockerText(first, now) + (rest.length === 0 ? "" : ` (and ${number(rest.length)} more: sluice explain)`);
}

function positionText({ higher, group, turns }: Explanation["position"]): string {
  const before = [
    ...(group > 0 ? [`${plural(group, "job")} of its group`] : []),
    ...(turns > 0 ? [`${plural(turns, "job")} of other groups by turns`] : []),
    ...(higher > 0 ? [`${plural(higher, "job")} of a higher priority`] : []),
  ];
  return before.length === 0 ? "first" : `behind ${before.join(" and ")}`;
}

function earliestText({ earliest, blockers }: Explanation, now: number): string {
  const missing = blockers.some(({ kind }) => kind === "no-worker") ? ", once a worker handles it" : "";
  if (earliest !== undefined) {
    // Instants of a Date are whole milliseconds, rounded up.
    return (earliest.getTime() - now < 1 ? "now" : moment(earliest, now)) + missing;
  }
  const known = blockers.flatMap(({ until }) => until?.getTime() ?? []);
  const least = known.length === 0 ? "" : `; not before ${moment(new Date(Math.max(...known)), now)}`;
  return `cannot be estimated${least}`;
}

/** `12:00:03 (in 3.2 s)`. */
function moment(at: Date, now: number): string {
  return `${timeOfDay(at.getTime(), now)} (in ${duration(Math.max(0, at.getTime() - now))})`;
}

function blockerText(blocker: Blocker, now: number): string {
  if (blocker.kind === "limit") return limitLine(blocker, now);
  if (blocker.until !== undefined) return `its delay, until ${moment(blocker.until, now)}`;
  return printable(blocker.text);
}

function limitLine(
  { limit, group, reason, used, max, held, concurrency, weight, until, text }: LimitBlocker,
  now: number,
): string {
  const name = printable(labelOf(limit, group ?? null));
  if (reason === undefined) return printable(text);
  const needs = weight === 1 ? "" : `, and it needs ${number(weight)}`;
  const then = until === undefined ? "" : `, until ${moment(until, now)}`;
  const nothing = max === 0 || concurrency === 0 ? "allows nothing" : undefined;
  const words: Readonly<Record<Reason, string>> = {
    window: nothing ?? `${number(used)}/${number(max ?? 0)} used${needs}${then}`,
    concurrency:
      nothing ?? `${number(held)}/${number(concurrency ?? 0)} at a time${needs}${then || ", until one ends"}`,
    spacing: `too soon after the one before${then}`,
    paused: "paused, until it is resumed",
    held: `held by the service, or by hand${then}`,
    remaining: `used up, says the service${needs}${then}`,
    breaker: `its breaker is open${then || ", until a probe succeeds"}`,
  };
  return `${name}: ${words[reason]}`;
}

/** The waiting jobs of a queue, and how long its limits take for them. */
export function queueExplanationText(explained: QueueExplanation, now: number, surface: Surface): string {
  const { queue, waiting, scheduled, active, limits, bottleneck, drainsInMs, text, assumed } = explained;
  const rows: (Row | undefined)[] = [
    ["queue", printable(queue)],
    ["waiting", number(waiting)],
    ["scheduled", number(scheduled)],
    ["active", number(active)],
    waiting === 0 || bottleneck === undefined
      ? undefined
      : ["bottleneck", surface.paint("bold", printable(bottleneck))],
    waiting === 0 || drainsInMs === undefined || drainsInMs === 0
      ? undefined
      : ["drained", `about ${moment(dateAt(now + drainsInMs), now)}`],
  ];
  const list = wrappedListing(
    rows.filter((row): row is Row => row !== undefined),
    surface,
  );
  const sentences = [text, ...assumed].flatMap((one) =>
    wrap(printable(one), surface.columns ?? Number.POSITIVE_INFINITY),
  );
  const lines = sentences.map((line) => `${line}\n`).join("");
  return `${list}\n${limits.length === 0 ? "" : `${drainTable(limits, surface)}\n`}${lines}`;
}

function drainTable(limits: QueueExplanation["limits"], surface: Surface): string {
  const columns = [
    { title: "limit", atLeast: 8 },
    { title: "waiting", align: "right" as const },
    { title: "elsewhere", align: "right" as const },
    { title: "binds", atLeast: 7 },
    { title: "takes", align: "right" as const },
  ];
  const rows = limits.map(({ limit, waiting, elsewhere, binds, stopped, drainsInMs, atLeastMs }) => [
    printable(limit),
    number(waiting),
    number(elsewhere),
    binds ?? "",
    stopped
      ? "stopped"
      : drainsInMs === undefined
        ? atLeastMs > 0
          ? `> ${duration(atLeastMs)}`
          : "?"
        : duration(drainsInMs),
  ]);
  return table(columns, rows, surface);
}
