import type { Inspection } from "../storage/inspection.ts";
import type { JobStorage } from "../storage/job-storage.ts";
import { Failure } from "./failures.ts";

/** A database that was there before, with its tables as this release knows them. */
export interface Database {
  readonly storage: JobStorage;
  /** For questions that no storage answers. */
  readonly look: Inspection;
  readonly clock: KeptClock;
}

/** The clock of a storage. */
export interface KeptClock {
  /** The wall clock that it shows instants by, and how far it is ahead of that. */
  read(): Promise<{ readonly wall: number; readonly offsetMs: number }>;
  /** Takes the offset back; the answer says how much. */
  repair(): Promise<number>;
}

/** The version of the tables, and the one that this release works with. 0: there are none. */
export interface SchemaVersion {
  readonly found: number;
  readonly known: number;
}

/** Refuses tables that this release does not work with. `none`: what to say where there are none. */
export function checkVersion({ found, known }: SchemaVersion, none: string): void {
  if (found === 0) throw new Failure("SLUICE_NO_DATABASE", none);
  if (found !== known) throw new Failure("SLUICE_SCHEMA", otherVersion({ found, known }));
}

/** What to do about tables of another version. */
export function otherVersion({ found, known }: SchemaVersion): string {
  return found > known
    ? `the database has schema version ${found}, and this release knows ${known}: update Sluice`
    : `the database has schema version ${found}, and this release needs ${known}: start a worker of this release, which updates it`;
}
