/** The text as every storage keeps it: without U+0000 and lone surrogates, and no longer than this. */
export function storable(text: string, longest: number): string {
  return text.slice(0, longest).toWellFormed().replaceAll("\u0000", "");
}

/** The text of any value. Undefined: it cannot be shown. Never throws. */
export function textOf(value: unknown): string | undefined {
  try {
    if (typeof value === "string") return value;
    const written = typeof value === "object" && !(value instanceof Error) ? JSON.stringify(value) : undefined;
    return written ?? String(value);
  } catch {
    return undefined;
  }
}
