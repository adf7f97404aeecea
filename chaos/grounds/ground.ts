import type { JobStorage } from "../../src/storage/job-storage.ts";
import type { Spec } from "../child/spec.ts";
import type { Final } from "../history/final.ts";

/** The part of a process's orders that says how to reach its storage. */
export type Opening = Pick<Spec, "database"> & Partial<Pick<Spec, "crash" | "checkpoint" | "via" | "clock" | "seed">>;

/** A kind of storage to play scenarios on, and what can be read of it beside its contract. */
export interface Ground {
  readonly name: "sqlite" | "postgres";
  /** A storage of its own, as a process of the harness uses it. */
  open(opening: Opening): JobStorage;
  /** How many jobs have not ended, of one queue or of all. */
  unfinished(database: string, queue?: string): Promise<number>;
  /** What its tables hold, and what is wrong with them. */
  tables(database: string): Promise<Pick<Final, "attempts" | "rows" | "damage">>;
  /** What is wrong with the database as such, while workers use it. */
  integrity(database: string): Promise<string[]>;
}
