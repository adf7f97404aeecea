import type { Duration } from "../../core/duration.ts";
import { OptionsError } from "../../core/errors.ts";
import { type Check, countOrZero, date, durationOrZero, readOptions, required } from "../../core/options.ts";
import { type LimitRule, quotaOf } from "../../limits/rule.ts";
import { type HeaderSource, isHeaderSource, LONGEST_HOLD_MS, type Quota, readHeaders } from "../headers.ts";

/** What the user's code read from a service. */
export interface Remaining {
  /** How much is left. */
  readonly remaining: number;
  /** When the window of the service resets: so long from now, or an instant. */
  readonly reset: Duration | Date;
}

/** What a service said about one limit. */
export interface ServiceReport {
  readonly remaining: number | undefined;
  readonly resetMs: number | undefined;
  /** The hold that it asks for. */
  readonly holdMs: number;
}

const instantOrDuration: Check<Date | number> = {
  expected: "a duration >= 0 or a valid Date",
  read: (value) => date.read(value) ?? durationOrZero.read(value),
};

const REMAINING = { remaining: required(countOrZero), reset: required(instantOrDuration) };

/** What `source` says about this limit; `wall` is the local clock. */
export function reportOn(rule: LimitRule, group: string | null, source: unknown, wall: number): ServiceReport {
  if (!isHeaderSource(source)) {
    if (typeof source !== "object" || source === null || !("remaining" in source || "reset" in source)) {
      throw new OptionsError("sync", "source", source, "a Response, Headers, or { remaining, reset }");
    }
    const { remaining, reset } = readOptions("sync", REMAINING, source);
    return { remaining, resetMs: msUntil(reset, wall), holdMs: 0 };
  }
  const { quotas, retryInMs = 0 } = readHeaders(source, wall);
  const quota = quotaFor(rule, quotas);
  // Without a reset time, the window of the limit is assumed, as if it had just begun: it cannot be longer.
  const resetMs = quota?.resetInMs ?? quotaOf(rule, group).windowMs ?? undefined;
  return {
    remaining: quota?.remaining === undefined ? undefined : Math.floor(quota.remaining),
    resetMs: resetMs === undefined ? undefined : Math.min(resetMs, LONGEST_HOLD_MS),
    holdMs: Math.min(retryInMs, LONGEST_HOLD_MS),
  };
}

/** How long to hold; undefined: `retry` is none of these; 0: the response does not say. */
export function holdOf(retry: Date | Duration | HeaderSource, wall: number): number | undefined {
  const read = instantOrDuration.read(retry);
  if (read !== undefined) return msUntil(read, wall);
  return isHeaderSource(retry) ? Math.min(readHeaders(retry, wall).holdMs, LONGEST_HOLD_MS) : undefined;
}

function msUntil(when: Date | number, wall: number): number {
  return typeof when === "number" ? when : Math.max(0, when.getTime() - wall);
}

/**
 * The quota of the service for this limit: the one named like its weight, or else `requests`; failing that the one
 * named like the limit, or the only one if starts are counted. Of several the one with the least remaining.
 */
function quotaFor({ name, weight }: LimitRule, quotas: readonly Quota[]): Quota | undefined {
  const known = quotas.filter(({ remaining }) => remaining !== undefined);
  const called = (wanted: string) => known.filter((quota) => plain(quota.name) === plain(wanted));
  const only =
    weight === null && known.length === 1 ? known.filter((quota) => !plain(quota.name).endsWith("tokens")) : [];
  const found = [called(weight ?? "requests"), called(name), weight === null ? called("default") : [], only].find(
    ({ length }) => length > 0,
  );
  return found?.toSorted((a, b) => a.remaining! - b.remaining!)[0];
}

/** `input_tokens` is `Input-Tokens`. */
function plain(name: string): string {
  return name.toLowerCase().replaceAll("_", "-");
}
