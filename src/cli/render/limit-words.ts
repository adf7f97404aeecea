import { type LimitRule, namesOf, type Quota, quotaOf } from "../../limits/rule.ts";
import { spanText } from "../../storage/span.ts";
import { number, printable } from "./text.ts";

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
