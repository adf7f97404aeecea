import type { ErrorRecord, JobRecord } from "../../core/job.ts";
import { fromJson } from "../../core/json.ts";
import type { JobHistory } from "../../storage/job-storage.ts";
import { outlineOf, outlineText, payloadLines } from "./payload.ts";
import { listing, type Surface } from "./table.ts";
import { keysText, plural, printable, printableLines } from "./text.ts";
import { distance, duration, instant } from "./time.ts";

export interface JobDetails {
  readonly job: JobRecord;
  readonly history: JobHistory;
  /** The pause that keeps it from starting, if there is one. */
  readonly paused: string | undefined;
  /** What it waits for, in a line; undefined: it does not wait. */
  readonly waitsFor: string | undefined;
  /** The payloads themselves, and not only their outline. */
  readonly data: boolean;
}

type Row = readonly [string, string | readonly string[]];

/** So much of a stack is enough to find the place. */
const STACK_LINES = 8;

/** Everything about one job. */
export function jobText({ job, history, paused, waitsFor, data }: JobDetails, now: number, surface: Surface): string {
  const at = (instantOf: number) => `${instant(instantOf)} (${distance(instantOf, now)})`;
  const rows: (Row | undefined)[] = [
    ["id", printable(job.id)],
    ["queue", printable(job.queue)],
    ["type", printable(job.type)],
    ["state", stateText(job, paused, surface)],
    waitsFor === undefined ? undefined : ["waits for", waitsFor],
    job.group === null ? undefined : ["group", printable(job.group)],
    job.keys === undefined ? undefined : ["keys", keysText(job.keys)],
    ["priority", String(job.priority)],
    job.weights === null ? undefined : ["weights", printable(JSON.stringify(job.weights))],
    ["attempts", attemptsText(job)],
    ["added", at(job.createdAt)],
    ["due", at(job.dueAt)],
    job.startedAt === null ? undefined : ["started", at(job.startedAt)],
    job.finishedAt === null ? undefined : ["ended", at(job.finishedAt)],
    job.timeout === null ? undefined : ["timeout", duration(job.timeout)],
    job.deadline === null ? undefined : ["deadline", at(job.deadline)],
    job.keepFor === null ? undefined : ["kept for", duration(job.keepFor)],
    job.worker === null ? undefined : ["worker", printable(job.worker)],
    job.leaseUntil === null ? undefined : ["lease", `until ${at(job.leaseUntil)}, token ${job.token}`],
    job.idempotencyKey === null ? undefined : ["key", printable(job.idempotencyKey)],
    job.progress === null ? undefined : ["progress", progressLines(job, data)],
    ["data", data ? payloadLines(job.data) : `${outlineText(job.data)} (--data shows it)`],
    job.result === null ? undefined : ["result", data ? payloadLines(job.result) : outlineText(job.result)],
    job.error === null ? undefined : ["error", errorLines(job.error)],
  ];
  const parts = [
    listing(
      rows.filter((row): row is Row => row !== undefined),
      surface,
    ),
  ];
  if (history.attempts.length > 0) parts.push(attemptsPart(history, surface));
  if (history.log.length > 0) parts.push(logPart(history, surface));
  return parts.join("\n");
}

function stateText({ state, cancelRequested }: JobRecord, paused: string | undefined, { paint }: Surface): string {
  const style = state === "dead" ? "red" : state === "completed" ? "green" : "bold";
  const notes = [...(cancelRequested ? ["asked to stop"] : []), ...(paused === undefined ? [] : [paused])];
  return paint(style, state) + (notes.length === 0 ? "" : ` (${notes.join(", ")})`);
}

function attemptsText({ attempt, maxAttempts, holds, backoff }: JobRecord): string {
  const delay =
    backoff.kind === "exponential"
      ? `retried after ${duration(backoff.initial)} to ${duration(backoff.max)}`
      : backoff.kind === "fixed"
        ? `retried after ${duration(backoff.delay)}`
        : `retried as ${printable(backoff.name)} says`;
  const sentBack = holds === 0 ? "" : `, sent back ${plural(holds, "time")} by a service over its limit`;
  return `${attempt} of ${maxAttempts}, ${delay}${sentBack}`;
}

function progressLines({ progress }: JobRecord, data: boolean): string[] {
  if (progress === null) return [];
  const message = progress.message === undefined ? "" : ` ${printable(progress.message)}`;
  const details = data && progress.details !== undefined ? payloadLines(JSON.stringify(progress.details)) : [];
  return [`${Number(progress.percent.toFixed(1))} %${message}`, ...details];
}

function errorLines({ name, code, message, stack }: ErrorRecord): string[] {
  const [first = "", ...rest] = printableLines(message);
  const places = printableLines(stack ?? "").filter((line) => line.trimStart().startsWith("at "));
  const cut = places.length > STACK_LINES ? [`  … ${plural(places.length - STACK_LINES, "more line")}`] : [];
  const title = `${printable(name)}${code === undefined ? "" : ` [${printable(code)}]`}: ${first}`;
  return [title, ...rest, ...places.slice(0, STACK_LINES).map((line) => `  ${line.trim()}`), ...cut];
}

function attemptsPart({ attempts }: JobHistory, surface: Surface): string {
  const rows = attempts.map(({ attempt, startedAt, endedAt, worker, error }): Row => [
    `attempt ${attempt}`,
    [
      `${instant(startedAt)}, ${duration(Math.max(0, endedAt - startedAt))}`,
      `worker ${printable(worker)}`,
      printable(`${error.name}: ${error.message}`),
    ],
  ]);
  return `${surface.paint("bold", "failed attempts")}\n${listing(rows, surface)}`;
}

function logPart({ log }: JobHistory, surface: Surface): string {
  const rows = log.map(({ at, attempt, text }): Row => [`${instant(at)} #${attempt}`, printableLines(text)]);
  return `${surface.paint("bold", "log")}\n${listing(rows, surface)}`;
}

const orNull = (at: number | null) => (at === null ? null : instant(at));

/** A job for machines. What it was given and what it gave are outlined, unless `data` asks for them. */
export function jobJson(job: JobRecord, { data }: { readonly data: boolean }): Record<string, unknown> {
  const { id, queue, type, state, group, keys = null, priority, weights, attempt, maxAttempts, backoff, holds } = job;
  const payload = (text: string) => (data ? (fromJson(text) ?? null) : undefined);
  return {
    id,
    queue,
    type,
    state,
    group,
    keys,
    priority,
    weights,
    attempt,
    maxAttempts,
    backoff,
    holds,
    createdAt: instant(job.createdAt),
    dueAt: instant(job.dueAt),
    startedAt: orNull(job.startedAt),
    finishedAt: orNull(job.finishedAt),
    deadline: orNull(job.deadline),
    timeout: job.timeout,
    keepFor: job.keepFor,
    worker: job.worker,
    leaseUntil: orNull(job.leaseUntil),
    token: job.token,
    cancelRequested: job.cancelRequested,
    idempotencyKey: job.idempotencyKey,
    progress: job.progress && { ...job.progress, details: data ? job.progress.details : undefined },
    error: job.error,
    dataOutline: outlineOf(job.data),
    data: payload(job.data),
    resultOutline: job.result === null ? null : outlineOf(job.result),
    result: job.result === null ? undefined : payload(job.result),
  };
}

/** What a job has gone through. */
export function historyJson({ attempts, log }: JobHistory): {
  readonly attempts: readonly { readonly attempt: number; readonly error: ErrorRecord }[];
  readonly log: readonly { readonly at: string; readonly text: string }[];
} {
  return {
    attempts: attempts.map((one) => ({ ...one, startedAt: instant(one.startedAt), endedAt: instant(one.endedAt) })),
    log: log.map((line) => ({ ...line, at: instant(line.at) })),
  };
}
