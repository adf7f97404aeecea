import { isChanged } from "../../limiter/shared/limit-info.ts";
import { type LimitRule, quotaOf } from "../../limits/rule.ts";
import type { GroupState, LimitState } from "../../storage/limit-storage.ts";
import { spanText } from "../../storage/span.ts";
import {
  allowanceText,
  groupWords,
  heldText,
  limitWords,
  namesText,
  scopeText,
  stateNoun,
  usedText,
} from "./limit-words.ts";
import { type Surface, table, wrappedListing } from "./table.ts";
import { number, plural, printable } from "./text.ts";

/** All limits, one in a line. A star behind the numbers: they were changed by hand. */
export function limitsTable(limits: readonly LimitState[], now: number, surface: Surface): string {
  const columns = [
    { title: "limit", atLeast: 8 },
    { title: "allows", atLeast: 10 },
    { title: "for", atLeast: 6 },
    { title: "used", align: "right" as const, atLeast: 11 },
    { title: "held", align: "right" as const, atLeast: 7 },
    { title: "waiting", align: "right" as const },
    { title: "state", atLeast: 8 },
  ];
  const rows = limits.map((limit) => {
    const { rule, waiting } = limit;
    const only = rule.byGroup ? undefined : limit.states[0];
    return [
      printable(rule.name),
      allowanceText(rule) + (isChanged(limit) ? "*" : ""),
      scopeText(rule),
      only === undefined ? "" : usedText(rule, only),
      only === undefined ? "" : heldText(rule, only),
      number(waiting),
      limitWords(limit, now).text,
    ];
  });
  return table(columns, rows, surface) + (limits.some((one) => isChanged(one)) ? "* changed by hand\n" : "");
}

type Row = readonly [string, string | readonly string[]];

/** Everything about one limit; of one by group about one group, if so wanted. */
export function limitText(limit: LimitState, now: number, surface: Surface, group?: string): string {
  const { rule, declared, revision, version, owners, waiting, groups, states } = limit;
  const state = limitWords(limit, now, group);
  const only = rule.byGroup ? undefined : states[0];
  const used = only === undefined ? "" : usedText(rule, only);
  const held = only === undefined ? "" : heldText(rule, only);
  const rows: (Row | undefined)[] = [
    ["limit", printable(rule.name)],
    ["state", surface.paint(state.style, state.text)],
    ["allows", allowanceText(rule)],
    isChanged(limit) ? ["declared", `${allowanceText(declared)} (changed by hand)`] : undefined,
    ["for", scopeText(rule)],
    rule.weight === null
      ? undefined
      : ["weight", `${printable(rule.weight)}, ${number(rule.estimate)} if a job says nothing`],
    rule.breaker === null ? undefined : ["breaker", breakerText(rule.breaker)],
    Object.keys(rule.groups).length === 0 ? undefined : ["overrides", overrideLines(rule)],
    used === "" ? undefined : ["used", used],
    held === "" ? undefined : ["held", held],
    ["waiting", plural(waiting, "job")],
    rule.byGroup ? [`${stateNoun(rule)}s`, `${number(groups)} in use`] : undefined,
    version === null ? undefined : ["version", String(version)],
    owners.length === 0 ? undefined : ["owner", owners.map((owner) => printable(owner)).join(", ")],
    ["revision", String(revision)],
  ];
  const list = wrappedListing(
    rows.filter((row): row is Row => row !== undefined),
    surface,
  );
  return rule.byGroup && states.length > 0 ? `${list}\n${groupsTable(rule, states, now, surface)}` : list;
}

function groupsTable(rule: LimitRule, states: readonly GroupState[], now: number, surface: Surface): string {
  const columns = [
    { title: namesText(rule), atLeast: 8 },
    { title: "used", align: "right" as const, atLeast: 11 },
    { title: "held", align: "right" as const, atLeast: 7 },
    { title: "state", atLeast: 8 },
  ];
  const rows = states.map((state) => [
    state.group === null ? "(none)" : printable(state.group),
    usedText(rule, state),
    heldText(rule, state),
    groupWords(rule, state, now).text,
  ]);
  return table(columns, rows, surface);
}

function breakerText({ failures, openMs, probes, kinds }: NonNullable<LimitRule["breaker"]>): string {
  const of = kinds === null ? "" : ` (${kinds.map((kind) => printable(kind)).join(", ")})`;
  return `opens for ${spanText(openMs)} after ${plural(failures, "failure")} in a row${of}, then ${plural(probes, "probe")} at a time`;
}

/** So many groups that differ are named. */
const OVERRIDES = 20;

function overrideLines(rule: LimitRule): string[] {
  const groups = Object.keys(rule.groups);
  const more = groups.length - OVERRIDES;
  return [
    ...groups.slice(0, OVERRIDES).map((group) => {
      const { share } = rule.groups[group]!;
      const turns = share === undefined ? "" : `, ${number(share)} in a turn`;
      return `${printable(group)}: ${allowanceText(rule, group)}${turns}`;
    }),
    ...(more > 0 ? [`… and ${number(more)} more`] : []),
  ];
}

/** A limit for machines; `asked`: of one by group, only this group. */
export function limitJson(limit: LimitState, now: number, asked?: string): Record<string, unknown> {
  const { rule, declared, revision, version, owners, waiting, groups, states } = limit;
  const changed = isChanged(limit);
  return {
    name: rule.name,
    allows: allowanceText(rule),
    state: limitWords(limit, now, asked).text,
    paused: rule.paused,
    waiting,
    groups,
    states: states.map(({ group, used, held, free, nextInMs, reason, heldForMs, breaker }) => {
      const { max, concurrency } = quotaOf(rule, group);
      return { group, used, max, held, concurrency, free, nextInMs, reason, heldForMs, breaker };
    }),
    changed,
    revision,
    version,
    owners,
    rule,
    declared: changed ? declared : undefined,
  };
}
