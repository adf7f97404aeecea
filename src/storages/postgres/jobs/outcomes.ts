import type { ErrorRecord } from "../../../core/job.ts";
import type { Outcome } from "../../../storage/job-storage.ts";
import { storable } from "./text.ts";

/** Outcomes that all ended well, each for another job and with another token: these, by token, and results by id. */
interface Plain {
  readonly ids: readonly string[];
  readonly tokens: readonly number[];
  readonly results?: Readonly<Record<string, string>> | undefined;
}

/** Outcomes as the functions `settle` and `claim` take them, and what to make of their answer. */
export interface Outcomes {
  /** A list; what is common is said shortly. */
  readonly text: readonly object[] | Plain;
  /** The jobs whose lease was lost, by the numbers that the function answers with. */
  readonly stale: (numbers: readonly number[]) => string[];
}

/**
 * Of two outcomes for one lease the first holds; the other comes too late, whatever becomes of the first. Where the lease has run out
 * both come too late, and it counts if either says that the job was never started.
 */
export function outcomesOf(outcomes: readonly Outcome[]): Outcomes {
  const places: number[] = [];
  const late: number[] = [];
  const unspends = new Set<string>();
  const seen = new Set<string>();
  for (const [place, outcome] of outcomes.entries()) {
    const lease = leaseOf(outcome);
    const isLate = seen.has(lease);
    (isLate ? late : places).push(place);
    if (isLate && outcome.to === "back" && outcome.unstarted) unspends.add(lease);
    seen.add(lease);
  }
  const isPlain = unspends.size === 0 && arePlain(places.map((place) => outcomes[place]!));
  // In this order the server finds a token among them by binary search.
  if (isPlain) places.sort((a, b) => outcomes[a]!.token - outcomes[b]!.token);
  const firsts = places.map((place) => outcomes[place]!);
  return {
    text: isPlain ? plainly(firsts) : firsts.map((one, n) => outcomeOf(one, n, unspends.has(leaseOf(one)))),
    stale: (numbers) =>
      [...numbers.map((n) => places[n]!), ...late].toSorted((a, b) => a - b).map((place) => outcomes[place]!.id),
  };
}

const leaseOf = ({ id, token }: Outcome): string => `${token} ${id}`;

/** Nothing more is to be said of them than that they are done, and with what. */
function arePlain(outcomes: readonly Outcome[]): boolean {
  const ids = new Set(outcomes.map(({ id }) => id));
  const tokens = new Set(outcomes.map(({ token }) => token));
  const many = outcomes.length;
  return many > 0 && outcomes.every(({ to }) => to === "completed") && ids.size === many && tokens.size === many;
}

function plainly(outcomes: readonly Outcome[]): Plain {
  const results: [string, string][] = [];
  for (const outcome of outcomes) {
    if (outcome.to === "completed" && outcome.result !== null) results.push([outcome.id, outcome.result]);
  }
  return {
    ids: outcomes.map(({ id }) => id),
    tokens: outcomes.map(({ token }) => token),
    results: results.length > 0 ? Object.fromEntries(results) : undefined,
  };
}

/** One that ended well does not say so: almost all do. */
function outcomeOf(outcome: Outcome, n: number, unspends: boolean): object {
  const { id, token, to } = outcome;
  const unspend = unspends || undefined;
  if (to === "completed") return { n, id, token, unspend, result: outcome.result ?? undefined };
  const { error } = outcome;
  const of = { n, id, token, unspend, to, error: error === null ? undefined : JSON.stringify(error) };
  switch (to) {
    case "dead":
      return { ...of, kinds: kindsOf(outcome.error) };
    case "cancelled":
      return of;
    case "retry":
      return { ...of, in_ms: outcome.inMs, kinds: kindsOf(outcome.error) };
    case "back":
      break;
  }
  const { inMs, held, settled, hold, unstarted } = outcome;
  return { ...of, in_ms: inMs, held, settled, hold: hold ?? undefined, unstarted };
}

/** What a breaker knows an error by. */
function kindsOf({ name, code }: ErrorRecord): readonly string[] {
  return (code === undefined ? [name] : [name, code]).map(storable);
}
