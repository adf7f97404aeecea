import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { type Contender, interleave, median, quantile } from "../harness.ts";
import { nameCell } from "../ranking.ts";
import type { Answer, Row } from "../row.ts";
import { type Bench, dataOf, type QueueContender } from "./bench.ts";
import { memory, sqlite } from "./contenders.ts";
import { quick, rounds, size } from "./scale.ts";
import { sharedNow, sleep, withFile } from "./temporary.ts";

const SAMPLES = 150;
/** A contender that polls once a second gets fewer samples, at any moment of that second. */
const FEW = 4;

const pauseBefore = ({ polls }: QueueContender) => (polls === true ? 1_000 * Math.random() : 2 + 3 * Math.random());

/** Milliseconds from the call that adds a job to the call of its handler, while a worker does nothing else. */
type Measure = (contender: QueueContender, samples: number, file: string) => Promise<number[]>;

/** The worker and the producer are one process. */
const here: Measure = async (contender, samples, file) => {
  const bench = await contender.create(file, 1);
  try {
    return await collect(bench, samples, async (n) => {
      await sleep(pauseBefore(contender));
      await bench.add({ ...dataOf(n), at: sharedNow() });
    });
  } finally {
    await bench.close();
  }
};

/** Another process adds. */
const elsewhere: Measure = async (contender, samples, file) => {
  const bench = await contender.create(file, 1);
  const producer = fileURLToPath(new URL("latency-child.ts", import.meta.url));
  const child = spawn(process.execPath, [producer, contender.name, file], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  try {
    await new Promise((resolve) => child.once("message", resolve));
    return await collect(bench, samples, async (n) => {
      await sleep(pauseBefore(contender));
      child.send(n);
    });
  } finally {
    child.kill();
    await bench.close();
  }
};

/** One job after another, each added when the one before has started. */
async function collect(bench: Bench, samples: number, add: (n: number) => Promise<void>): Promise<number[]> {
  const latencies: number[] = [];
  let started: () => void = () => {};
  await bench.serve(({ at }) => {
    latencies.push(sharedNow() - at!);
    started();
  });
  await sleep(100);
  for (let n = 0; n < samples; n++) {
    const start = new Promise<void>((resolve) => (started = resolve));
    await add(n);
    await start;
  }
  // The first one finds everything cold.
  return latencies.slice(1);
}

async function compare(contenders: readonly QueueContender[], measure: Measure): Promise<Answer> {
  // A contender that polls once a second takes too long for a warm-up.
  const able = contenders.filter(({ role, polls }) => (role === "sluice" || role === "peer") && !(quick && polls));
  const runs: Contender<number[]>[] = able.map((contender) => ({
    name: contender.name,
    role: contender.role,
    note: contender.polls === true ? `it looks once a second, as it comes; ${FEW} jobs per round` : contender.note,
    prepare: async () => () => {
      const samples = contender.polls === true ? FEW : size(SAMPLES);
      return withFile((file) => measure(contender, samples, file));
    },
  }));
  const { measured, skipped } = await interleave(runs, { rounds: rounds(2), warmUp: false });
  const all = measured.map((entry) => ({ entry, latencies: entry.figures.flat() }));
  const ranked = all.toSorted((a, b) => median(a.latencies) - median(b.latencies));
  const best = ranked.find(({ entry }) => entry.role === "peer");
  return {
    columns: ["contender", "median ms", "p99 ms", "of best peer", "note"],
    lines: ranked.map(({ entry, latencies }) => [
      nameCell(entry),
      median(latencies).toFixed(2),
      entry.note?.startsWith("it looks") === true ? "" : quantile(latencies, 0.99).toFixed(2),
      best === undefined ? "" : `${(median(latencies) / median(best.latencies)).toFixed(3)}x`,
      entry.note ?? "",
    ]),
    verdicts: ranked
      .filter(({ entry }) => entry.role === "sluice" && best !== undefined)
      .map(({ entry, latencies }) => ({
        goal: `${entry.name} starts a job sooner than every peer measured`,
        outcome: median(latencies) < median(best!.latencies) ? "won" : "lost",
        found: `${median(latencies).toFixed(2)} ms against ${median(best!.latencies).toFixed(2)} ms of ${best!.entry.name}`,
      })),
    skipped,
  };
}

const what =
  "From the call that adds a job until its handler is called, one job after another, with pauses of 2 to 5 ms (up to 1 s for those that look once a second), while the " +
  "worker does nothing else.";

export const rows: readonly Row[] = [
  {
    title: "From add to start: the same process",
    compares: what,
    measure: () => compare([...sqlite.contenders, ...memory.contenders], here),
  },
  {
    title: "From add to start: from another process",
    compares: `${what} Another process adds.`,
    measure: () => compare(sqlite.contenders, elsewhere),
  },
];
