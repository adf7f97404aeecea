import type { Skipped } from "./harness.ts";

/** One question that a benchmark asks. */
export interface Row {
  readonly title: string;
  /** What is compared, in a sentence or two. */
  readonly compares: string;
  measure(): Promise<Answer>;
}

export interface Answer {
  readonly columns: readonly string[];
  readonly lines: readonly (readonly string[])[];
  readonly verdicts: readonly Verdict[];
  readonly skipped: readonly Skipped[];
}

/** The result against a goal. A lost one is printed as lost, and one within the noise as a tie. */
export interface Verdict {
  readonly goal: string;
  readonly outcome: "won" | "tied" | "lost";
  readonly found: string;
}

/** A benchmark: a folder with a file `benchmark.ts` that exports this as `benchmark`. */
export interface Benchmark {
  /** The title of its section in RESULTS.md. */
  readonly title: string;
  readonly intro: string;
  /** It has a short form, for a first look: `--quick`. */
  readonly quick?: true;
  /** Parts of it can be run on their own, for a first look: `--only a,b`. */
  readonly only?: true;
  /** Starts what its rows need, before the first of them. */
  readonly setUp?: () => Promise<SetUp>;
  /** Modules beside `benchmark.ts` that export `rows: readonly Row[]`. */
  readonly modules: readonly string[];
}

/** What was started for the rows of a benchmark. */
export interface SetUp {
  /** What a reader must know of it, a line each. */
  readonly facts: readonly string[];
  readonly end: () => Promise<void>;
}
