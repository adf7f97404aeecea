import { recordError } from "../../core/error-record.ts";
import { type ServerFacts, serverFacts, type TableFacts, tableFacts } from "../../storages/postgres/health.ts";
import { type Inspected, jobFacts, schemaOf, timeOf } from "../../storages/postgres/inspect.ts";
import type { SchemaVersion } from "../opened.ts";
import type { PostgresPlace } from "../place.ts";
import type { KeptFacts } from "./kept.ts";

/** All that the findings go by. */
export interface PostgresFacts extends ServerFacts, TableFacts {
  /** Where it is, without what may be secret. */
  readonly place: string;
  readonly name: string;
  /** How long a notification was under way, from one connection to another; what is wrong, if none came. */
  readonly heard: { readonly ms: number } | { readonly failed: string };
  /** By so much the clock of the server is ahead of that of this computer. */
  readonly clockAheadMs: number;
  readonly schema: SchemaVersion;
  /** Undefined: the tables are of another version, or there are none. */
  readonly kept: KeptFacts | undefined;
}

export interface PostgresExamination {
  readonly place: PostgresPlace;
  readonly wall: number;
  /** How long a job may wait before that is worth a word. */
  readonly stuckMs: number;
  /** The same of a transaction. */
  readonly longMs: number;
  /** Sends a notification to itself. How long that took, in milliseconds. */
  readonly listen: () => Promise<number>;
}

/** Looks at everything, and changes nothing. */
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
