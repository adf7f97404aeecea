import { fromJson } from "../../core/json.ts";
import { bytes, fit, printable } from "./text.ts";

/** So many keys of a payload are named where the payload itself is not shown. */
const KEYS = 8;

/** What is said about a payload that may be secret: its size, and the first of its keys. */
export interface PayloadOutline {
  readonly bytes: number;
  /** What it is; undefined: no JSON. */
  readonly kind: "object" | "array" | "string" | "number" | "boolean" | "null" | undefined;
  readonly keys: readonly string[];
  /** How many more keys, or how many elements, there are. */
  readonly more: number;
}

export function outlineOf(text: string): PayloadOutline {
  const value = fromJson(text);
  const size = Buffer.byteLength(text);
  if (Array.isArray(value)) return { bytes: size, kind: "array", keys: [], more: value.length };
  if (typeof value !== "object" || value === null) {
    const kind = value === null ? "null" : (typeof value as "string" | "number" | "boolean" | "undefined");
    return { bytes: size, kind: kind === "undefined" ? undefined : kind, keys: [], more: 0 };
  }
  const keys = Object.keys(value);
  return { bytes: size, kind: "object", keys: keys.slice(0, KEYS), more: Math.max(0, keys.length - KEYS) };
}

/** The outline in one line: `{ to, subject, … } 84 bytes`. */
export function outlineText(text: string): string {
  const { kind, keys, more, bytes: size } = outlineOf(text);
  const names = [...keys.map((key) => fit(printable(key), 24)), ...(more > 0 ? ["…"] : [])].join(", ");
  const shape =
    kind === "object"
      ? names === ""
        ? "{}"
        : `{ ${names} }`
      : kind === "array"
        ? `[ ${more} ]`
        : (kind ?? "not JSON");
  return `${shape} ${bytes(size)}`;
}

/** The payload itself, over several lines. */
export function payloadLines(text: string): string[] {
  const value = fromJson(text);
  return (value === undefined ? text : JSON.stringify(value, null, 2)).split("\n").map((line) => printable(line));
}
