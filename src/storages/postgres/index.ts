export type { PostgresClient, PostgresExecutor, PostgresPool, SqlValue } from "./driver.ts";
export { PostgresRateLimiterStorage, type PostgresRateLimiterStorageOptions } from "./rate-limiter-storage.ts";
export { PostgresStorage, type PostgresStorageOptions } from "./storage.ts";
export type {
  DrizzleTransaction,
  KyselyTransaction,
  PgTransaction,
  PostgresJsTransaction,
  PostgresTransaction,
  PrismaTransaction,
} from "./tx.ts";
