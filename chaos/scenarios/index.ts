import type { Ground } from "../grounds/index.ts";
import type { Outcome, World } from "../conductor/world.ts";
import { backlog } from "./backlog.ts";
import { commands } from "./commands.ts";
import { crashPoints } from "./crash-points.ts";
import { graceful } from "./graceful.ts";
import { fastLimit, limiterLiveness, limits } from "./limits.ts";
import { halfOpen, resets, restarts, slowStorage } from "./outages.ts";
import { pauses } from "./pauses.ts";
import { sharedLimits } from "./shared-limits.ts";
import { poison } from "./poison.ts";
import { storm } from "./storm.ts";

export type Scenario = (world: World) => Promise<Outcome>;

export const SCENARIOS = {
  storm,
  "crash points": crashPoints,
  pauses,
  graceful,
  limits,
  "limiter liveness": limiterLiveness,
  "fast limit": fastLimit,
  "shared limits": sharedLimits,
  poison,
  commands,
  backlog,
  restarts,
  resets,
  "slow storage": slowStorage,
  "half-open": halfOpen,
} as const satisfies Readonly<Record<string, Scenario>>;
export type ScenarioName = keyof typeof SCENARIOS;

/** Those of one stage run side by side. What needs quick answers does not run beside what needs the processor. */
const STAGES: readonly (readonly ScenarioName[])[] = [
  ["storm"],
  ["limits", "pauses"],
  ["graceful", "limiter liveness"],
  ["crash points", "commands"],
  ["poison", "fast limit"],
  ["shared limits"],
  ["backlog"],
];

/** What can only happen to a server, and to the way there. */
const OUTAGES: readonly (readonly ScenarioName[])[] = [["restarts"], ["resets", "half-open"], ["slow storage"]];

export function stagesOn(ground: Ground["name"]): readonly (readonly ScenarioName[])[] {
  return ground === "sqlite" ? STAGES : [...STAGES, ...OUTAGES];
}
