import { type LimitRule, namesOf, type Quota, quotaOf } from "../../limits/rule.ts";
import type { GroupState, LimitState } from "../../storage/limit-storage.ts";
import { spanText } from "../../storage/span.ts";
import type { Style } from "../io.ts";
import { number, plural, printable } from "./text.ts";
import { timeOfDay } from "./time.ts";

/** What a limit allows: `120 per 1m`, `200,000 tokens per 1m, 5 at a time`, `every 500ms`. */
export function allowanceText(rule: LimitRule, group: string | null = null): string {
  return quotaText(quotaOf(rule, group), rule.weight);
}

function quotaText({ max, windowMs, concurrency, everyMs }: Quota, weight: string | null): string {
  const unit = weight === null ? "" : ` ${printable(weight)}`;
  const parts = [
    ...(max === null || windowMs === null ? [] : [`${number(max)}${unit} per ${spanText(windowMs)}`]),
    ...(concurrency === null ? [] : [`${number(concurrency)}${max === null ? unit : ""} at a time`]),
    ...(everyMs === null ? [] : [`every ${spanText(everyMs)}`]),
  ];
  return parts.length === 0 ? "anything" : parts.join(", ");
}

/** Which jobs it holds for: `send_email, send_digest`, `queue crawl`, `each group`, `each tenant and model`, `all`. */
export function scopeText(rule: LimitRule): string {
  const { types, queues, byGroup } = rule;
  const names = (list: readonly string[]) => list.map((name) => printable(name)).join(", ");
  const parts = [
    ...(types === null ? [] : [names(types)]),
    ...(queues === null ? [] : [`${queues.length === 1 ? "queue" : "queues"} ${names(queues)}`]),
    ...(byGroup ? [`each ${namesText(rule)}`] : []),
  ];
  return parts.length === 0 ? "all" : parts.join("; ");
}

/** What a limit is by: `group`, `tenant`, `tenant and model`. */
export function namesText(rule: LimitRule): string {
  return namesOf(rule)
    .map((name) => printable(name))
    .join(" and ");
}

/** What each state of a limit is for: a group, or a value of its keys. */
export function stateNoun({ by }: LimitRule): string {
  return by === undefined ? "group" : "value";
}

/** In a few words, whether something can start under a limit, and if not, until when. */
export interface StateWords {
  readonly text: string;
  readonly style: Style;
}

const OPEN: StateWords = { text: "open", style: "green" };
const stopped = (text: string): StateWords => ({ text, style: "red" });
const full = (text: string): StateWords => ({ text, style: "yellow" });

/** Of one group, or of a limit that has none. */
export function groupWords(rule: LimitRule, state: GroupState, now: number): StateWords {
  const { nextInMs, reason, heldForMs, breaker } = state;
  const until = (ms: number) => `until ${timeOfDay(now + ms, now)}`;
  if (rule.paused) return stopped("paused");
  if (breaker === "open") return stopped(nextInMs === null ? "breaker open" : `breaker open ${until(nextInMs)}`);
  if (heldForMs > 0) return stopped(`held ${until(heldForMs)}`);
  if (breaker === "half-open") return full("breaker half-open");
  const { max, concurrency } = quotaOf(rule, state.group);
  if (max === 0 || concurrency === 0) return stopped("closed: allows none");
  if (reason === null) return OPEN;
  if (nextInMs !== null)
    return full(reason === "remaining" ? `used up, says the service, ${until(nextInMs)}` : `full ${until(nextInMs)}`);
  return full("full until one ends");
}

/** Of one group, or of all together; `now` is by the clock of the storage. */
export function limitWords({ rule, states, groups }: LimitState, now: number, group?: string): StateWords {
  if (rule.paused) return stopped("paused");
  if (!rule.byGroup || group !== undefined) return states[0] === undefined ? OPEN : groupWords(rule, states[0], now);
  const { heldUntil = now, blindUntil = now, quota } = rule;
  if (heldUntil > now) return stopped(`all ${stateNoun(rule)}s held until ${timeOfDay(heldUntil, now)}`);
  if (blindUntil > now && quota.max !== null)
    return full(`all ${stateNoun(rule)}s full until ${timeOfDay(blindUntil, now)}`);
  if (groups === 0) return OPEN;
  const shut = states.filter((state) => state.reason !== null).length;
  const of = plural(groups, stateNoun(rule));
  if (shut === 0) return { ...OPEN, text: `open, ${of} in use` };
  return full(`${number(shut)}${states.length < groups ? "+" : ""} of ${of} full`);
}

/** `118/120`; nothing where there is no such number. */
export function usedText(rule: LimitRule, { group, used }: GroupState): string {
  const { max } = quotaOf(rule, group);
  return max === null ? "" : `${number(used)}/${number(max)}`;
}

export function heldText(rule: LimitRule, { group, held }: GroupState): string {
  const { concurrency } = quotaOf(rule, group);
  return concurrency === null ? "" : `${number(held)}/${number(concurrency)}`;
}
