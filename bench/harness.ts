/** The role of a contender. */
export type Role =
  | "sluice"
  | "peer"
  /** The least code, written by hand, that does the job. */
  | "minimum"
  /** Measured for orientation, but not comparable. */
  | "aside";

export interface Contender<Figure> {
  readonly name: string;
  readonly role: Role;
  /** What a reader must know to judge the figure. */
  readonly note?: string | undefined;
  /** Loads what is needed, once. The answer makes one measurement. A contender that throws here is skipped. */
  readonly prepare: () => Promise<() => Promise<Figure>>;
}

export interface Measured<Figure> {
  readonly name: string;
  readonly role: Role;
  readonly note: string | undefined;
  /** One per round. */
  readonly figures: Figure[];
}

export interface Skipped {
  readonly name: string;
  readonly reason: string;
}

export interface Rounds {
  readonly rounds: number;
  /** A first round that is not counted. Default true. */
  readonly warmUp?: boolean;
  /** How long to wait before each measurement, so that timers of the one before have fired. Default 5. */
  readonly pauseMs?: number;
}

/**
 * Runs every contender once per round, each round beginning with another, so that other load of the machine affects
 * all in the same way. Absolute figures are noise; only ratios within one run count.
 */
export async function interleave<Figure>(
  contenders: readonly Contender<Figure>[],
  { rounds, warmUp = true, pauseMs = 5 }: Rounds,
): Promise<{ measured: Measured<Figure>[]; skipped: Skipped[] }> {
  const skipped: Skipped[] = [];
  const ready: { measured: Measured<Figure>; once: () => Promise<Figure> }[] = [];
  for (const { name, role, note, prepare } of contenders) {
    try {
      ready.push({ measured: { name, role, note, figures: [] }, once: await prepare() });
    } catch (error) {
      skipped.push({ name, reason: reasonOf(error) });
      console.log(`  ${name} is skipped: ${reasonOf(error)}`);
    }
  }
  for (let round = warmUp ? 0 : 1; round <= rounds; round++) {
    process.stdout.write(round === 0 ? "  warm-up:" : `  round ${round} of ${rounds}:`);
    for (let i = 0; i < ready.length; i++) {
      const { measured, once } = ready[(i + round) % ready.length]!;
      process.stdout.write(` ${measured.name}${i + 1 < ready.length ? "," : ""}`);
      await settle(pauseMs);
      const figure = await once();
      if (round > 0) measured.figures.push(figure);
    }
    process.stdout.write("\n");
  }
  return { measured: ready.map(({ measured }) => measured), skipped };
}

/** Leaves nothing of one measurement to the next: neither garbage nor a timer about to fire. */
async function settle(pauseMs: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, pauseMs));
  globalThis.gc?.();
}

export function median(figures: readonly number[]): number {
  return quantile(figures, 0.5);
}

export function ratio(figures: readonly number[], others: readonly number[]): number {
  return median(figures) / median(others);
}

/** The smallest figure that `share` of all do not exceed. */
export function quantile(figures: readonly number[], share: number): number {
  if (figures.length === 0) return Number.NaN;
  const sorted = figures.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)]!;
}

/** What a reader must know, in one cell. */
export function notes(...texts: readonly (string | false | undefined)[]): string {
  return texts.filter((text) => typeof text === "string").join("; ");
}

/** Why, in one line, and without the path that a failed import ends with: it says nothing outside this machine. */
export function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.split("\n", 1)[0]!.replace(/ imported from .*$/, "");
}
