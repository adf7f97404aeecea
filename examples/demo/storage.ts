import type { JobStorage } from "sluice";
import { PostgresStorage } from "sluice/postgres";
import { SqliteStorage } from "sluice/sqlite";
import type { DatabaseAddress } from "../../src/cli/address.ts";

/** The storage of the demo, in every one of its processes. */
export function openStorage(place: DatabaseAddress): JobStorage {
  return place.kind === "sqlite"
    ? new SqliteStorage(place.path)
    : new PostgresStorage(place.url, { schema: place.schema });
}
