/** Control characters and marks of writing direction: names and messages are untrusted text. */
const UNPRINTABLE = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;

/** The text in one line, with control characters escaped. */
export function printable(text: string): string {
  return text
    .toWellFormed()
    .replace(UNPRINTABLE, (character) =>
      character === "\n"
        ? "⏎"
        : character === "\t"
          ? " "
          : `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
    );
}

/** The keys of a job in one line, by name: `model=large tenant=acme`. */
export function keysText(keys: Readonly<Record<string, string>>): string {
  return Object.entries(keys)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => printable(`${name}=${value}`))
    .join(" ");
}

/** The lines of a text, each printable. */
export function printableLines(text: string): string[] {
  return text.split(/\r?\n/).map((line) => printable(line.replaceAll("\t", "  ")));
}

/** JSON in one line, with control characters escaped. */
export function jsonText(value: unknown): string {
  return JSON.stringify(value).replace(
    UNPRINTABLE,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

const WIDE =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}\uff01-\uff60]/u;
const NARROW = /[\p{Mn}\p{Me}\p{Cf}\p{Variation_Selector}]/u;

/** How many columns a printable text takes. */
export function widthOf(text: string): number {
  let width = 0;
  for (const character of text) width += NARROW.test(character) ? 0 : WIDE.test(character) ? 2 : 1;
  return width;
}

/** The text, cut if it takes more than so many columns. */
export function fit(text: string, columns: number): string {
  if (widthOf(text) <= columns) return text;
  if (columns < 1) return "";
  let kept = "";
  let width = 0;
  for (const character of text) {
    width += widthOf(character);
    if (width > columns - 1) break;
    kept += character;
  }
  return `${kept}…`;
}

/** The words of a text in lines of so many columns. */
export function wrap(text: string, columns: number): string[] {
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`.trimStart();
    if (widthOf(longer) <= columns || lines.at(-1) === "") lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

/** One or many of something: `1 job`, `3 jobs`. */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/** A whole number as people write it: 12,345. */
export function number(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Bytes in the largest unit that leaves a number above one. */
export function bytes(count: number): string {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  const power = count < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(count) / 3));
  return power === 0 ? plural(count, "byte") : `${(count / 1_000 ** power).toPrecision(3)} ${units[power]}`;
}
