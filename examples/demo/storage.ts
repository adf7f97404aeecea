import type { JobStorage } from "sluice";
import { PostgresStorage } from "sluice/postgres";
import { SqliteStorage } from "sluice/sqlite";
import type { Place } from "../../src/cli/place.ts";

/** The storage of the demo, in every one of its processes. */
export function openStorage(place: Place): JobStorage {
  return place.kind === "sqlite"
    ? new SqliteStorage(place.path)
    : new PostgresStorage(place.url, { schema: place.schema });
}
