import { statSync } from "node:fs";
import type { SqliteConnection } from "../../storages/sqlite/driver.ts";
import {
  brokenIn,
  type FileFacts,
  fileFacts,
  jobFacts,
  schemaOf,
  type SqliteJobFacts,
  timeOf,
} from "../../storages/sqlite/inspect.ts";
import { isWritable } from "../sqlite/database.ts";
import type { KeptFacts } from "./common-findings.ts";

/** The facts that findings are made from. */
export interface Facts extends FileFacts {
  readonly path: string;
  readonly writable: boolean;
  readonly bytes: number;
  readonly walBytes: number;
  /** The size of the file through which processes wake each other; undefined: there is none. */
  readonly hintBytes: number | undefined;
  readonly broken: readonly string[];
  readonly schema: { readonly found: number; readonly known: number };
  /** Undefined: the tables are of another version, or there are none. */
  readonly kept: (SqliteJobFacts & KeptFacts) | undefined;
}

export interface Examination {
  readonly path: string;
  readonly wall: number;
  /** How long a job may wait before it is reported. */
  readonly stuckMs: number;
  /** Check every index as well. */
  readonly full: boolean;
}

/** Reads all facts, and changes nothing. */
export function factsOf(connection: SqliteConnection, { path, wall, stuckMs, full }: Examination): Facts {
  // Nothing is written, even after an error.
  connection.exec("PRAGMA query_only = 1");
  const broken = brokenIn(connection, { full });
  const schema = schemaOf(connection);
  const read = () => {
    const { now, ...time } = timeOf(connection, wall);
    return { ...jobFacts(connection, now, stuckMs), ...time };
  };
  return {
    ...fileFacts(connection),
    path,
    writable: isWritable(path),
    bytes: sizeOf(path) ?? 0,
    walBytes: sizeOf(`${path}-wal`) ?? 0,
    hintBytes: sizeOf(`${path}-hint`),
    broken,
    schema,
    kept: broken.length === 0 && schema.found === schema.known ? read() : undefined,
  };
}

function sizeOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.size;
}
