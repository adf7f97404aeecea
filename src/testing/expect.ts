/** Throws unless the two values are deeply equal. A missing property equals one that is undefined. */
export function equal(actual: unknown, expected: unknown, what: string): void {
  if (!alike(actual, expected)) throw new Error(`${what}: expected ${show(expected)}, got ${show(actual)}`);
}

/** Throws unless `holds`. */
export function ok(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(what);
}

/** The code of the error that a call is refused with. Throws if the call succeeds. */
export async function refused(call: () => unknown, what: string): Promise<unknown> {
  try {
    await call();
  } catch (error) {
    return typeof error === "object" && error !== null && "code" in error ? error.code : error;
  }
  throw new Error(`${what}: expected a refusal, but it went through`);
}

export function alike(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  for (const key of keys) {
    if (!alike((a as Record<string, unknown>)[key], (b as Record<string, unknown>)[key])) return false;
  }
  return true;
}

function show(value: unknown): string {
  const text =
    JSON.stringify(value, (_key, inner: unknown) => (inner === undefined ? "undefined" : inner)) ?? "undefined";
  return text.length > 500 ? `${text.slice(0, 500)}…` : text;
}
