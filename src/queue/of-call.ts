import { OptionsError } from "../core/errors.ts";

/** The same error, by the name of the call that the user made: a storage knows only its own `add` and `update`. */
export function ofCall(owner: string, error: unknown): unknown {
  if (!(error instanceof OptionsError)) return error;
  const renamed = new OptionsError(owner, error.option, error.value, error.expected);
  // With the hint.
  renamed.message = owner + error.message.slice(error.message.indexOf(":"));
  return renamed;
}
