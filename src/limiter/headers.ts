import { hasMethods } from "../core/options.ts";

/** Anything that headers can be read from: a `Response`, or `Headers` (or what has a `get` like it). */
export type HeaderSource = HeadersLike | { readonly headers: HeadersLike; readonly status?: number };

export interface HeadersLike {
  get(name: string): string | null | undefined;
}

/** What a service said about its limits. All times are milliseconds from now. */
export interface RateLimitFeedback {
  /** The status of the response, if the source had one. */
  readonly status: number | undefined;
  /** How long the service asks to wait (`Retry-After`, `retry-after-ms`). */
  readonly retryInMs: number | undefined;
  /** The quotas that the service reports. */
  readonly quotas: readonly Quota[];
  /** How long nothing should start: what it asks for, or until the last used-up quota resets. 0: no hold. */
  readonly holdMs: number;
}

/** One quota of a service. */
export interface Quota {
  /** What it counts, as the service calls it: `requests`, `tokens`, … */
  readonly name: string;
  readonly limit: number | undefined;
  readonly remaining: number | undefined;
  /** When it resets. */
  readonly resetInMs: number | undefined;
}

/** A hold is a day at most, whatever the service asks for. */
export const LONGEST_HOLD_MS = 86_400_000;

/** A reset larger than this is an instant in seconds since 1970 (2001), larger than the second one in milliseconds. */
const EPOCH_SECONDS = 1e9;
const EPOCH_MILLISECONDS = 1e12;

/** Quotas that come in three headers: what they count, and how the headers are called. */
const TRIPLES: readonly (readonly [name: string, limit: string, remaining: string, reset: string])[] = [
  ...["ratelimit", "x-ratelimit", "x-rate-limit"].map(
    (prefix) => ["requests", `${prefix}-limit`, `${prefix}-remaining`, `${prefix}-reset`] as const,
  ),
  ...["requests", "tokens"].map(
    (name) =>
      [name, `x-ratelimit-limit-${name}`, `x-ratelimit-remaining-${name}`, `x-ratelimit-reset-${name}`] as const,
  ),
  ...["requests", "tokens", "input-tokens", "output-tokens"].map(
    (name) =>
      [
        name,
        `anthropic-ratelimit-${name}-limit`,
        `anthropic-ratelimit-${name}-remaining`,
        `anthropic-ratelimit-${name}-reset`,
      ] as const,
  ),
];

/**
 * Reads what a response says about limits: `Retry-After` (seconds or a date), `retry-after-ms`, `x-ratelimit-*`,
 * `anthropic-ratelimit-*`, and the IETF fields (`RateLimit: "default";r=0;t=30` and the three older ones). What
 * cannot be read is left out. Dates are compared with the response's own `Date` where there is one, so that it does not
 * matter whether the clocks agree; `wall` is the local clock, used where there is none.
 */
export function readHeaders(source: HeaderSource, wall: number): RateLimitFeedback {
  const headers = "headers" in source ? source.headers : source;
  const get = (name: string) => textOf(headers.get(name));
  const now = instant(get("date")) ?? wall;
  const quotas = [
    ...TRIPLES.flatMap((triple) => readTriple(triple, get, now)),
    ...readField(get("ratelimit"), get("ratelimit-policy")),
  ];
  const retryInMs = readRetryAfter(get, now);
  const used = quotas.filter(({ remaining }) => remaining !== undefined && remaining <= 0);
  return {
    status: "status" in source ? source.status : undefined,
    retryInMs,
    quotas,
    holdMs: Math.max(0, retryInMs ?? 0, ...used.map(({ resetInMs }) => resetInMs ?? 0)),
  };
}

/** Can headers be read from it? */
export function isHeaderSource(value: unknown): value is HeaderSource {
  const headers = typeof value === "object" && value !== null && "headers" in value ? value.headers : value;
  return hasMethods(headers, ["get"]);
}

type Get = (name: string) => string | undefined;

function readRetryAfter(get: Get, now: number): number | undefined {
  const ms = decimal(get("retry-after-ms"));
  if (ms !== undefined) return ms;
  const text = get("retry-after");
  // A header that was sent twice is read as one with a comma: the larger counts.
  const seconds = text?.split(",").reduce<number | undefined>((most, item, i) => {
    const next = decimal(item.trim());
    return next === undefined || (i > 0 && most === undefined) ? undefined : Math.max(next, most ?? 0);
  }, undefined);
  if (seconds !== undefined) return seconds * 1000;
  const at = instant(text);
  return at === undefined ? undefined : Math.max(0, at - now);
}

function readTriple(triple: (typeof TRIPLES)[number], get: Get, now: number): Quota[] {
  const [name, ...fields] = triple;
  const [limit, remaining, reset] = fields.map(get);
  const quota = {
    name,
    limit: decimal(limit),
    // Some services report negative numbers.
    remaining: remaining?.startsWith("-") ? 0 : decimal(remaining),
    resetInMs: reset === undefined ? undefined : readReset(reset, now),
  };
  const silent = quota.limit === undefined && quota.remaining === undefined && quota.resetInMs === undefined;
  return silent ? [] : [quota];
}

/** Seconds from now, an instant in seconds or milliseconds, a date, or `6m0s`. Services use all of these. */
function readReset(text: string, now: number): number | undefined {
  const value = decimal(text);
  if (value !== undefined) {
    if (value > EPOCH_MILLISECONDS) return Math.max(0, value - now);
    return value > EPOCH_SECONDS ? Math.max(0, value * 1000 - now) : value * 1000;
  }
  const span = readSpan(text);
  if (span !== undefined) return span;
  const at = instant(text);
  return at === undefined ? undefined : Math.max(0, at - now);
}

const SPAN_UNITS: ReadonlyMap<string, number> = new Map([
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
  ["ms", 1],
]);

/** `1h2m3.5s`, `120ms`. */
function readSpan(text: string): number | undefined {
  if (text.length > 40 || !/^(?:\d{1,9}(?:\.\d{1,9})?(?:ms|[dhms]))+$/.test(text)) return undefined;
  let sum = 0;
  for (const [, value, unit] of text.matchAll(/([\d.]+)(ms|[dhms])/g)) {
    sum += Number(value) * (SPAN_UNITS.get(unit ?? "") ?? 0);
  }
  return sum;
}

/** The one-header form: `"default";r=50;t=30, "daily";r=900;t=4000`, or the older `limit=100, remaining=0, reset=5`. */
function readField(text: string | undefined, policy = ""): Quota[] {
  if (text === undefined || text.length > 2000) return [];
  const older = parameters(text, ",");
  if (older.has("remaining")) {
    return [
      {
        name: "requests",
        limit: older.get("limit"),
        remaining: older.get("remaining"),
        resetInMs: milliseconds(older.get("reset")),
      },
    ];
  }
  // Without a reset time, the window of the policy is the longest possible one.
  const windows = new Map(policy.split(",").map((item) => [nameOf(item), parameters(item, ";").get("w")]));
  return text.split(",").flatMap((item) => {
    const given = parameters(item, ";");
    const remaining = given.get("r");
    if (remaining === undefined) return [];
    const name = nameOf(item);
    return [{ name, limit: undefined, remaining, resetInMs: milliseconds(given.get("t") ?? windows.get(name)) }];
  });
}

function nameOf(item: string): string {
  return item.split(";")[0]?.trim().replaceAll('"', "") || "requests";
}

/** The parameters that are numbers, by name. */
function parameters(text: string, separator: string): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  for (const pair of text.split(separator)) {
    const [key = "", value] = pair.split("=", 2);
    const number = decimal(value?.trim());
    if (number !== undefined) found.set(key.trim(), number);
  }
  return found;
}

function milliseconds(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : seconds * 1000;
}

/** Some sources hold numbers instead of text. */
function textOf(value: unknown): string | undefined {
  return typeof value === "string" || typeof value === "number" ? String(value).trim() || undefined : undefined;
}

/** A plain number that is not negative. */
function decimal(text: string | undefined): number | undefined {
  if (text === undefined || !/^\d{1,15}(?:\.\d{1,9})?$/.test(text)) return undefined;
  return Number(text);
}

/** The three forms of an HTTP date, and ISO 8601. `Date.parse` takes many other things for dates. */
const INSTANTS: readonly RegExp[] = [
  /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/,
  /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2})$/,
];
const ASCTIME = /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/;

function instant(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  // The oldest form does not name GMT, but it is in GMT.
  const full = ASCTIME.test(text) ? `${text} GMT` : INSTANTS.some((form) => form.test(text)) ? text : "";
  const at = Date.parse(full);
  return Number.isNaN(at) ? undefined : at;
}
