import type { Ground } from "../grounds/index.ts";
import type { Outcome, World } from "../conductor/world.ts";
import { aheadOnce } from "./ahead-once.ts";
import { backlog } from "./backlog.ts";
import { busyMachine } from "./busy-machine.ts";
import { clocks, fakedClocks } from "./clocks.ts";
import { commands } from "./commands.ts";
import { crashPoints } from "./crash-points.ts";
import { graceful } from "./graceful.ts";
import { largeJobs } from "./large-jobs.ts";
import { fastLimit, limiterLiveness, limits } from "./limits.ts";
import { oldSnapshot } from "./old-snapshot.ts";
import { halfOpen, resets, restarts, slowStorage, unknownOutcomes } from "./outages.ts";
import { pauses } from "./pauses.ts";
import { steadyLimit } from "./steady.ts";
import { sharedLimits } from "./shared-limits.ts";
import { pooler } from "./pooler.ts";
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
  "steady limit": steadyLimit,
  "shared limits": sharedLimits,
  "busy machine": busyMachine,
  poison,
  commands,
  backlog,
  restarts,
  resets,
  "slow storage": slowStorage,
  "large jobs": largeJobs,
  "half-open": halfOpen,
  "unknown outcomes": unknownOutcomes,
  pooler,
  clocks,
  "ahead once": aheadOnce,
  "faked clocks": fakedClocks,
  "old snapshot": oldSnapshot,
} as const satisfies Readonly<Record<string, Scenario>>;
export type ScenarioName = keyof typeof SCENARIOS;

/** Those of one stage run side by side. What needs quick answers does not run beside what needs the processor. */
const STAGES: readonly (readonly ScenarioName[])[] = [
  ["storm"],
  ["limits"],
  ["pauses", "poison"],
  ["graceful", "limiter liveness"],
  ["crash points", "commands"],
  ["fast limit"],
  ["steady limit"],
  ["shared limits"],
  ["ahead once"],
  ["busy machine"],
  ["backlog"],
];

/** Faults of a server, of the connections to it, and of computers that are not its own. */
const OUTAGES: readonly (readonly ScenarioName[])[] = [
  ["restarts"],
  ["resets", "half-open"],
  ["slow storage", "clocks"],
  ["large jobs"],
  ["faked clocks"],
  ["pooler"],
  ["old snapshot"],
  ["unknown outcomes"],
];

/** In which order scenarios are played; `named`: only these. */
export function stagesOn(ground: Ground["name"], named?: readonly string[]): readonly (readonly ScenarioName[])[] {
  const all = ground === "sqlite" ? STAGES : [...STAGES, ...OUTAGES];
  return named === undefined ? all : all.map((stage) => stage.filter((name) => named.includes(name)));
}
