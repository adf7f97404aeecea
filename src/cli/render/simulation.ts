import { spanText } from "../../storage/span.ts";
import type { Plan, Work } from "../simulate/plan.ts";
import { TURN, WORKERS } from "../simulate/runs.ts";
import { seriesOf } from "../simulate/series.ts";
import type { Simulation } from "../simulate/simulate.ts";
import type { LimitSummary, Summary, Waits } from "../simulate/summary.ts";
import { allowsNothing } from "../simulate/what-if.ts";
import { allowanceText } from "./limit-words.ts";
import { plot, roomFor } from "./plot.ts";
import { type Surface, table } from "./table.ts";
import { number, plural, printable, wrap } from "./text.ts";
import { duration } from "./time.ts";

/** The width where none is known. */
const USUAL_COLUMNS = 80;
const ROWS = 8;

/** The result of a simulation as text. */
export function simulationText(simulation: Simulation, surface: Surface, ascii: boolean): string {
  const { plan, played, summary } = simulation;
  const columns = Math.max(40, surface.columns ?? USUAL_COLUMNS);
  const series = seriesOf(played, roomFor(columns));
  const style = { rows: ROWS, ascii };
  const title = (text: string) => `${surface.paint("bold", text)}\n`;
  return [
    planLines(plan)
      .flatMap((line) => wrap(line, columns))
      .map((line) => `${line}\n`)
      .join(""),
    "\n",
    endText(plan, summary, surface),
    "\n",
    waitsTable(summary, surface),
    "\n",
    limitsTable(plan, summary.limits, surface),
    "\n",
    ...wrap(bottleneckText(simulation), columns).map((line) => title(line)),
    "\n",
    title("jobs that wait"),
    plot(series.waiting, series.bucketMs, style),
    title(`starts in ${spanText(series.bucketMs)}`),
    plot(series.starts, series.bucketMs, style),
  ].join("");
}

function planLines({ work, workers, concurrency, forMs, seed }: Plan): string[] {
  const crew = `${plural(workers, "worker")} with ${number(concurrency)} at a time`;
  const time = forMs === null ? "until all is done" : `for ${duration(forMs)}`;
  return [...work.map((one) => workText(one)), `${crew}, ${time}, seed ${seed}`];
}

function workText({
  type,
  jobs,
  burst,
  everyMs,
  arrivals,
  fromMs,
  groups,
  keys,
  durationMs,
  spread,
  weights,
}: Work): string {
  const many = jobs === null ? "" : `${number(jobs)} `;
  const rate = everyMs === null ? "" : `${perTime(everyMs)}${arrivals === "poisson" ? " by chance" : ""}`;
  const weight = Object.entries(weights).map(([name, [least, most]]) => {
    return `${number(least)}${most > least ? ` to ${number(most)}` : ""} ${printable(name)}`;
  });
  return [
    `${many}${printable(type)}: ${everyMs === null ? `${jobs === null ? `${number(burst)} ` : ""}at once` : rate}`,
    ...(everyMs !== null && burst > 0 ? [`${number(burst)} at the beginning`] : []),
    ...(fromMs > 0 ? [`from ${duration(fromMs)} on`] : []),
    ...(groups === null ? [] : [`of ${plural(groups.shares.length, "group")}`]),
    ...Object.entries(keys).map(([name, { shares }]) => `with ${plural(shares.length, "value")} of ${printable(name)}`),
    `${duration(durationMs)}${spread > 0 ? " on average" : ""} each`,
    ...weight,
  ].join(", ");
}

/** `5 a second`, `2.5 an hour`. */
function perTime(everyMs: number): string {
  const units = [
    ["a second", 1_000],
    ["a minute", 60_000],
    ["an hour", 3_600_000],
  ] as const;
  const [unit, ms] = units.find(([, size]) => size / everyMs >= 1) ?? units[2];
  return `${Number((ms / everyMs).toPrecision(4))} ${unit}`;
}

function endText({ maxJobs }: Plan, { ended, endedAt, jobs, capped, perMinute }: Summary, { paint }: Surface): string {
  const end = {
    done: `All ${plural(jobs.added, "job")} done after ${duration(endedAt)}`,
    time: `${number(jobs.ended)} of ${plural(jobs.added, "job")} done after ${duration(endedAt)}; ${number(jobs.waiting)} still wait`,
    stuck: `${number(jobs.waiting)} of ${plural(jobs.added, "job")} can never start`,
    "too much": `Stopped after ${duration(endedAt)}, for it became too much; ${number(jobs.waiting)} still wait`,
  }[ended];
  const rate = (value: number | null) => (value === null ? "-" : Number(value.toPrecision(4)).toLocaleString("en-US"));
  const lines = [
    paint(ended === "done" || ended === "time" ? "green" : "red", `${end}.`),
    `${rate(perMinute.overall)} jobs a minute, ${rate(perMinute.atTheEnd)} at the end.`,
    ...(capped
      ? [paint("yellow", `No jobs were added after the first ${number(maxJobs)}: --max-jobs would allow more.`)]
      : []),
  ];
  return lines.map((line) => `${line}\n`).join("");
}

function waitsTable({ waits }: Summary, surface: Surface): string {
  const right = (title: string) => ({ title, align: "right" as const });
  const columns = [
    { title: "waiting", atLeast: 7 },
    ...["jobs", "p50", "p90", "p99", "longest"].map((title) => right(title)),
  ];
  const time = (ms: number | null) => (ms === null ? "" : duration(ms));
  const row = (name: string, { jobs, p50, p90, p99, max }: Waits) => [
    name,
    number(jobs),
    ...[p50, p90, p99, max].map((ms) => time(ms)),
  ];
  const types = waits.types.map(([type, own]) => row(printable(type), own));
  return table(columns, types.length === 1 ? types : [row("all", waits.all), ...types], surface);
}

/** A fraction as a percentage. */
export function percent(part: number): string {
  const value = part * 100;
  return `${value > 0 && value < 1 ? "<1" : value < 100 && value > 99 ? Math.floor(value) : Math.round(value)} %`;
}

function limitsTable({ workers, concurrency }: Plan, limits: readonly LimitSummary[], surface: Surface): string {
  const columns = [
    { title: "limit", atLeast: 12 },
    { title: "allows", atLeast: 12 },
    { title: "in use", align: "right" as const },
    { title: "of the waiting", align: "right" as const },
  ];
  const inParallel = `${number(workers * concurrency)} at a time`;
  const rows = limits.map(({ name, rule, use, share }) => [
    rule === null ? `(${name})` : printable(name),
    rule !== null ? allowanceText(rule) : name === WORKERS ? inParallel : "",
    use === null ? "" : percent(use),
    share === 0 ? "" : percent(share),
  ]);
  return table(columns, rows, surface);
}

/** The bottleneck, and what doubling it would change, in one sentence. */
export function bottleneckText({ summary, doubled }: Simulation): string {
  const { bottleneck, limits } = summary;
  if (bottleneck === null) return "Nothing waited: there is capacity for more.";
  const { rule, share } = limits.find(({ name }) => name === bottleneck)!;
  const first =
    summary.ended === "stuck"
      ? `${called(bottleneck)} holds what can never start`
      : `${called(bottleneck)} held ${percent(share)} of the waiting`;
  if (rule !== null && allowsNothing(rule)) return `${first}: it allows nothing.`;
  if (doubled === null) return `${first}.`;
  const gain = ` (waiting, longest: ${lengthOf(doubled)} instead of ${lengthOf(summary)})`;
  if (doubled.bottleneck === null) return `${first}; with 2x of it nothing would wait.`;
  if (doubled.bottleneck === bottleneck) return `${first}; with 2x of it it would still be the first${gain}.`;
  return `${first}; with 2x of it ${called(doubled.bottleneck)} would be next${gain}.`;
}

function called(name: string): string {
  return name === WORKERS ? "the workers" : name === TURN ? "the order of jobs" : printable(name);
}

function lengthOf({ waits }: Summary): string {
  return waits.all.max === null ? "none" : duration(waits.all.max);
}

/** So many points of each curve. */
const POINTS = 120;

/** How a simulation went, for machines: times in milliseconds, rates in jobs a minute, parts from 0 to 1. */
export function simulationJson(simulation: Simulation): unknown {
  const { played, plan, summary, doubled } = simulation;
  return {
    ...outline(summary),
    text: bottleneckText(simulation),
    doubled: doubled === null ? null : outline(doubled),
    series: seriesOf(played, POINTS),
    claims: played.claims,
    seed: plan.seed,
  };
}

function outline({ jobs, ended, endedAt, capped, perMinute, waits, limits, bottleneck }: Summary) {
  return {
    jobs,
    ended,
    tookMs: endedAt,
    capped,
    perMinute,
    waits: { all: waits.all, types: Object.fromEntries(waits.types) },
    limits: limits.map(({ name, rule, use, share }) => {
      return { name, allows: rule === null ? null : allowanceText(rule), use, share };
    }),
    bottleneck,
  };
}
