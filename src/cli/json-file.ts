import { readFileSync } from "node:fs";
import { recordError } from "../core/error-record.ts";
import { Failure, UsageError } from "./failures.ts";
import { shownWord } from "./redact.ts";

/** Larger than any file written by hand. */
const MOST_BYTES = 10_000_000;

/** Reads a JSON file of the user. */
export function readJsonFile(path: string): unknown {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    // Node's message repeats the path.
    const { code, message } = recordError(error);
    const reason = code ?? message;
    throw new Failure("SLUICE_NO_FILE", `cannot read ${shownWord(path)}: ${reason}`);
  }
  if (text.length > MOST_BYTES) throw new UsageError(`${shownWord(path)} is too large`);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UsageError(`${shownWord(path)} is not JSON: ${recordError(error).message}`);
  }
}
