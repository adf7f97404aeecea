import { answerOf } from "../child.ts";
import { thousands } from "../ranking.ts";
import type { Answer, Row } from "../row.ts";
import type { Cost } from "../queue/cost-child.ts";
import { quick } from "../queue/scale.ts";
import { type StorageKind, storageKinds } from "./storages.ts";

/** The orders of one process. */
export interface Case {
  readonly kind: StorageKind["name"];
  /** The limit that is full: one for all jobs, or that of the only group there is. */
  readonly limit: "general" | "group";
  readonly addsPerSecond: number;
}

const CALLS_PER_SECOND = 1;
export const SIZES = { jobs: 5_000, workers: 4, seconds: quick ? 2 : 8 };

const CASES: readonly Case[] = (["general", "group"] as const).flatMap((limit) =>
  [0, 20].flatMap((addsPerSecond) => storageKinds.map(({ name }): Case => ({ kind: name, limit, addsPerSecond }))),
);

/** All side by side, each in a process of its own: they hardly do anything. */
async function measure(): Promise<Answer> {
  const script = new URL("blocked-child.ts", import.meta.url);
  const costs = await Promise.all(CASES.map((one) => answerOf<Cost>(script, [JSON.stringify(one)])));
  return {
    columns: ["what is full", "calls per worker and second", "CPU of the process", "note"],
    lines: CASES.map((one, i) => [
      describe(one),
      costs[i]!.callsPerSecond.toFixed(2),
      `${costs[i]!.cpuPercent.toFixed(2)} %`,
      one.addsPerSecond === 0 ? "" : "jobs are added meanwhile; that is in the CPU time",
    ]),
    verdicts: CASES.map((one, i) => ({
      goal: `${describe(one)}: at most ${CALLS_PER_SECOND} storage call per worker and second`,
      outcome: costs[i]!.callsPerSecond <= CALLS_PER_SECOND ? "won" : "lost",
      found: costs[i]!.callsPerSecond.toFixed(2),
    })),
    skipped: [],
  };
}

function describe({ kind, limit, addsPerSecond }: Case): string {
  const what = limit === "group" ? "a limit by group" : "a limit for all";
  return `${kind}, ${what}${addsPerSecond === 0 ? "" : `, ${addsPerSecond} adds/s`}`;
}

export const rows: readonly Row[] = [
  {
    title: "The cost of waiting for a shared limit",
    compares:
      `${thousands(SIZES.jobs)} jobs wait, and a limit of 1 per 10 minutes is used up: one for all jobs, or that of the group which all ` +
      `of them have. ${SIZES.workers} workers in one process, over ${SIZES.seconds} s. Calls: every call of a member of the storage, of its ` +
      "limits and of its rates, whatever it does. All cases side by side, each in a process of its own.",
    measure,
  },
];
