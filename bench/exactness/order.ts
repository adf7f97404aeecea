/** The contenders by short names, which also select the cells that are run. */
export type Kind =
  | "memory"
  | "sqlite"
  | "sqlite-shared"
  | "postgres"
  | "postgres-shared"
  | "workglow"
  | "rate-limiter-flexible"
  | "bullmq-postgres"
  | "bullmq-redis"
  | "bottleneck";

/** The orders of one process of a cell. */
export interface Order {
  readonly kind: Kind;
  /** A database, or the file of one. Empty: everything is kept in the process. */
  readonly url: string;
  readonly max: number;
  readonly windowMs: number;
  /** How many may run, or ask, at the same time in this process. */
  readonly concurrency: number;
  /** How many jobs wait. */
  readonly jobs: number;
}

/** To a process. `warm`: what it asks of its storage is counted from now on. */
export type Word = "begin" | "warm" | "end";

export interface Report {
  /** When each call was made, on the monotonic clock of the host, in milliseconds. */
  readonly calls: readonly number[];
  /** How often it asked its storage, and how many calls it made, since it was warm. */
  readonly asked: number;
  readonly made: number;
}
