import type { Plan } from "./plan.ts";
import { play } from "./play.ts";
import type { Played } from "./runs.ts";
import { type Summary, summarise } from "./summary.ts";
import { doubled } from "./what-if.ts";

/** A plan, its result, and the result with the main bottleneck doubled. */
export interface Simulation {
  readonly plan: Plan;
  readonly played: Played;
  readonly summary: Summary;
  /** null: no job waited, or there is nothing to double. */
  readonly doubled: Summary | null;
}

export async function simulate(plan: Plan): Promise<Simulation> {
  const played = await play(plan);
  const summary = summarise(plan, played);
  const other = summary.bottleneck === null ? undefined : doubled(plan, summary.bottleneck);
  return {
    plan,
    played,
    summary,
    doubled: other === undefined ? null : summarise(other, await play(other)),
  };
}
