import { readFileSync } from "node:fs";
import { recordError } from "../core/error-record.ts";
import { Failure, UsageError } from "./failures.ts";

/** More than anybody writes by hand. */
const MOST_BYTES = 10_000_000;

/** What a JSON file of the user holds. */
export function readJsonFile(path: string): unknown {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw new Failure("SLUICE_NO_FILE", `cannot read ${path}: ${recordError(error).message}`);
  }
  if (text.length > MOST_BYTES) throw new UsageError(`${path} is too large`);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UsageError(`${path} is not JSON: ${recordError(error).message}`);
  }
}
