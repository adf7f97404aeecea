/** The root of every error that Sluice throws. Its `code` never changes, whatever the message says. */
export class JobError extends Error {
  override readonly name: string = "JobError";
  readonly code: string = "SLUICE_JOB";
}

/** An option, argument or weight that cannot be right. Thrown before anything has happened. */
export class OptionsError extends JobError {
  override readonly name = "OptionsError";
  override readonly code = "SLUICE_OPTIONS";
  /** The option or argument at fault. */
  readonly option: string;
  /** What was received. */
  readonly value: unknown;
  /** What would have been right, as in "an integer >= 1". */
  readonly expected: string;

  constructor(owner: string, option: string, value: unknown, expected: string, hint = "") {
    super(`${owner}: expected \`${option}\` to be ${expected}, got ${show(value)}${hint && `; ${hint}`}`);
    this.option = option;
    this.value = value;
    this.expected = expected;
  }
}

/** A call was turned away because `maxQueue` others are waiting already. */
export class QueueOverflowError extends JobError {
  override readonly name = "QueueOverflowError";
  override readonly code = "SLUICE_QUEUE_OVERFLOW";
  /** How many calls may wait. */
  readonly maxQueue: number;

  constructor(maxQueue: number) {
    super(`${maxQueue} calls are waiting already (maxQueue: ${maxQueue})`);
    this.maxQueue = maxQueue;
  }
}

/** A value and its type for a message, short and without running any code of the value. */
function show(value: unknown): string {
  switch (typeof value) {
    case "undefined":
      return "undefined";
    case "string":
      return `${JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value)} (string)`;
    case "number":
      return `${Object.is(value, -0) ? "-0" : value} (number)`;
    case "bigint":
      return `${value}n (bigint)`;
    case "boolean":
      return `${value} (boolean)`;
    case "symbol":
      return "a symbol";
    case "function":
      return "a function";
    case "object":
      break;
  }
  return value === null ? "null" : Array.isArray(value) ? "an array" : "an object";
}
