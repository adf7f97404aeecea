/**
 * The little of each peer that is measured, typed by hand: the peers are installed by the benchmark, and the rest of the
 * repository is checked without them.
 */
export interface BetterSqlite3 {
  default: new (file: string) => BetterDatabase;
}

export interface BetterDatabase {
  transaction: (work: (...args: unknown[]) => unknown) => unknown;
  exec(sql: string): unknown;
  close(): unknown;
}

export interface Plainjob {
  readonly better: (database: BetterDatabase) => object;
  readonly defineQueue: (options: { connection: object; logger: object }) => PlainjobQueue;
  readonly defineWorker: (
    type: string,
    process: (job: { readonly data: string }) => Promise<void>,
    options: { queue: PlainjobQueue; logger: object; onCompleted?: () => void },
  ) => { start(): Promise<void>; stop(): Promise<void> };
}

export interface PlainjobQueue {
  add(type: string, data: unknown): unknown;
  addMany(type: string, data: readonly unknown[]): unknown;
  close(): void;
}

export interface Liteque {
  readonly buildDBClient: (file: string, options: { runMigrations: boolean }) => LitequeClient;
  SqliteQueue: new (
    name: string,
    client: LitequeClient,
    options: { defaultJobArgs: { numRetries: number }; keepFailedJobs: boolean },
  ) => LitequeQueue;
  Runner: new (
    queue: LitequeQueue,
    functions: { run: (job: { readonly data: unknown }) => Promise<void> },
    options: { concurrency: number; pollIntervalMs: number; timeoutSecs: number },
  ) => { run(): Promise<void>; stop(): void };
}

export interface LitequeClient {
  readonly session: { readonly client: BetterDatabase };
}

export interface LitequeQueue {
  enqueue(data: unknown): Promise<unknown>;
  finalize(...args: unknown[]): Promise<void>;
}

export interface WorkglowQueue {
  Job: new (...args: never[]) => object;
  InMemoryQueueStorage: new (queue: string) => object;
  JobQueueClient: new (options: { storage: object; queueName: string }) => {
    attach(server: object): void;
    send(data: unknown): Promise<unknown>;
    sendBatch(data: readonly unknown[]): Promise<unknown>;
  };
  JobQueueServer: new (
    job: new (...args: never[]) => object,
    options: { storage: object; queueName: string; workerCount: number; limiter?: object },
  ) => WorkglowServer;
  RateLimiter: new (
    storage: object,
    name: string,
    options: { maxExecutions: number; windowSizeInSeconds: number },
  ) => object;
  InMemoryRateLimiterStorage: new () => object;
}

export interface WorkglowServer {
  start(): Promise<unknown>;
  stop(): Promise<unknown>;
  on(event: "job_complete", listener: () => void): unknown;
}

export interface BetterQueue {
  default: new (
    process: (data: unknown, done: (error: null) => void) => void,
    options: { concurrent: number; afterProcessDelay: number; batchDelay: number },
  ) => {
    push(data: unknown): { on(event: "accepted", listener: () => void): unknown };
    pause(): void;
    resume(): void;
    on(event: "drain", listener: () => void): unknown;
    destroy(done: () => void): void;
  };
}

export interface Fastq {
  default: {
    promise(
      process: (data: unknown) => Promise<void>,
      concurrency: number,
    ): {
      push(data: unknown): Promise<unknown>;
      pause(): void;
      resume(): void;
      drained(): Promise<void>;
    };
  };
}

export interface PQueuePackage {
  default: new (options: { concurrency: number; autoStart: boolean }) => {
    add(work: () => Promise<unknown>): Promise<unknown>;
    start(): unknown;
    onIdle(): Promise<void>;
  };
}

interface Peers {
  "better-sqlite3": BetterSqlite3;
  plainjob: Plainjob;
  liteque: Liteque;
  "@workglow/job-queue": WorkglowQueue;
  "better-queue": BetterQueue;
  fastq: Fastq;
  "p-queue": PQueuePackage;
}

export async function load<Name extends keyof Peers>(name: Name): Promise<Peers[Name]> {
  return (await import(name)) as Peers[Name];
}
