import { answerOf } from "../child.ts";
import { type Contender, interleave, median, notes, ratio } from "../harness.ts";
import type { Row } from "../row.ts";
import { nameCell, rank, ratioCells, thousands, times } from "../ranking.ts";
import { type ConcurrencyWrapper, concurrencyWrappers } from "./concurrency-contenders.ts";

const CALLS = 100_000;
const CALLS_IF_SLOW = 10_000;

function heapOf({ name, role, note, atMost, create }: ConcurrencyWrapper): Contender<number> {
  const calls = atMost === undefined ? CALLS : CALLS_IF_SLOW;
  return {
    name,
    role,
    note: notes(note, calls < CALLS && `${thousands(calls)} calls`),
    async prepare() {
      await create(1, async () => {});
      return () => answerOf<number>(new URL("heap-child.ts", import.meta.url), [name, String(calls)]);
    },
  };
}

export const rows: readonly Row[] = [
  {
    title: "Heap per waiting call",
    compares:
      `${thousands(CALLS)} calls wait behind one that never ends, under a concurrency of 1: bytes of heap for each after a ` +
      "full collection, its promise included, the list that holds the promises not. Every measurement is a process of its own.",
    async measure() {
      const contenders = concurrencyWrappers.filter(({ name }) => name !== "workglow").map(heapOf);
      const { measured, skipped } = await interleave(contenders, { rounds: 3, warmUp: false });
      const ranking = rank(measured, "least");
      const { ranked, bestPeer } = ranking;
      const ours = ranked.filter(({ role }) => role === "sluice" && bestPeer !== undefined);
      return {
        columns: ["contender", "bytes", "of best peer", "of minimum", "note"],
        lines: ranked.map((entry) => {
          const [ofBestPeer, ofMinimum] = ratioCells(entry, ranking);
          return [nameCell(entry), thousands(median(entry.figures)), ofBestPeer, ofMinimum, entry.note ?? ""];
        }),
        verdicts: ours.map(({ name, figures }) => ({
          goal: `${name} takes less heap than every peer measured`,
          outcome: ratio(figures, bestPeer!.figures) < 1 ? "won" : "lost",
          found: `${times(ratio(figures, bestPeer!.figures))} of ${bestPeer!.name}, the best of them`,
        })),
        skipped: [...skipped, { name: "workglow", reason: "it has no line to wait in" }],
      };
    },
  },
];
