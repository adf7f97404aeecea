/** What the demo is asked to do. Times are in milliseconds. */
export interface Plan {
  readonly jobs: number;
  /** Worker processes. */
  readonly processes: number;
  /** Jobs at the same time in each of them. */
  readonly concurrency: number;
  /** The service allows so many calls in any window. */
  readonly quota: number;
  readonly windowMs: number;
  /** What the limiter adds to the window, for the network to the service: calls are not equally long on their way. */
  readonly guardMs: number;
  readonly leaseMs: number;
  /** One process is killed in the middle. */
  readonly kill: boolean;
  /** No limiter: to see what happens then. */
  readonly unlimited: boolean;
}

/** The queue of the demo. */
export const QUEUE_NAME = "demo";
/** How long the service works on a call. */
export const WORK_MS = 150;

/** What the service saw, by its own clock. */
export interface ServiceRecord {
  /** In the order they came. */
  readonly calls: readonly Call[];
}

export interface Call {
  /** When it came. */
  readonly at: number;
  readonly job: string;
  /** 200, or 429 above the quota. */
  readonly status: number;
}
