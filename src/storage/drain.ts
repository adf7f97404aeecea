import type { Reason } from "../limits/key-state.ts";
import { applies, type GroupRule, type LimitRule, type Quota, weighed } from "../limits/rule.ts";
import type { Backlog, GroupState, LimitState, TypeBacklog } from "./limit-storage.ts";
import { roughText } from "./span.ts";

/** The waiting jobs of a queue, and how long its limits take for them. */
export interface QueueExplanation {
  readonly queue: string;
  readonly paused: boolean;
  /** Types that are paused and have jobs waiting. */
  readonly pausedTypes: readonly string[];
  /** Types that have jobs waiting and that no live worker handles. */
  readonly unhandledTypes: readonly string[];
  readonly waiting: number;
  /** Due later: not part of the estimate. */
  readonly scheduled: number;
  readonly active: number;
  /** Limits that apply to waiting jobs; the slowest first. */
  readonly limits: readonly LimitDrain[];
  /** The limit that takes the longest; undefined: no limit takes any time. */
  readonly bottleneck: string | undefined;
  /**
   * An estimate of how long it takes until the last of the jobs that wait now has started, with enough workers. undefined: not known,
   * and `unknown` says why.
   */
  readonly drainsInMs: number | undefined;
  /**
   * The last of them certainly does not start before this, unless something is cancelled or changed. 0: nothing is certain. How long jobs
   * run is not, nor what they weigh.
   */
  readonly atLeastMs: number;
  /** Why there is no estimate, in sentences. */
  readonly unknown: readonly string[];
  /** What the estimate assumes, in sentences. */
  readonly assumed: readonly string[];
  /** A summary in a sentence. */
  readonly text: string;
}

/** How long one limit takes for the jobs that wait under it. */
export interface LimitDrain {
  readonly limit: string;
  /** Jobs of this queue that wait under it. */
  readonly waiting: number;
  /** Jobs of other queues that wait under it too, and are included. */
  readonly elsewhere: number;
  /** The slowest part of the limit; undefined: none takes any time. */
  readonly binds: "window" | "spacing" | "concurrency" | undefined;
  /** Nothing starts under it until it is resumed or changed. */
  readonly stopped: boolean;
  /** undefined: not known, and `unknown` says why. */
  readonly drainsInMs: number | undefined;
  /** The last of the jobs of this queue certainly does not start before this under it; see `QueueExplanation.atLeastMs`. */
  readonly atLeastMs: number;
  readonly unknown: string | undefined;
  /** What the estimate assumes, in sentences. */
  readonly assumed: readonly string[];
}

/** Estimates when the waiting jobs will have started, under the limits as they are. */
export function drain({ queue, paused, types, limits }: Backlog): QueueExplanation {
  const total = (count: (type: TypeBacklog) => number) => types.reduce((sum, type) => sum + count(type), 0);
  const waiting = total((type) => type.waiting);
  const scheduled = total((type) => type.scheduled);
  const namesOf = (has: (type: TypeBacklog) => boolean) =>
    types.filter((type) => type.waiting > 0 && has(type)).map(({ type }) => type);
  const pausedTypes = namesOf((type) => type.paused);
  const unhandledTypes = namesOf((type) => type.workers === 0);
  const slowest = limits
    .flatMap((state) => limitDrain(state, queue, types) ?? [])
    .toSorted((a, b) => Number(b.drain.stopped) - Number(a.drain.stopped) || b.knownMs - a.knownMs);
  const drains = slowest.map((limit) => limit.drain);
  const unknown = [
    ...(paused && waiting > 0 ? [`The queue "${queue}" is paused.`] : []),
    ...pausedTypes.map((type) => `Jobs of type "${type}" are paused.`),
    ...drains.flatMap((limit) => limit.unknown ?? []),
  ];
  const atLeastMs = Math.max(0, ...drains.map((limit) => limit.atLeastMs));
  const assumed = [
    ...(unhandledTypes.length === 0 ? [] : [unhandledText(unhandledTypes)]),
    ...drains.flatMap((limit) => limit.assumed),
    ...(scheduled > 0 ? [`${scheduled} more are due later, and are not counted.`] : []),
  ];
  const bottleneck = slowest.find(({ drain: { stopped }, knownMs }) => stopped || knownMs > 0)?.drain.limit;
  const drainsInMs = unknown.length > 0 ? undefined : Math.max(0, ...slowest.map((limit) => limit.knownMs));
  return {
    queue,
    paused,
    pausedTypes,
    unhandledTypes,
    waiting,
    scheduled,
    active: total((type) => type.active),
    limits: drains,
    bottleneck,
    drainsInMs,
    atLeastMs,
    unknown,
    assumed,
    text: textOf({ waiting, bottleneck, drainsInMs, atLeastMs, unknown }),
  };
}

/** A text names at most so many types. */
const MOST_NAMED = 10;

function unhandledText(types: readonly string[]): string {
  const named = types.slice(0, MOST_NAMED).map((type) => `"${type}"`);
  const more = types.length > MOST_NAMED ? [`${types.length - MOST_NAMED} more`] : [];
  return `No live worker handles ${types.length === 1 ? "type" : "types"} ${[...named, ...more].join(", ")}: such jobs wait until one does.`;
}

/** The jobs that wait under a limit: all, or those of the largest group if the limit is by group. */
interface Demand {
  readonly starts: number;
  /** Their charge to the window. */
  readonly weight: number;
  /** The slots that they take. */
  readonly slots: number;
  /** The sum of slots times run time; undefined: the run time is not known. */
  readonly slotMs: number | undefined;
}

/** How long one part of a limit takes. Without `ms` it is not known, and `why` says why. */
interface Span {
  readonly binds: LimitDrain["binds"];
  readonly ms: number | undefined;
  readonly why?: string;
  readonly stops?: boolean;
}

/** `knownMs`: the estimate, by the parts of the limit of which there is one. */
function limitDrain(
  state: LimitState,
  queue: string,
  types: readonly TypeBacklog[],
): { readonly drain: LimitDrain; readonly knownMs: number } | undefined {
  const { rule } = state;
  const under = types.filter((type) => type.waiting > 0 && applies(rule, queue, type.type));
  const waiting = under.reduce((sum, type) => sum + type.waiting, 0);
  if (waiting === 0) return undefined;
  const elsewhere = rule.byGroup ? 0 : Math.max(0, state.waiting - waiting);
  const demand = demandOf(rule, under, (waiting + elsewhere) / waiting);
  const spans: Span[] = rule.paused
    ? [{ binds: undefined, ms: undefined, why: "is paused", stops: true }]
    : rule.by === undefined
      ? spansOf(rule.quota, state, demand)
      : spansByKeys(state, under, rule.by, Math.max(1, state.waiting / waiting));
  const unknown = spans.find(({ ms }) => ms === undefined);
  const knownMs = Math.max(0, ...spans.map(({ ms }) => ms ?? 0));
  const longest = knownMs > 0 ? spans.find(({ ms }) => ms === knownMs) : undefined;
  const drained: LimitDrain = {
    limit: rule.name,
    waiting,
    elsewhere,
    binds: unknown?.binds ?? longest?.binds,
    stopped: spans.some(({ stops }) => stops === true),
    drainsInMs: unknown === undefined ? knownMs : undefined,
    atLeastMs: leastOf(state, under),
    unknown: unknown && `The limit ${rule.name} ${unknown.why}.`,
    assumed: assumedOf(rule, elsewhere, under.length),
  };
  return { drain: drained, knownMs };
}

/**
 * The last of these jobs certainly does not start before this. In any window at most `max` start, so the start that comes `max` after
 * another comes a window later, whatever is in use now. Jobs of other queues may come last; what jobs weigh is an average, and may turn
 * out to be less; of groups with numbers of their own, and of keys, it is not known how many jobs each has.
 */
function leastOf({ rule, states }: LimitState, types: readonly TypeBacklog[]): number {
  const { by, byGroup, groups, weight, paused } = rule;
  const { max, windowMs, everyMs } = rule.quota;
  if (paused || by !== undefined || Object.values(groups).some(hasNumbers)) return 0;
  const starts = byGroup
    ? Math.max(...types.map(({ mostInGroup }) => mostInGroup))
    : types.reduce((sum, { waiting }) => sum + waiting, 0);
  const windows = max === null || max === 0 || weight !== null ? 0 : Math.ceil(starts / max) - 1;
  // A hold of one group says nothing about the others.
  const heldMs = byGroup ? 0 : (states[0]?.heldForMs ?? 0);
  return heldMs + Math.max(windows * (windowMs ?? 0), (starts - 1) * (everyMs ?? 0));
}

const hasNumbers = (own: GroupRule) => Object.keys(own).some((key) => key !== "share");

function assumedOf({ name, byGroup, by, groups }: LimitRule, elsewhere: number, types: number): string[] {
  if (by !== undefined) {
    return Object.keys(groups).length === 0 ? [] : [`All values under ${name} are taken to have the same numbers.`];
  }
  return [
    ...(elsewhere > 0
      ? [`${elsewhere} jobs of other queues under ${name} are taken to be like those of this one.`]
      : []),
    ...(byGroup ? [`Of the groups under ${name} the one with most waiting is taken to have most in use.`] : []),
    ...(byGroup && types > 1 ? [`Every group under ${name} is taken to have jobs of one type.`] : []),
    ...(Object.values(groups).some(hasNumbers) ? ["It is taken to have no numbers of its own."] : []),
  ];
}

/** Of a limit by group: the most that jobs of one type in one group come to. Whether groups have several types is not counted. */
function demandOf(rule: LimitRule, types: readonly TypeBacklog[], factor: number): Demand {
  const together = (a: number, b: number) => (rule.byGroup ? Math.max(a, b) : a + b);
  let starts = 0;
  let weight = 0;
  let slots = 0;
  let slotMs: number | undefined = 0;
  for (const type of types) {
    const count = (rule.byGroup ? type.mostInGroup : type.waiting) * factor;
    const charge = weighed(rule.quota, meanWeight(rule, type));
    starts = together(starts, count);
    weight = together(weight, count * charge.weight);
    slots = together(slots, count * charge.slots);
    slotMs =
      type.ranMs === null || slotMs === undefined ? undefined : together(slotMs, count * charge.slots * type.ranMs);
  }
  return { starts, weight, slots, slotMs };
}

/** What a job of the type counts for on average: some say what they weigh, and for the others the estimate holds. */
function meanWeight({ weight, estimate }: LimitRule, { weights }: TypeBacklog): number {
  if (weight === null || !Object.hasOwn(weights, weight)) return estimate;
  const { part, mean } = weights[weight]!;
  return part * mean + (1 - part) * estimate;
}

/** How long each part of the limit takes. */
function spansOf(quota: Quota, state: LimitState, demand: Demand): Span[] {
  const { starts, weight, slots, slotMs } = demand;
  const [fullest] = state.states.toSorted((a, b) => b.used - a.used || b.held - a.held);
  const { used = 0, held = 0 } = fullest ?? {};
  const { max, windowMs, concurrency, everyMs } = quota;
  const stoppedMs = stopOf(state, fullest);
  const next = (reason: Reason) => (fullest?.reason === reason ? (fullest.nextInMs ?? 0) : 0);
  const spans: Span[] = [];
  // The window empties while nothing may start: the longer of the two counts.
  const takes = (binds: LimitDrain["binds"], fromNow: number, afterStop: number) =>
    spans.push({ binds, ms: stoppedMs === 0 ? fromNow : Math.max(fromNow, stoppedMs + afterStop) });
  const stops = (binds: LimitDrain["binds"]) =>
    spans.push({ binds, ms: undefined, why: "lets nothing start", stops: true });
  if (max === 0) stops("window");
  else if (max !== null && windowMs !== null) {
    const fill = (inUse: number) => (Math.max(0, weight - Math.max(0, max - inUse)) / max) * windowMs;
    const fromNow = fill(used);
    takes("window", fromNow === 0 ? 0 : Math.max(fromNow, next("window")), fill(stoppedMs < windowMs ? used : 0));
  }
  if (everyMs !== null) {
    const apart = Math.max(0, starts - 1) * everyMs;
    takes("spacing", apart + next("spacing"), apart);
  }
  if (concurrency === 0) stops("concurrency");
  else if (concurrency !== null) {
    // Jobs that find a free slot start at once.
    const queued = (running: number) => Math.min(1, Math.max(0, slots + running - concurrency) / slots);
    if (queued(held) > 0 && slotMs === undefined) spans.push(NONE_RAN);
    else {
      const turn = (slotMs ?? 0) / concurrency;
      takes("concurrency", turn * queued(held), turn * queued(0));
    }
  }
  return spans;
}

/** How many jobs wait for each value is not counted: known is only what holds even if all of them have the same. */
function spansByKeys(state: LimitState, types: readonly TypeBacklog[], by: readonly string[], factor: number): Span[] {
  const { rule, states } = state;
  const spans = spansOf(rule.quota, state, demandOf({ ...rule, byGroup: false }, types, factor));
  const fits = spans.every(({ ms }) => ms === 0) && states.every(({ reason }) => reason === null);
  if (fits || spans.some(({ stops }) => stops === true)) return spans;
  const why = `is by ${by.join(", ")}, and how many jobs wait for each is not counted`;
  return [{ binds: undefined, ms: undefined, why }];
}

/** For how long nothing starts under a limit, whatever its numbers are. */
function stopOf({ rule, states }: LimitState, state: GroupState | undefined): number {
  if (!rule.byGroup) return state === undefined || NUMBERS.has(state.reason) ? 0 : (state.nextInMs ?? 0);
  // A hold of all groups is part of the state of each; a hold of one group says nothing about the others.
  return rule.heldUntil === undefined || states.length === 0 ? 0 : Math.min(...states.map((one) => one.heldForMs));
}

const NONE_RAN: Span = {
  binds: "concurrency",
  ms: undefined,
  why: "depends on how long jobs run, and none of some type has completed yet",
};

/** The reasons that come from the numbers of the limit. */
const NUMBERS: ReadonlySet<Reason | null> = /* @__PURE__ */ new Set([
  null,
  "window",
  "spacing",
  "concurrency",
] as const);

function textOf(
  explained: Pick<QueueExplanation, "waiting" | "bottleneck" | "drainsInMs" | "atLeastMs" | "unknown">,
): string {
  const { waiting, bottleneck, drainsInMs, atLeastMs, unknown } = explained;
  if (waiting === 0) return "Nothing waits.";
  const wait = waiting === 1 ? "1 job waits" : `${waiting} jobs wait`;
  if (drainsInMs === undefined) {
    const least = atLeastMs > 0 ? ` It takes ${roughText(atLeastMs)} at the least.` : "";
    return `${wait}, and it is not known for how long: ${unknown.join(" ")}${least}`;
  }
  if (drainsInMs === 0) return `${wait}, and no limit blocks: the workers decide how long it takes.`;
  return `${wait}. With enough workers the last starts in about ${roughText(drainsInMs)}; ${bottleneck} is the bottleneck.`;
}
