/**
 * The little of each peer that is measured, typed by hand: the peers are installed by the benchmark, and the rest of the
 * repository is checked without them.
 */
export interface PLimit {
  default(concurrency: number): (fn: Work) => Promise<unknown>;
}

export interface PQueue {
  default: new (options: { concurrency?: number; interval?: number; intervalCap?: number; strict?: boolean }) => {
    add(fn: Work): Promise<unknown>;
  };
}

export interface PThrottle {
  default(options: { limit: number; interval: number; strict?: boolean }): (fn: Work) => Work;
}

export interface Bottleneck {
  default: new (options: {
    maxConcurrent?: number;
    reservoir?: number;
    reservoirRefreshAmount?: number;
    reservoirRefreshInterval?: number;
    heartbeatInterval?: number;
  }) => { schedule(fn: Work): Promise<unknown>; disconnect(): unknown };
}

export interface AsyncSema {
  Sema: new (max: number) => { acquire(): Promise<unknown>; tryAcquire(): unknown; release(): void };
  readonly RateLimit: (max: number, options: { timeUnit: number }) => () => Promise<void>;
}

export interface LimiterPackage {
  RateLimiter: new (options: { tokensPerInterval: number; interval: number }) => {
    removeTokens(count: number): Promise<number>;
    tryRemoveTokens(count: number): boolean;
  };
}

export interface RateLimiterFlexible {
  RateLimiterMemory: new (options: { points: number; duration: number }) => {
    consume(key: string): Promise<unknown>;
  };
  RateLimiterQueue: new (limiter: unknown) => { removeTokens(tokens: number): Promise<unknown> };
}

export interface Workglow {
  ConcurrencyLimiter: new (max: number) => WorkglowLimiter;
  RateLimiter: new (
    storage: object,
    name: string,
    options: {
      maxExecutions: number;
      windowSizeInSeconds: number;
      initialBackoffDelay?: number;
      backoffMultiplier?: number;
      maxBackoffDelay?: number;
    },
  ) => WorkglowLimiter;
  InMemoryRateLimiterStorage: new () => object;
}

export interface WorkglowLimiter {
  /** Null: refused. */
  tryAcquire(): Promise<unknown>;
  complete(token: unknown): Promise<void>;
  getNextAvailableTime(): Promise<Date>;
}

export type Work = () => Promise<unknown>;

interface Peers {
  "p-limit": PLimit;
  "p-queue": PQueue;
  "p-throttle": PThrottle;
  bottleneck: Bottleneck;
  "async-sema": AsyncSema;
  limiter: LimiterPackage;
  "rate-limiter-flexible": RateLimiterFlexible;
  "@workglow/job-queue": Workglow;
}

export async function load<Name extends keyof Peers>(name: Name): Promise<Peers[Name]> {
  return (await import(name)) as Peers[Name];
}
