import { OptionsError } from "../core/errors.ts";
import { nameText } from "../core/names.ts";
import { isPlain, readArgument, weightOrZero } from "../core/options.ts";
import type { JobProgress, JobRecord } from "../core/job.ts";
import { fromJson, toJson } from "../core/json.ts";
import type { Reporter } from "./reporter.ts";

/** What a handler sees of its job. */
export interface JobView<Data = unknown> {
  readonly id: string;
  readonly queue: string;
  readonly type: string;
  readonly data: Data;
  /** Which attempt this is, from 1. */
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly group: string | undefined;
  readonly weights: Readonly<Record<string, number>> | undefined;
  readonly priority: number;
  readonly createdAt: Date;
}

/** What a handler can do beside its work. */
export interface JobContext {
  /** Aborted when the job is cancelled, takes too long, or must stop; `reason` says why. Pass it on to what can be aborted. */
  readonly signal: AbortSignal;
  /** Which attempt this is, from 1. */
  readonly attempt: number;
  /** The fencing token of this lease: greater than that of any lease before it. For systems that can check it. */
  readonly token: number;
  /** Tells how far the job is: percent from 0 to 100, a message, and details that JSON can hold. */
  readonly updateProgress: (percent: number, message?: string, details?: unknown) => Promise<void>;
  /** Writes a line into the log of the job. */
  readonly log: (text: string) => Promise<void>;
  /**
   * Tells what the job really used, by name: `{ tokens: 1480 }`. Less than was reserved gives room back at once, more is
   * charged at once. It may be said again, and the last word about each name holds. Of what is never
   * said the estimate does; after a `RateLimitedError` nothing of it counts.
   */
  readonly settle: (weights: Readonly<Record<string, number>>) => Promise<void>;
}

/** Longer lines are cut. */
const LONGEST_LINE = 4_000;
const LARGEST_DETAILS = 65_536;
const MOST_WEIGHTS = 32;

export function viewOf(job: JobRecord, data: unknown): JobView {
  return {
    id: job.id,
    queue: job.queue,
    type: job.type,
    data,
    attempt: job.attempt,
    maxAttempts: job.maxAttempts,
    group: job.group ?? undefined,
    weights: job.weights ?? undefined,
    priority: job.priority,
    createdAt: new Date(job.createdAt),
  };
}

/** The job whose handler has the context. */
export interface Running {
  readonly job: JobRecord;
  readonly signal: AbortSignal;
  /** The weights, by name, that the handler said what it used of. */
  settled: readonly string[];
}

export class Context implements JobContext {
  readonly signal: AbortSignal;
  readonly attempt: number;
  readonly token: number;
  readonly #id: string;
  readonly #running: Running;
  readonly #reporter: Reporter;

  constructor(running: Running, reporter: Reporter) {
    const { job, signal } = running;
    this.signal = signal;
    this.attempt = job.attempt;
    this.token = job.token;
    this.#id = job.id;
    this.#running = running;
    this.#reporter = reporter;
  }

  // Properties, so that a handler may take them out: `async (job, { signal, log }) => …`.
  readonly updateProgress = (percent: number, message?: string, details?: unknown): Promise<void> => {
    const progress = readProgress(percent, message, details);
    return this.#reporter.report({ id: this.#id, token: this.token, progress });
  };

  readonly log = (text: string): Promise<void> => {
    if (typeof text !== "string") throw new OptionsError("log", "text", text, "a string");
    const line = text.slice(0, LONGEST_LINE).toWellFormed().replaceAll("\u0000", "");
    return this.#reporter.report({ id: this.#id, token: this.token, log: [line] });
  };

  readonly settle = (weights: Readonly<Record<string, number>>): Promise<void> => {
    const used = readWeights(weights);
    this.#running.settled = [...new Set([...this.#running.settled, ...Object.keys(used)])];
    return this.#reporter.report({ id: this.#id, token: this.token, weights: used });
  };
}

function readWeights(weights: unknown): Readonly<Record<string, number>> {
  const plain = isPlain(weights);
  const entries = plain ? Object.entries(weights) : [];
  if (!plain || entries.length > MOST_WEIGHTS || entries.some(([name]) => nameText.read(name) === undefined)) {
    throw new OptionsError("settle", "weights", weights, `a plain object of up to ${MOST_WEIGHTS} names and weights`);
  }
  return Object.fromEntries(
    entries.map(([name, weight]) => [name, readArgument("settle", `weights.${name}`, weightOrZero, weight)]),
  );
}

function readProgress(percent: number, message: string | undefined, details: unknown): JobProgress {
  if (typeof percent !== "number" || !(percent >= 0 && percent <= 100)) {
    throw new OptionsError("updateProgress", "percent", percent, "a number from 0 to 100");
  }
  if (message !== undefined && typeof message !== "string") {
    throw new OptionsError("updateProgress", "message", message, "a string");
  }
  // As it is now: what the handler does to it afterwards is not part of what it said.
  const kept =
    details === undefined ? undefined : fromJson(toJson("updateProgress", "details", details, LARGEST_DETAILS));
  return {
    percent,
    ...(message !== undefined && { message: message.slice(0, LONGEST_LINE).toWellFormed().replaceAll("\u0000", "") }),
    ...(kept !== undefined && { details: kept }),
  };
}
