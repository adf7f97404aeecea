/**
 * Removes secrets from a text that is stored or shown as an error. It recognises the shapes below (docs: SECURITY.md), which services
 * and drivers are known to put into messages; a secret of any other shape passes.
 *
 * Every step is linear in the length of the text: a value is passed once, and no pattern can begin inside of what it has passed.
 */
export function scrub(text: string): string {
  let scrubbed = values(urls(text), HEADER, headerEnd);
  scrubbed = values(scrubbed, FLAG, valueEnd);
  scrubbed = values(scrubbed, NAME, valueEnd);
  for (const shape of SHAPES) scrubbed = scrubbed.replace(shape, "$1***");
  return scrubbed;
}

/** The same for text that may be full of words such as `token`: only addresses, as URLs or as `host=… password=…`. */
export function scrubAddresses(text: string): string {
  return values(urls(text), KEYWORD, valueEnd);
}

/** The text before the value of a secret: the name, perhaps its closing quote (escaped, in JSON within JSON), and `=` or `:`. */
const CLOSING = String.raw`(?:\\{0,15}["'])?`;
const BETWEEN = String.raw`\s{0,4}(?:=>?|:|%3[da])\s{0,4}`;
/** Counts and limits of tokens are no secrets. */
const TOKEN = "token(?!s|[_-]?(?:bucket|budget|count|limit|type|usage))";
const SECRET = `(?:password|passwd|passphrase|pwd|secret|${TOKEN}|api[_-]?key|access[_-]?key|private[_-]?key|credential)`;
const NAME = new RegExp(`${SECRET}[\\w-]{0,64}${CLOSING}${BETWEEN}|(?<![a-z])sig(?:nature)?=`, "gi");
const KEYWORD = new RegExp(`(?:password|passwd|pwd)${BETWEEN}`, "gi");
/** `--password x`; words that go on with a sentence are no values. */
const FLAG = new RegExp(
  `(?<![\\w-])--(?:[a-z]{1,16}-){0,3}${SECRET}[\\w-]{0,64}[ \\t]{1,4}(?!-|(?:and|are|flag|is|must|needs|option|or|requires|was)\\b)`,
  "gi",
);
const HEADER = new RegExp(`(?:authorization|cookie)${CLOSING}\\s{0,4}:\\s{0,4}`, "gi");

/** Tokens that are recognised by their shape. The text before the first group stays. */
const SHAPES = [
  /(?<![\w-])((?:bearer|basic|token)\s{1,4})(?=[\w.~+/=-]{0,200}\d)[\w.~+/=-]{6,}/gi,
  // A header and claims in JSON, in base64: a JWT.
  /(?<![\w-])()eyJ[\w-]{5,}\.[\w-]{2,}(?:\.[\w-]*){0,3}/g,
  /(?<![\w-])()[sr]k[-_](?=[\w-]{0,200}\d)[\w-]{5,}/g,
  /(?<![\w-])()(?:whsec_|glpat-|npm_|hf_|xox[a-z]-|xapp-|gh[pousr]_|github_pat_)[\w-]{10,}/g,
  /(?<![A-Za-z0-9])()(?:AKIA|ASIA)[A-Z0-9]{12,}/g,
  /(?<![\w-])()AIza[\w-]{30,}/g,
  /()-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^]*?(?:-----END [A-Z ]{0,40}-----|$)/g,
];

/** Removes the text after every match of `before`, up to the position that `end` returns. */
function values(text: string, before: RegExp, end: (text: string, from: number) => number): string {
  let kept = "";
  let at = 0;
  before.lastIndex = 0;
  for (let found = before.exec(text); found !== null; found = before.exec(text)) {
    const from = found.index + found[0].length;
    const to = end(text, from);
    if (to === from) continue;
    kept += `${text.slice(at, from)}***`;
    at = to;
    before.lastIndex = to;
  }
  return kept + text.slice(at);
}

const QUOTE = /["'`]/;
const ENDS_VALUE = /[\s"'`&,;)}\]<]/;

/** Where a value ends: at its closing quote, or where an unquoted one does. A backslash takes the next character with it. */
function valueEnd(text: string, from: number): number {
  const opening = quoteAt(text, from);
  if (opening !== undefined) return quotedEnd(text, opening);
  let at = from;
  while (at < text.length && !ENDS_VALUE.test(text[at]!)) {
    if (text[at] === "\\" && quoteAt(text, at) !== undefined) break;
    at += text[at] === "\\" ? 2 : 1;
  }
  return Math.min(at, text.length);
}

/** The value of a header is the rest of its line, unless it is in quotes. */
function headerEnd(text: string, from: number): number {
  const opening = quoteAt(text, from);
  if (opening !== undefined) return quotedEnd(text, opening);
  // A list of them, as Node shows it.
  if (text[from] === "[") return text.includes("]", from) ? text.indexOf("]", from) + 1 : text.length;
  let at = from;
  while (at < text.length && !/[\r\n"'`]/.test(text[at]!) && quoteAt(text, at) === undefined) at += 1;
  return at;
}

interface Quote {
  readonly mark: string;
  /** How many backslashes stand before it: within JSON within JSON, one or more. */
  readonly depth: number;
  readonly end: number;
}

function quoteAt(text: string, from: number): Quote | undefined {
  let at = from;
  while (text[at] === "\\" && at - from < 16) at += 1;
  const mark = text[at];
  return mark !== undefined && QUOTE.test(mark) ? { mark, depth: at - from, end: at + 1 } : undefined;
}

/** Behind the quote that closes this one. One with more backslashes before it belongs to the value; an unclosed value goes to the end. */
function quotedEnd(text: string, { mark, depth, end }: Quote): number {
  let backslashes = 0;
  for (let at = end; at < text.length; at++) {
    if (text[at] === "\\") backslashes += 1;
    else {
      // Within a string without escapes of its own (depth 0), an even number escapes itself.
      const closes = depth === 0 ? backslashes % 2 === 0 : backslashes <= depth;
      if (text[at] === mark && closes) return at + 1;
      backslashes = 0;
    }
  }
  return text.length;
}

const SCHEME = /(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,30}:\/{1,3}/gi;
const ENDS_URL = /[\s"'`<>]/g;

/** Removes `user:password@` from URLs. A path that was made of a URL has one slash left. */
function urls(text: string): string {
  // A word with many schemes in it is looked at once.
  let word = { end: 0, lastAt: -1 };
  return values(text, SCHEME, (_, from) => {
    if (from >= word.end) {
      ENDS_URL.lastIndex = from;
      const end = ENDS_URL.exec(text)?.index ?? text.length;
      // Within the word alone: a text may be full of words without any.
      const lastAt = text.slice(from, end).lastIndexOf("@");
      word = { end, lastAt: lastAt === -1 ? -1 : from + lastAt };
    }
    const web = /(?:https?|wss?|file):\/+$/i.test(text.slice(Math.max(0, from - 12), from));
    if (word.lastAt >= from) return !web || hasUser(text, from) ? word.lastAt : from;
    // One that was cut before its @.
    return text.startsWith("://", from - 3) && hasUser(text, from) ? word.end : from;
  });
}

/** Does `user:password@` begin here, and not a host with a port? In addresses of the web an @ often stands in the path. */
function hasUser(text: string, from: number): boolean {
  const authority = /^[^/?#\s"'`<>]*/.exec(text.slice(from, from + 2_000))![0];
  return authority.includes("@") || /:(?!\d{0,5}$)/.test(authority.replace(/^\[[^\]]*\]/, ""));
}
