import { recordError } from "../../core/error-record.ts";
import { type ServerFacts, serverFacts, type TableFacts, tableFacts } from "../../storages/postgres/health.ts";
import { type Inspected, jobFacts, schemaOf, timeOf } from "../../storages/postgres/inspect.ts";
import type { SchemaVersion } from "../opened.ts";
import type { PostgresAddress } from "../address.ts";
import type { KeptFacts } from "./common-findings.ts";

/** The facts that findings are made from. */
export interface PostgresFacts extends ServerFacts, TableFacts {
  /** The address, without secrets. */
  readonly place: string;
  readonly name: string;
  /** The latency of a notification from one connection to another; the error, if none came. */
  readonly heard: { readonly ms: number } | { readonly failed: string };
  /** How far the clock of the server is ahead of the local one. */
  readonly clockAheadMs: number;
  readonly schema: SchemaVersion;
  /** Undefined: the tables are of another version, or there are none. */
  readonly kept: KeptFacts | undefined;
}

export interface PostgresExamination {
  readonly place: PostgresAddress;
  readonly wall: number;
  /** How long a job may wait before it is reported. */
  readonly stuckMs: number;
  /** How long a transaction may be open before it is reported. */
  readonly longMs: number;
  /** Sends a notification from one connection to another. Returns the latency in milliseconds. */
  readonly listen: () => Promise<number>;
}

/** Reads all facts, and changes nothing. */
export async function postgresFacts(
  inspected: Inspected,
  { place, wall, stuckMs, longMs, listen }: PostgresExamination,
): Promise<PostgresFacts> {
  const server = await serverFacts(inspected, longMs);
  const schema = await schemaOf(inspected);
  const sound = schema.found === schema.known;
  const time = sound ? await timeOf(inspected) : undefined;
  const jobs = time && (await jobFacts(inspected, time.now, stuckMs));
  return {
    ...server,
    ...(await tableFacts(inspected)),
    place: place.shown,
    name: place.schema,
    heard: await listen().then(
      (ms) => ({ ms }),
      (error: unknown) => ({ failed: recordError(error).message }),
    ),
    clockAheadMs: time === undefined ? 0 : time.wall - wall,
    schema,
    kept: time && jobs && { ...jobs, offsetMs: time.offsetMs },
  };
}
