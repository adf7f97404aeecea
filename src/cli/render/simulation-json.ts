import { seriesOf } from "../simulate/series.ts";
import type { Simulation } from "../simulate/simulate.ts";
import type { Summary } from "../simulate/summary.ts";
import { allowanceText } from "./limit-words.ts";
import { bottleneckText } from "./simulation.ts";

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
