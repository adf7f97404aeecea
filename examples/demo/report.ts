import type { JobCounts } from "sluice";
import { listing, type Surface } from "../../src/cli/render/table.ts";
import { plural, printable } from "../../src/cli/render/text.ts";
import { duration } from "../../src/cli/render/time.ts";
import { mostInAnyWindow } from "../common/windows.ts";
import { margin, useOfAllowance } from "./arithmetic.ts";
import type { Plan, ServiceRecord } from "./plan.ts";
import type { Scoreboard } from "./scoreboard.ts";

/** How the demo went, in figures. */
export interface Report {
  /** No call was refused and every job was done. */
  readonly ok: boolean;
  readonly plan: Plan;
  /** By the record of the service. */
  readonly service: {
    readonly calls: number;
    readonly refused: number;
    readonly tookMs: number;
    readonly worstWindow: number;
    /** By so much the call nearest to a 429 missed it; null: there were too few calls to say. */
    readonly marginMs: number | null;
    /** Use of the allowance, 0 to 1; null: there were too few calls to say. */
    readonly use: number | null;
    /** The same of what the guard leaves of it. */
    readonly useWithinGuard: number | null;
  };
  /** By the storage. */
  readonly jobs: {
    readonly completed: number;
    readonly dead: number;
    /** Neither done nor anywhere in the queue. */
    readonly lost: number;
    readonly unfinished: number;
    /** Jobs that the service did work for more than once. */
    readonly ranAgain: number;
    /** Of those: jobs that the killed process did not have in hand. */
    readonly ranAgainUnexplained: number;
  };
  readonly kill: {
    readonly process: number;
    readonly afterMs: number;
    readonly inHand: number;
    /** From the kill to the last of its jobs being back in the queue, and to the last being started again. */
    readonly backMs: number | null;
    readonly againMs: number | null;
  } | null;
  readonly processes: readonly { readonly pid: number; readonly done: number; readonly killed: boolean }[];
  readonly failures: readonly string[];
}

export function makeReport(board: Scoreboard, record: ServiceRecord, counts: JobCounts): Report {
  const { plan, killing, startedAt } = board;
  const times = record.calls.map(({ at }) => at);
  const refused = record.calls.filter(({ status }) => status === 429).length;
  const use = useOfAllowance(times, plan) ?? null;
  const ran = Map.groupBy(
    record.calls.filter(({ status }) => status === 200),
    ({ job }) => job,
  );
  const again = [...ran].filter(([, calls]) => calls.length > 1).map(([job]) => job);
  const kept = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const since = (at: number | undefined) => (at === undefined || killing === undefined ? null : at - killing.at);
  return {
    ok: (refused === 0 || plan.unlimited) && counts.completed === plan.jobs,
    plan,
    service: {
      calls: times.length,
      refused,
      tookMs: times.length === 0 ? 0 : times.at(-1)! - times[0]!,
      worstWindow: mostInAnyWindow(times, plan.windowMs),
      marginMs: margin(times, plan) ?? null,
      use,
      useWithinGuard: use === null ? null : (use * (plan.windowMs + plan.guardMs)) / plan.windowMs,
    },
    jobs: {
      completed: counts.completed,
      dead: counts.dead,
      lost: plan.jobs - kept,
      unfinished: kept - counts.completed - counts.dead,
      ranAgain: again.length,
      ranAgainUnexplained: again.filter((job) => !killing?.inHand.has(job)).length,
    },
    kill: killing
      ? {
          process: killing.player + 1,
          afterMs: killing.at - startedAt,
          inHand: killing.inHand.size,
          backMs: since(killing.backAt),
          againMs: since(killing.againAt),
        }
      : null,
    processes: board.players.map(({ pid, done, killed }) => ({ pid, done, killed })),
    failures: board.failures,
  };
}

/** The closing report. */
export function reportText(report: Report, surface: Surface): string {
  const { paint } = surface;
  const part = (title: string, rows: Rows) =>
    `\n  ${paint("bold", title)}\n\n${listing(
      rows.map(([label, text]) => [`  ${label}`, text] as const),
      surface,
    )}`;
  const verdict = report.ok ? "" : `\n  ${paint("red", whatFailed(report))}\n`;
  return `${part("What the service saw", serviceRows(report, surface))}${part("What became of the jobs", jobRows(report, surface))}${verdict}\n`;
}

type Rows = (readonly [string, string | readonly string[]])[];

function serviceRows({ plan, service }: Report, { paint }: Surface): Rows {
  const { calls, refused, tookMs, worstWindow, marginMs, use, useWithinGuard } = service;
  const percent = (part: number) => `${(part * 100).toFixed(1)} %`;
  const rows: Rows = [
    ["calls", `${calls} in ${duration(tookMs)}`],
    ["429s", paint(refused === 0 ? "green" : "red", String(refused))],
    ["worst window", `${plural(worstWindow, "call")} in ${duration(plan.windowMs)}; the quota is ${plan.quota}`],
  ];
  if (plan.unlimited) return rows;
  const guarded =
    useWithinGuard === null || plan.guardMs === 0
      ? ""
      : ` (${percent(useWithinGuard)} of what a guard of ${duration(plan.guardMs)} leaves)`;
  rows.push([
    "use of the allowance",
    use === null ? "– (that takes more jobs than the quota)" : percent(use) + guarded,
  ]);
  if (marginMs !== null)
    rows.push(["nearest to a 429", `a call ${duration(Math.max(0, marginMs))} after it was allowed`]);
  return rows;
}

function jobRows({ plan, jobs, kill, processes }: Report, { paint }: Surface): Rows {
  const all = jobs.completed === plan.jobs;
  const rows: Rows = [["completed", `${paint(all ? "green" : "red", String(jobs.completed))} of ${plan.jobs}`]];
  rows.push(["lost", paint(jobs.lost === 0 ? "green" : "red", String(jobs.lost))]);
  if (jobs.dead > 0) rows.push(["dead", paint("red", String(jobs.dead))]);
  const why = jobs.ranAgainUnexplained === 0 ? "killed with their process, after their call" : "";
  rows.push(["run twice", jobs.ranAgain === 0 ? "0" : `${jobs.ranAgain}${why === "" ? "" : ` (${why})`}`]);
  if (kill !== null) {
    rows.push([
      "killed",
      `process ${kill.process} after ${duration(kill.afterMs)}, ${plural(kill.inHand, "job")} in hand`,
    ]);
    rows.push(["recovery", recoveryRows(kill, plan)]);
  }
  rows.push(["done by process", processes.map(({ done, killed }) => `${done}${killed ? " (killed)" : ""}`).join(", ")]);
  return rows;
}

function recoveryRows({ inHand, backMs, againMs }: NonNullable<Report["kill"]>, { leaseMs }: Plan): string[] {
  if (inHand === 0) return ["nothing to recover: it had settled what it had"];
  const lease = `the lease is ${duration(leaseMs)}`;
  return [
    backMs === null ? `not seen to be back in line (${lease})` : `back in line after ${duration(backMs)} (${lease}),`,
    againMs === null ? "not all started again" : `running again, in their turn, after ${duration(againMs)}`,
  ];
}

function whatFailed({ service, jobs, plan, failures }: Report): string {
  const wrong = [
    ...(service.refused > 0 ? [`${plural(service.refused, "call")} refused`] : []),
    ...(jobs.completed < plan.jobs ? [`${plural(plan.jobs - jobs.completed, "job")} not done`] : []),
    ...[...new Set(failures)].slice(0, 3).map((failure) => printable(failure)),
  ];
  return `Failed: ${wrong.join("; ")}.`;
}
