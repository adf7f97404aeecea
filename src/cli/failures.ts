/** The command line cannot be right. Exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
  readonly code = "SLUICE_USAGE";
}

/** What was asked for cannot be done, or is not there. Exit code 1. */
export class Failure extends Error {
  override readonly name = "Failure";
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}
