import { answerOf } from "../child.ts";
import { median } from "../harness.ts";
import type { Answer, Row, Verdict } from "../row.ts";
import type { Cost } from "./cost-child.ts";
import { quick, rounds } from "./scale.ts";

const SECONDS = quick ? 1 : 5;
const WORKERS = 4;
const CALLS_PER_SECOND = 1;

interface Case {
  readonly name: string;
  readonly role: "sluice" | "peer";
  readonly note?: string;
}

const IDLE: readonly Case[] = [
  { name: "sluice on SqliteStorage", role: "sluice" },
  { name: "sluice on MemoryStorage", role: "sluice" },
  { name: "plainjob", role: "peer", note: "it looks once a second, as it comes: two transactions" },
  { name: "liteque", role: "peer", note: "told to look once a second, as in its documentation" },
  { name: "workglow in memory", role: "peer" },
];
const BLOCKED: readonly Case[] = [
  { name: "sluice on SqliteStorage", role: "sluice" },
  { name: "sluice on MemoryStorage", role: "sluice" },
  {
    name: "sluice on SqliteStorage, 20 adds/s",
    role: "sluice",
    note: "jobs are added meanwhile; that is in the CPU time",
  },
  {
    name: "sluice on MemoryStorage, 20 adds/s",
    role: "sluice",
    note: "jobs are added meanwhile; that is in the CPU time",
  },
  { name: "workglow in memory", role: "peer", note: "its RateLimiter, with its back-off as it comes" },
];

/** Each in a process of its own, one after another. */
async function measure(cases: readonly Case[], state: "idle" | "blocked"): Promise<Answer> {
  const costs = new Map<Case, Cost[]>(cases.map((one) => [one, []]));
  const script = new URL("cost-child.ts", import.meta.url);
  for (let round = 0; round < rounds(1); round++) {
    await Promise.all(
      cases.map(async (one) => {
        const args = [one.name, state, String(WORKERS), String(SECONDS)];
        costs.get(one)!.push(await answerOf<Cost>(script, args));
      }),
    );
  }
  const lines: string[][] = [];
  const verdicts: Verdict[] = [];
  for (const one of cases) {
    const calls = median(costs.get(one)!.map(({ callsPerSecond }) => callsPerSecond));
    const cpu = median(costs.get(one)!.map(({ cpuPercent }) => cpuPercent));
    const name = one.role === "sluice" ? `**${one.name}**` : one.name;
    lines.push([name, calls.toFixed(2), `${cpu.toFixed(2)} %`, one.note ?? ""]);
    if (one.role !== "sluice") continue;
    verdicts.push({
      goal: `${one.name}: at most ${CALLS_PER_SECOND} storage call per worker and second`,
      outcome: calls <= CALLS_PER_SECOND ? "won" : "lost",
      found: calls.toFixed(2),
    });
  }
  return {
    columns: ["contender", "calls per worker and second", "CPU of the process", "note"],
    lines,
    verdicts,
    skipped: [],
  };
}

const how =
  `${WORKERS} workers in one process, over ${SECONDS} s. Calls: every call of a member of the storage, whatever it does; for ` +
  "peers, of the object that stands for it. All contenders side by side, each in a process of its own.";

export const rows: readonly Row[] = [
  {
    title: "The cost of waiting: idle",
    compares: `Workers with nothing to do. ${how}`,
    measure: () => measure(IDLE, "idle"),
  },
  {
    title: "The cost of waiting: blocked on a limit",
    compares: `1,000 jobs wait, and a limit of 1 per minute is used up. ${how}`,
    measure: () => measure(BLOCKED, "blocked"),
  },
];
