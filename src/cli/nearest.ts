import { nearest } from "../core/nearest.ts";

/** The end of a message about an unknown word: the nearest known word, or all of them. */
export function didYouMean(word: string, known: readonly string[], what: string): string {
  const near = nearest(word, known);
  if (near !== undefined) return `did you mean ${near}?`;
  return known.length === 0 ? `there are no ${what}` : `${what}: ${known.join(", ")}`;
}
