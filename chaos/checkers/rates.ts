import { type Digest, takenBack } from "../history/digest.ts";
import { Finding, round, type Verdict } from "./verdict.ts";

/** So many in any window. */
export interface Rate {
  readonly limiter: string;
  readonly max: number;
  readonly windowMs: number;
}

/** Instants are floating-point numbers of milliseconds since 1970: a quarter of a microsecond is as fine as they go. */
const EPSILON_MS = 0.001;

/**
 * When handlers, holders of permits and wrapped functions were called under a limit: what the first statement of each read from
 * the monotonic clock, which all processes of a host share.
 */
export function callsOf(history: Digest, limiter: string): number[] {
  const runs = history.runs.filter(({ under }) => under.includes(limiter)).map(({ from }) => from);
  const others = history.calls.filter(({ under }) => under.includes(limiter)).map(({ hr }) => hr);
  return [...runs, ...others].toSorted((a, b) => a - b);
}

/** When jobs started under the limits of their claims, by the clock of the storage. What was taken back does not count. */
function grantsOf(history: Digest, limiter: string): number[] {
  const undone = takenBack(history);
  return history.claims
    .filter(({ limits, token }) => limits.includes(limiter) && !undone.has(token))
    .map(({ grantMs }) => grantMs)
    .toSorted((a, b) => a - b);
}

/** I5, rate: in any window at most so many calls, by the stamps of the called functions. There is no tolerance. */
export function rate(history: Digest, limit: Rate): Verdict {
  const found = new Finding("I5", "windows");
  const { closest, most } = windows(found, callsOf(history, limit.limiter), limit, { of: "calls", slack: 0 });
  const { limiter, max, windowMs } = limit;
  if (most > 0) {
    found.note = `${limiter}: at most ${most} of ${max} calls in a window, ${max}+1 never closer than ${round(closest)} of ${windowMs} ms`;
  }
  return found.verdict;
}

/** I5 once more: in any window at most so many grants to jobs, by the clock of the storage. */
export function granted(history: Digest, limit: Rate): Verdict {
  const found = new Finding("I5", "windows");
  windows(found, grantsOf(history, limit.limiter), limit, { of: "grants", slack: EPSILON_MS });
  return found.verdict;
}

/**
 * I6, outside rate: the same at the service that is called. The service's window is shorter than ours by `guardMs`: by so much
 * the way of one call may take longer than that of another. A call that was longer on its way is beyond any guard: windows
 * that it is part of are counted apart.
 */
export function outsideRate(history: Digest, limit: Rate & { readonly guardMs: number }): Verdict {
  const { limiter, max, windowMs, guardMs } = limit;
  const found = new Finding("I6", "windows");
  const called = new Map(history.runs.map(({ job, token, from }) => [`${job} ${token}`, from]));
  const arrivals = history.arrivals.filter((arrival) => arrival.limiter === limiter).toSorted((a, b) => a.hr - b.hr);
  // How many late calls lie before each arrival.
  const late = [0];
  for (const { job, token, hr } of arrivals) {
    const from = called.get(`${job} ${token}`);
    found.check(
      from !== undefined,
      () => `${limiter}: job ${job} called with token ${token}, and no handler of it ran`,
    );
    late.push(late.at(-1)! + (from === undefined || hr - from > guardMs ? 1 : 0));
  }
  found.n = 0;
  let apartLeast = Number.POSITIVE_INFINITY;
  let heldUp = 0;
  for (let i = 0; i + max < arrivals.length; i++) {
    const apart = arrivals[i + max]!.hr - arrivals[i]!.hr;
    if (apart < windowMs && late[i + max + 1]! > late[i]!) {
      heldUp += 1;
      continue;
    }
    apartLeast = Math.min(apartLeast, apart);
    found.check(apart >= windowMs, () => `${limiter}: ${max + 1} calls in ${round(apart)} ms, ${windowMs} ms needed`);
  }
  found.note = `${max}+1 calls never closer than ${round(apartLeast)} of ${windowMs} ms; ${late.at(-1)} calls on their way for longer than the guard (${heldUp} windows)`;
  return found.verdict;
}

/** How close N+1 of them ever came, and how many of them the fullest window has. */
function windows(
  found: Finding,
  at: readonly number[],
  { limiter, max, windowMs }: Rate,
  { of, slack }: { readonly of: string; readonly slack: number },
): { closest: number; most: number } {
  let closest = Number.POSITIVE_INFINITY;
  for (let i = 0; i + max < at.length; i++) {
    const apart = at[i + max]! - at[i]!;
    closest = Math.min(closest, apart);
    found.check(
      apart >= windowMs - slack,
      () => `${limiter}: ${max + 1} ${of} in ${round(apart)} ms, ${windowMs} ms needed`,
    );
  }
  let most = 0;
  let oldest = 0;
  for (const [i, now] of at.entries()) {
    while (now - at[oldest]! >= windowMs) oldest += 1;
    most = Math.max(most, i - oldest + 1);
  }
  return { closest, most };
}

/**
 * I9, no waste: how much of the allowance was used from the first call to the last while there was always more to do. The
 * call after N others could have come exactly a window after the first of them: the rest of its delay is waste.
 */
export function use(history: Digest, { limiter, max, windowMs, least }: Rate & { readonly least: number }): Verdict {
  const found = new Finding("I9", "windows");
  const at = callsOf(history, limiter);
  const last = at.length - 1;
  const rounds = Math.floor(last / max);
  if (rounds < 1) {
    found.check(false, () => `${limiter}: only ${at.length} calls, not enough to tell`);
    return found.verdict;
  }
  const share = (rounds * windowMs) / (at[last]! - at[last - rounds * max]!);
  found.n = rounds - 1;
  found.check(share >= least, () => `${limiter}: ${percent(share)} of the allowance used, ${percent(least)} wanted`);
  found.note = `${limiter}: ${percent(share)} used`;
  return found.verdict;
}

/**
 * I9 for a part of the time: every so many windows' worth of calls was made in about as many windows. Counted by calls and not by
 * the clock: the calls of a window come together, and the ends of a stretch of time would decide how many it has.
 */
export function steady(
  history: Digest,
  { limiter, max, windowMs, windows: each, least, slackMs }: Rate & Stretch,
): Verdict {
  const found = new Finding("I9", "stretches");
  const at = callsOf(history, limiter);
  let slowest = Number.POSITIVE_INFINITY;
  for (let i = 0; i + each * max < at.length; i += each * max) {
    const took = at[i + each * max]! - at[i]!;
    slowest = Math.min(slowest, (each * windowMs) / took);
    found.check(
      each * windowMs >= least * (took - slackMs),
      () =>
        `${limiter}: ${each * max} calls took ${round(took)} ms, ${percent(least)} of ${max} in ${windowMs} ms wanted`,
    );
  }
  if (Number.isFinite(slowest)) found.note = `${limiter}: never less than ${percent(slowest)} in ${each} windows`;
  return found.verdict;
}

export interface Stretch {
  /** How many windows make one. */
  readonly windows: number;
  readonly least: number;
  /** How long the machine delayed all processes. */
  readonly slackMs: number;
}

const percent = (share: number): string => `${(share * 100).toFixed(2)} %`;
