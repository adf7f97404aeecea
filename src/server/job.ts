import { OptionsError } from "../core/errors.ts";
import type { JobKeys } from "../core/job.ts";
import { fn, readArgument } from "../core/options.ts";
import { nameText } from "../core/names.ts";
import type { JobContext, JobView } from "../worker/context.ts";

/** What `execute` can do beside its work: its signal, progress, log, real weights, attempt and fencing token. */
export type IJobExecuteContext = JobContext;

/** The arguments of the constructor. Only `input` is needed to make an instance in a test of `execute`. */
export interface JobFields<Input> {
  readonly input: Input;
  readonly id?: string | undefined;
  readonly queueName?: string | undefined;
  readonly type?: string | undefined;
  readonly attempt?: number | undefined;
  readonly maxAttempts?: number | undefined;
  readonly priority?: number | undefined;
  readonly group?: string | undefined;
  readonly keys?: JobKeys | undefined;
  readonly weights?: Readonly<Record<string, number>> | undefined;
  readonly createdAt?: Date | undefined;
}

/**
 * A job as a class: `execute` does the work. The server makes a new instance for every attempt, so the fields of an instance do not
 * outlive it.
 *
 * A `static type` names the type; without one it is the name of the class. Give it if a bundler shortens names, since the type of a
 * waiting job must mean the same in the next version.
 */
export abstract class Job<Input = unknown, Output = unknown> {
  readonly input: Input;
  /** Empty if the instance was not made by a server. */
  readonly id: string;
  readonly queueName: string;
  readonly type: string;
  /** Which attempt this is, from 1. */
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly priority: number;
  readonly group: string | undefined;
  /** undefined: it has none. */
  readonly keys: JobKeys | undefined;
  readonly weights: Readonly<Record<string, number>> | undefined;
  /** When it was submitted; undefined if the instance was not made by a server. */
  readonly createdAt: Date | undefined;

  constructor(fields: JobFields<Input>) {
    this.input = fields.input;
    this.id = fields.id ?? "";
    this.queueName = fields.queueName ?? "";
    this.type = fields.type ?? typeOf(new.target);
    this.attempt = fields.attempt ?? 1;
    this.maxAttempts = fields.maxAttempts ?? 1;
    this.priority = fields.priority ?? 0;
    this.group = fields.group;
    this.keys = fields.keys;
    this.weights = fields.weights;
    this.createdAt = fields.createdAt;
  }

  /** Does the work. The return value is the job's output; a thrown error decides whether the job is tried again. */
  abstract execute(input: Input, context: IJobExecuteContext): Promise<Output>;
}

/** A class of jobs that a server can make instances of. */
export interface JobClass<Input, Output> {
  new (fields: JobFields<Input>): Job<Input, Output>;
  /** The name of the type. Default: the name of the class. */
  readonly type?: string;
}

// oxlint-disable-next-line typescript/no-explicit-any -- classes of several inputs and outputs have nothing else in common
export type AnyJobClass = JobClass<any, any>;

/** The type of a job that was submitted without one. A server of a single class runs it, whatever the name of the class. */
export const DEFAULT_TYPE = "default";

/** Checks that the value is a class of jobs with a valid type. */
export function readJobClass(owner: string, option: string, value: unknown): AnyJobClass {
  const known = fn.read(value) as { readonly prototype?: { readonly execute?: unknown } } | undefined;
  if (fn.read(known?.prototype?.execute) === undefined) {
    throw new OptionsError(owner, option, value, "a class that extends Job, with execute(input, context)");
  }
  readArgument(owner, `${option}.type`, nameText, typeOf(value as AnyJobClass));
  return value as AnyJobClass;
}

/** The type that jobs of this class have. */
export function typeOf(jobClass: { readonly type?: unknown; readonly name: string }): string {
  return (jobClass.type as string | undefined) ?? jobClass.name;
}

/** An instance for one attempt. */
export function instanceOf<Input, Output>(
  jobClass: JobClass<Input, Output>,
  { data, queue, ...view }: JobView<Input>,
): Job<Input, Output> {
  return new jobClass({ ...view, input: data, queueName: queue });
}
