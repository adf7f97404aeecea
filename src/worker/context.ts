import { nameText } from "../core/names.ts";
import { isPlain, weightOrZero } from "../core/options.ts";
import type { JobKeys, JobProgress, JobRecord, JobWarning } from "../core/job.ts";
import { fromJson, keepJson } from "../core/json.ts";
import { storable, textOf } from "../core/text.ts";
import type { Report } from "../storage/job-storage.ts";
import type { InFlightJob } from "./in-flight-job.ts";
import { LARGEST_DETAILS, type ReportWriter } from "./report-writer.ts";

/** The job as its handler sees it. */
export interface JobView<Data = unknown> {
  readonly id: string;
  readonly queue: string;
  readonly type: string;
  readonly data: Data;
  /** Which attempt this is, from 1. */
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly group: string | undefined;
  /** undefined: it has none. */
  readonly keys: JobKeys | undefined;
  readonly weights: Readonly<Record<string, number>> | undefined;
  readonly priority: number;
  readonly createdAt: Date;
}

/**
 * What a handler can do beside its work.
 *
 * `updateProgress`, `log` and `settle` never fail the job: they do not throw, and a value that cannot be used is left out, with a
 * warning in the job's log and a `warning` event, once for each method in an attempt. The promises resolve when the report is
 * written, or when the write failed, which `onError` is called with. They reject only with a `StaleLeaseError`: the lease is lost,
 * and the end of this attempt changes nothing.
 */
export interface JobContext {
  /** Aborted when the job is cancelled, takes too long, or must stop; `reason` says why. Pass it on to what can be aborted. */
  readonly signal: AbortSignal;
  /** Which attempt this is, from 1. */
  readonly attempt: number;
  /** The fencing token of this lease: greater than that of any lease before it. For systems that can check it. */
  readonly token: number;
  /**
   * Reports how far the job is: percent, a message, and details that JSON can hold. Percent is clamped to 0 to 100; if it is not a
   * number, the last percent stays. Details are kept like a result: exactly, or as `JSON.stringify` writes them.
   */
  readonly updateProgress: (percent: number, message?: string, details?: unknown) => Promise<void>;
  /** Writes a line into the log of the job. Other values are converted to a string; lines longer than 4,000 characters are cut. */
  readonly log: (text: string) => Promise<void>;
  /**
   * Reports the weights that the job really used, by name: `{ tokens: 1480 }`. If it is less than was reserved, the rest is available
   * at once; if it is more, the rest is charged at once. It may be called again: the last value of each name holds. For a name without a valid
   * value the estimate holds; after a `RateLimitedError` it is given back.
   */
  readonly settle: (weights: Readonly<Record<string, number>>) => Promise<void>;
}

/** Longer lines are cut. */
const LONGEST_LINE = 4_000;
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
    keys: job.keys,
    weights: job.weights ?? undefined,
    priority: job.priority,
    createdAt: new Date(job.createdAt),
  };
}

export class Context implements JobContext {
  readonly signal: AbortSignal;
  readonly attempt: number;
  readonly token: number;
  readonly #id: string;
  readonly #running: InFlightJob;
  readonly #reports: ReportWriter;
  readonly #warned = new Set<JobWarning["about"]>();
  #percent = 0;

  constructor(running: InFlightJob, reports: ReportWriter) {
    const { job, signal } = running;
    this.signal = signal;
    this.attempt = job.attempt;
    this.token = job.token;
    this.#id = job.id;
    this.#running = running;
    this.#reports = reports;
  }

  // Properties, so that a handler may destructure them: `async (job, { signal, log }) => …`.
  readonly updateProgress = (percent: number, message?: string, details?: unknown): Promise<void> => {
    if (typeof percent === "number" && !Number.isNaN(percent)) this.#percent = Math.min(100, Math.max(0, percent));
    else void this.#warn("progress", "percent was ignored: expected a number");
    const text = message === undefined || message === null ? undefined : textOf(message);
    if (text === undefined && message !== undefined && message !== null) {
      void this.#warn("progress", "the message was left out: it cannot be shown as text");
    }
    const progress: JobProgress = {
      percent: this.#percent,
      ...(text !== undefined && { message: storable(text, LONGEST_LINE) }),
      ...this.#detailsOf(details),
    };
    return this.#report({ progress });
  };

  readonly log = (text: string): Promise<void> => {
    const line = textOf(text);
    if (line === undefined) return this.#warn("log", "a line was left out: it cannot be shown as text");
    return this.#report({ log: [storable(line, LONGEST_LINE)] });
  };

  readonly settle = (weights: Readonly<Record<string, number>>): Promise<void> => {
    const { used, wrong } = readWeights(weights);
    if (wrong !== undefined) void this.#warn("weights", wrong);
    this.#running.settled = [...new Set([...this.#running.settled, ...Object.keys(used)])];
    return this.#report({ weights: used });
  };

  /** A copy: what the handler changes in them afterwards is not reported. */
  #detailsOf(details: unknown): { readonly details?: unknown } {
    if (details === undefined) return {};
    const { text, warning } = keepJson("details", details, LARGEST_DETAILS);
    if (warning !== undefined) void this.#warn("progress", warning);
    return text === null ? {} : { details: fromJson(text) };
  }

  /** Warns once about each: a handler may report the same in a loop. */
  #warn(about: JobWarning["about"], message: string): Promise<void> {
    if (this.#warned.has(about)) return Promise.resolve();
    this.#warned.add(about);
    return this.#report(warningOf(about, message));
  }

  #report(report: Omit<Report, "id" | "token">): Promise<void> {
    return this.#reports.report({ id: this.#id, token: this.token, ...report });
  }
}

/** A warning as it is reported: a line in the job's log, and an event. */
export function warningOf(about: JobWarning["about"], message: string): Pick<Report, "log" | "warnings"> {
  const text = storable(message, LONGEST_LINE);
  return { log: [`warning: ${text}`], warnings: [{ about, message: text }] };
}

/** The valid weights, and what is wrong with the first of the others. */
function readWeights(weights: unknown): { readonly used: Readonly<Record<string, number>>; readonly wrong?: string } {
  const expected = `a plain object of up to ${MOST_WEIGHTS} names and weights`;
  try {
    const entries = isPlain(weights) ? Object.entries(weights) : undefined;
    if (entries === undefined || entries.length > MOST_WEIGHTS) {
      return { used: {}, wrong: `weights were ignored: expected ${expected}` };
    }
    const fits = ([name, weight]: readonly [string, unknown]) =>
      nameText.read(name) !== undefined && weightOrZero.read(weight) !== undefined;
    const used = Object.fromEntries(entries.filter(fits)) as Record<string, number>;
    const other = entries.find((entry) => !fits(entry));
    if (other === undefined) return { used };
    return { used, wrong: `weights.${other[0].slice(0, 100)} was ignored: expected ${weightOrZero.expected}` };
  } catch {
    // A getter that throws, or a proxy.
    return { used: {}, wrong: `weights were ignored: expected ${expected}` };
  }
}
