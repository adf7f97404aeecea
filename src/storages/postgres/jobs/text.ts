/** The text as Postgres can keep it: it has no place for U+0000, nor for half a character. */
export function storable(text: string): string {
  return text.toWellFormed().replaceAll("\u0000", "\ufffd");
}
