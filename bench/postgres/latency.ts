import { type Contender, interleave, median, quantile } from "../harness.ts";
import { nameCell, times } from "../ranking.ts";
import type { Answer, Row } from "../row.ts";
import { dataOf } from "../queue/bench.ts";
import { rounds, size } from "../queue/scale.ts";
import { sharedNow, sleep } from "../queue/temporary.ts";
import type { PostgresContender } from "./bench.ts";
import { ours, peers, placeFor } from "./contenders.ts";
import { Crew } from "./crew.ts";

const SAMPLES = 160;
const SETTLED_MS = 100;
const GIVE_UP_MS = 10_000;

const CONTENDERS = [ours.kept, peers.graphile, peers.graphileBatched, peers.pgBoss, peers.bullMq, peers.bullMqOnRedis];

/** Milliseconds from the call that adds a job, in this process, to the call of its handler in another one. */
function latenciesOf(contender: PostgresContender): Contender<readonly number[]> {
  return {
    name: contender.name,
    role: contender.role,
    note: contender.note,
    async prepare() {
      const url = await placeFor(contender);
      const bench = await contender.open(url, 1);
      const crew = await Crew.of(contender, url, 1, 1);
      return async () => {
        await bench.clear();
        const latencies = await crew.serve(async (handled) => {
          await sleep(SETTLED_MS);
          for (let n = 0; n < size(SAMPLES); n++) {
            const giveUp = sharedNow() + GIVE_UP_MS;
            await bench.add({ ...dataOf(n), at: sharedNow() });
            while (handled() <= n) {
              if (sharedNow() > giveUp) throw new Error(`a job was not started within ${GIVE_UP_MS} ms`);
              await sleep(1);
            }
            await sleep(2 + 3 * Math.random());
          }
        });
        // The first one finds everything cold.
        return latencies.slice(1);
      };
    },
  };
}

async function measure(): Promise<Answer> {
  const { measured, skipped } = await interleave(CONTENDERS.map(latenciesOf), { rounds: rounds(2), warmUp: false });
  const all = measured.map((entry) => ({ entry, latencies: entry.figures.flat() }));
  const ranked = all.toSorted((a, b) => median(a.latencies) - median(b.latencies));
  const best = ranked.find(({ entry }) => entry.role === "peer");
  return {
    columns: ["contender", "median ms", "p99 ms", "of best peer", "note"],
    lines: ranked.map(({ entry, latencies }) => [
      nameCell(entry),
      median(latencies).toFixed(2),
      quantile(latencies, 0.99).toFixed(2),
      best === undefined ? "" : times(median(latencies) / median(best.latencies)),
      entry.note ?? "",
    ]),
    verdicts: ranked
      .filter(({ entry }) => entry.role === "sluice" && best !== undefined)
      .flatMap(({ entry, latencies }) =>
        [0.5, 0.99].map((share) => {
          const least = Math.min(
            ...ranked.filter((other) => other.entry.role === "peer").map((other) => quantile(other.latencies, share)),
          );
          const own = quantile(latencies, share);
          return {
            goal: `${entry.name} starts a job sooner than every Postgres peer (${share === 0.5 ? "median" : "p99"})`,
            outcome: own < least ? ("won" as const) : ("lost" as const),
            found: `${own.toFixed(2)} ms against ${least.toFixed(2)} ms`,
          };
        }),
      ),
    skipped,
  };
}

export const rows: readonly Row[] = [
  {
    title: "From add to start: from another process",
    compares:
      "From the call that adds a job in one process until its handler is called in another, one job after another, with " +
      "pauses of some milliseconds, while the worker does nothing else.",
    measure,
  },
];
