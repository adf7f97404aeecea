import type pg from "pg";

/**
 * The little of each peer that is measured, typed by hand: the peers are installed by the benchmark, and the rest of the
 * repository is checked without them.
 */
export interface GraphileOptions {
  readonly localQueue?: { readonly size: number };
  readonly completeJobBatchDelay?: number;
  readonly failJobBatchDelay?: number;
}

export interface GraphileWorker {
  Logger: new (factory: () => () => void) => object;
  readonly makeWorkerUtils: (options: { pgPool: pg.Pool; logger: object }) => Promise<{
    migrate(): Promise<void>;
    addJob(name: string, data: unknown): Promise<unknown>;
    addJobs(jobs: readonly { identifier: string; payload: unknown }[]): Promise<unknown>;
    release(): Promise<void>;
  }>;
  readonly run: (options: {
    preset: { worker: GraphileOptions & { concurrentJobs: number } };
    pgPool: pg.Pool;
    logger: object;
    noHandleSignals: boolean;
    taskList: Record<string, (data: unknown) => Promise<void>>;
  }) => Promise<{ stop(): Promise<void> }>;
}

interface PgBossJob {
  readonly id: string;
  readonly data: unknown;
}

export interface PgBoss {
  on(event: "error", listener: (error: unknown) => void): unknown;
  start(): Promise<unknown>;
  stop(options: { graceful: boolean }): Promise<void>;
  createQueue(name: string, options: { notify: boolean }): Promise<void>;
  send(name: string, data: object): Promise<unknown>;
  insert(name: string, jobs: readonly { data: object }[]): Promise<unknown>;
  fetch(name: string, options: { batchSize: number }): Promise<readonly PgBossJob[]>;
  complete(name: string, ids: readonly string[]): Promise<unknown>;
  work(
    name: string,
    options: { batchSize: number; burstWhenBatchFull: boolean },
    handle: (jobs: readonly PgBossJob[]) => Promise<void>,
  ): Promise<string>;
  offWork(name: string, options: { wait: boolean }): Promise<void>;
}

export interface PgBossPackage {
  PgBoss: new (options: {
    connectionString: string;
    max: number;
    supervise: boolean;
    schedule: boolean;
    useListenNotify: boolean;
  }) => PgBoss;
}

export type BullMqConnection =
  | { readonly connectionString: string; readonly max: number; readonly migrate: boolean }
  | { readonly host: string; readonly port: number };

export interface BullMq {
  Queue: new (
    name: string,
    options: { connection: BullMqConnection; defaultJobOptions?: object },
  ) => {
    on(event: "error", listener: (error: unknown) => void): unknown;
    waitUntilReady(): Promise<unknown>;
    add(name: string, data: unknown): Promise<unknown>;
    addBulk(jobs: readonly { name: string; data: unknown }[]): Promise<unknown>;
    getJobCounts(...states: readonly string[]): Promise<Record<string, number>>;
    close(): Promise<void>;
  };
  Worker: new (
    name: string,
    handle: (job: { readonly data: unknown }) => Promise<unknown>,
    options: {
      connection: BullMqConnection;
      concurrency: number;
      limiter?: { readonly max: number; readonly duration: number };
    },
  ) => {
    on(event: "error", listener: (error: unknown) => void): unknown;
    waitUntilReady(): Promise<unknown>;
    close(): Promise<void>;
  };
  createPostgresBackend: object;
  readonly withBackend: (backend: object) => Pick<BullMq, "Queue" | "Worker">;
}

export interface IoRedis {
  default: {
    new (url: string): { flushall(): Promise<void>; disconnect(): void };
    readonly prototype: { sendCommand: unknown };
  };
}

export interface RateLimiterFlexible {
  RateLimiterPostgres: new (
    options: { storeClient: pg.Pool; tableName: string; points: number; duration: number },
    ready: (error?: unknown) => void,
  ) => object;
  RateLimiterQueue: new (limiter: object) => { removeTokens(n: number): Promise<unknown> };
}

export interface Bottleneck {
  default: new (options: {
    id: string;
    datastore: "ioredis";
    clientOptions: { host: string; port: number };
    heartbeatInterval: number;
    reservoir: number;
    reservoirRefreshAmount: number;
    reservoirRefreshInterval: number;
  }) => { ready(): Promise<unknown>; schedule(work: () => Promise<unknown>): Promise<unknown> };
}

interface Peers {
  "graphile-worker": GraphileWorker;
  "pg-boss": PgBossPackage;
  bullmq: BullMq;
  ioredis: IoRedis;
  "rate-limiter-flexible": RateLimiterFlexible;
  bottleneck: Bottleneck;
}

export async function load<Name extends keyof Peers>(name: Name): Promise<Peers[Name]> {
  return (await import(name)) as Peers[Name];
}
