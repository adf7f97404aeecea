import { only } from "../queue/scale.ts";
import { LIMITED, type Limited } from "./contenders.ts";
import type { Limit } from "./judge.ts";

/** One row of the benchmark: a limit, on a machine that has time or has none. */
export interface Circumstance {
  readonly limit: Limit;
  readonly burners: number;
}

/** One line of a row. */
export interface Cell {
  readonly limited: Limited;
  readonly processes: number;
}

const LIMITS: readonly (Limit & { readonly tag: string })[] = [
  { tag: "10/s", max: 10, windowMs: 1_000 },
  { tag: "1000/s", max: 1_000, windowMs: 1_000 },
  { tag: "20/100ms", max: 20, windowMs: 100 },
];
const BURNERS = { calm: 0, busy: 2 } as const;

/** Arguments of one kind select cells; a kind without arguments is run as a whole. */
const KINDS = {
  limits: LIMITS.map(({ tag }) => tag),
  machine: Object.keys(BURNERS),
  contenders: LIMITED.map(({ kind }) => kind as string),
  processes: [...new Set(LIMITED.flatMap(({ processes }) => processes.map(String)))],
};

const known = Object.values(KINDS).flat();
for (const word of only) {
  if (!known.includes(word)) throw new Error(`--only: expected some of ${known.join(", ")}, got ${word}`);
}

function isWanted(kind: keyof typeof KINDS, word: string): boolean {
  const named = only.filter((one) => KINDS[kind].includes(one));
  return named.length === 0 || named.includes(word);
}

export const circumstances: readonly Circumstance[] = Object.entries(BURNERS)
  .filter(([machine]) => isWanted("machine", machine))
  .flatMap(([, burners]) => LIMITS.filter(({ tag }) => isWanted("limits", tag)).map((limit) => ({ limit, burners })));

export const cells: readonly Cell[] = LIMITED.filter(({ kind }) => isWanted("contenders", kind)).flatMap((limited) =>
  limited.processes
    .filter((processes) => isWanted("processes", String(processes)))
    .map((processes) => ({ limited, processes })),
);
