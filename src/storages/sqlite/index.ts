export type { SqliteConnection, SqliteStatement, SqlValue } from "./driver.ts";
export { SqliteRateLimiterStorage, type SqliteRateLimiterStorageOptions } from "./rate-limiter-storage.ts";
export { SqliteStorage, type SqliteStorageOptions } from "./storage.ts";
