import type { JobKeys } from "../../core/job.ts";
import type { Random } from "../../core/random.ts";
import { exponential, lognormal, seeded } from "./chance.ts";
import { onGrid } from "./clock.ts";
import type { Arrival, Values, Work } from "./plan.ts";

/**
 * All jobs in the order in which they come. Every kind of work has a chance of its own, so that more of one changes nothing
 * about the others.
 */
export class Arrivals {
  readonly #next: { arrival: Arrival; readonly rest: Iterator<Arrival, undefined> }[] = [];

  constructor(work: readonly Work[], seed: number) {
    for (const [i, one] of work.entries()) {
      const rest = arrivalsOf(one, seeded(seed * 1_000_003 + i));
      const { value } = rest.next();
      if (value !== undefined) this.#next.push({ arrival: value, rest });
    }
  }

  /** When the next comes; Infinity: none does. */
  get nextAt(): number {
    return this.#first()?.arrival.at ?? Number.POSITIVE_INFINITY;
  }

  take(): Arrival | undefined {
    const first = this.#first();
    if (first === undefined) return undefined;
    const { arrival, rest } = first;
    const { value } = rest.next();
    if (value === undefined) this.#next.splice(this.#next.indexOf(first), 1);
    else first.arrival = value;
    return arrival;
  }

  /** No more come. */
  end(): void {
    this.#next.length = 0;
  }

  #first() {
    let first = this.#next[0];
    for (const one of this.#next) if (one.arrival.at < first!.arrival.at) first = one;
    return first;
  }
}

function* arrivalsOf(work: Work, random: Random): Generator<Arrival, undefined> {
  const { jobs, burst, everyMs, arrivals, fromMs } = work;
  const many = jobs ?? (everyMs === null ? burst : Number.POSITIVE_INFINITY);
  let at = fromMs;
  for (let i = 0; i < many; i++) {
    if (everyMs !== null && i >= burst) {
      if (arrivals === "poisson") at += exponential(random, everyMs);
      // Counted from the first of them, so that nothing adds up.
      else at = fromMs + (i - burst + (burst > 0 ? 1 : 0)) * everyMs;
    }
    yield {
      at: onGrid(at),
      work,
      group: work.groups === null ? null : valueIn(work.groups, i, random),
      durationMs: onGrid(lognormal(random, work.durationMs, work.spread)),
      weights: weightsOf(work, random),
      keys: keysOf(work, i, random),
    };
  }
  return undefined;
}

function valueIn({ shares, byTurns }: Values, i: number, random: Random): string {
  if (byTurns) return shares[i % shares.length]![0];
  let left = random() * shares.reduce((sum, [, share]) => sum + share, 0);
  return shares.find(([, share]) => (left -= share) < 0)?.[0] ?? shares.at(-1)![0];
}

/** Several keys by turns go through all combinations of their values. */
function keysOf({ keys }: Work, i: number, random: Random): JobKeys | undefined {
  let turn = i;
  const drawn = Object.entries(keys).map(([name, values]): [string, string] => {
    const value = valueIn(values, turn, random);
    if (values.byTurns) turn = Math.floor(turn / values.shares.length);
    return [name, value];
  });
  return drawn.length === 0 ? undefined : Object.fromEntries(drawn);
}

function weightsOf({ weights }: Work, random: Random): Readonly<Record<string, number>> | null {
  const names = Object.keys(weights);
  if (names.length === 0) return null;
  const drawn: Record<string, number> = {};
  for (const name of names) {
    const [least, most] = weights[name]!;
    drawn[name] = least + Math.floor(random() * (most - least + 1));
  }
  return drawn;
}
