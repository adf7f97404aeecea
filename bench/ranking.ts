import { type Measured, median, ratio } from "./harness.ts";

/** All contenders, the best first, and those that the others are compared with. */
export interface Ranking {
  readonly ranked: readonly Measured<number>[];
  readonly bestPeer: Measured<number> | undefined;
  readonly minimum: Measured<number> | undefined;
}

export function rank(measured: readonly Measured<number>[], best: "most" | "least"): Ranking {
  const sign = best === "most" ? -1 : 1;
  const ranked = measured.toSorted((a, b) => sign * (median(a.figures) - median(b.figures)));
  return {
    ranked,
    bestPeer: ranked.find(({ role }) => role === "peer"),
    minimum: ranked.find(({ role }) => role === "minimum"),
  };
}

/** The two cells that every ranking has: against the best peer, and against the minimum. */
export function ratioCells({ figures }: Measured<number>, { bestPeer, minimum }: Ranking): [string, string] {
  return [
    bestPeer === undefined ? "" : times(ratio(figures, bestPeer.figures)),
    minimum === undefined ? "" : percent(ratio(figures, minimum.figures)),
  ];
}

export function nameCell({ name, role }: Measured<unknown>): string {
  return role === "sluice" ? `**${name}**` : name;
}

export function thousands(figure: number): string {
  return Math.round(figure).toLocaleString("en-US");
}

export function times(factor: number): string {
  return `${factor.toFixed(factor < 0.1 ? 3 : 2)}x`;
}

export function percent(factor: number): string {
  return `${(factor * 100).toFixed(factor < 0.1 ? 1 : 0)} %`;
}
