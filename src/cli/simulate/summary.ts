import type { LimitRule } from "../../limits/rule.ts";
import type { Plan } from "./plan.ts";
import { type Played, type Run, TURN, WORKERS } from "./runs.ts";
import { useOf, useOfWorkers } from "./use.ts";

/** How a simulation went, in figures. Times in milliseconds, rates in jobs a minute, parts from 0 to 1. */
export interface Summary {
  readonly jobs: { readonly added: number; readonly started: number; readonly ended: number; readonly waiting: number };
  readonly endedAt: number;
  readonly ended: Played["ended"];
  readonly capped: boolean;
  readonly perMinute: {
    readonly overall: number | null;
    /** Over the last tenth of the time, in whole windows. */
    readonly atTheEnd: number | null;
  };
  /** Of jobs that started. */
  readonly waits: { readonly all: Waits; readonly types: readonly (readonly [type: string, Waits])[] };
  readonly limits: readonly LimitSummary[];
  /** What most of the waiting was for; where no waiting job can ever start, its blocker. null: no job waited. */
  readonly bottleneck: string | null;
}

export interface Waits {
  readonly jobs: number;
  readonly p50: number | null;
  readonly p90: number | null;
  readonly p99: number | null;
  readonly max: number | null;
}

export interface LimitSummary {
  readonly name: string;
  /** null: it is not a limit but the workers, or the order of jobs. */
  readonly rule: LimitRule | null;
  /** Of its allowance, while jobs that it applies to waited; null: none did, or it has none. */
  readonly use: number | null;
  /** Of all waiting. */
  readonly share: number;
}

export function summarise(plan: Plan, played: Played): Summary {
  const { runs, endedAt, ended, capped, blame } = played;
  const started = runs.filter(({ startedAt }) => startedAt !== null);
  const total = [...blame.values()].reduce((sum, ms) => sum + ms, 0);
  const share = (name: string) => (total === 0 ? 0 : (blame.get(name) ?? 0) / total);
  const limits: LimitSummary[] = plan.limits.map((rule) => {
    return { name: rule.name, rule, use: useOf(rule, played), share: share(rule.name) };
  });
  limits.push({ name: WORKERS, rule: null, use: useOfWorkers(plan, played), share: share(WORKERS) });
  if (share(TURN) > 0) limits.push({ name: TURN, rule: null, use: null, share: share(TURN) });
  const worst = limits.reduce((most, one) => (one.share > most.share ? one : most));
  return {
    jobs: {
      added: runs.length,
      started: started.length,
      ended: runs.filter((run) => run.endedAt !== null).length,
      waiting: runs.length - started.length,
    },
    endedAt,
    ended,
    capped,
    perMinute: { overall: overall(runs, endedAt), atTheEnd: atTheEnd(plan, started, played) },
    waits: {
      all: waitsOf(started),
      types: [...Map.groupBy(started, ({ work }) => work.type)]
        .map(([type, own]): [string, Waits] => [type, waitsOf(own)])
        .toSorted(([a], [b]) => (a < b ? -1 : 1)),
    },
    limits,
    bottleneck: (ended === "stuck" ? mostHeld(played) : null) ?? (worst.share > 0 ? worst.name : null),
  };
}

/** The blocker of most jobs that still wait. */
function mostHeld({ held }: Played): string | null {
  return [...held].toSorted(([, a], [, b]) => b - a)[0]?.[0] ?? null;
}

const MINUTE_MS = 60_000;

/** Jobs that ended, by the time from the first that came to the end. */
function overall(runs: readonly Run[], endedAt: number): number | null {
  const took = endedAt - (runs[0]?.at ?? endedAt);
  return took <= 0 ? null : (runs.filter((run) => run.endedAt !== null).length / took) * MINUTE_MS;
}

function atTheEnd({ limits, work }: Plan, started: readonly Run[], { ended, endedAt }: Played): number | null {
  const starts = started.map(({ startedAt }) => startedAt!);
  const first = starts.reduce((least, at) => Math.min(least, at), Number.POSITIVE_INFINITY);
  // When all is done, what counts is the time in which jobs started; the last of them opens a stretch that is not over.
  const last = ended === "time" ? endedAt : starts.reduce((most, at) => Math.max(most, at), 0);
  if (!(last > first)) return null;
  // Starts may come in bursts, so they are counted over whole windows, and over whole rounds of jobs.
  const windows = limits.flatMap(({ quota }) => quota.windowMs ?? quota.everyMs ?? []);
  const grain = Math.max(1, ...windows, ...work.map(({ durationMs }) => durationMs));
  const stretch = Math.min(last - first, Math.ceil((last - first) / 10 / grain) * grain);
  const within = starts.filter((at) => at >= last - stretch && at < last).length;
  return (within / stretch) * MINUTE_MS;
}

function waitsOf(started: readonly Run[]): Waits {
  const waits = Float64Array.from(started, ({ at, startedAt }) => startedAt! - at).toSorted();
  const at = (part: number) => waits[Math.max(0, Math.ceil(part * waits.length) - 1)] ?? null;
  return { jobs: waits.length, p50: at(0.5), p90: at(0.9), p99: at(0.99), max: waits.at(-1) ?? null };
}
