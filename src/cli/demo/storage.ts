import type { JobStorage } from "../../storage/job-storage.ts";
import { PostgresStorage } from "../../storages/postgres/storage.ts";
import { SqliteStorage } from "../../storages/sqlite/storage.ts";
import type { Place } from "../place.ts";

/** The storage of the demo, in every one of its processes. */
export function openStorage(place: Place): JobStorage {
  return place.kind === "sqlite"
    ? new SqliteStorage(place.path)
    : new PostgresStorage(place.url, { schema: place.schema });
}
