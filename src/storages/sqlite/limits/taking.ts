import type { Use } from "../../../storage/under-limits.ts";
import type { Step } from "../step.ts";
import type { Account } from "./account.ts";
import { holdMany } from "./holds.ts";
import type { SqliteMeter } from "./meter.ts";
import { type Taken, textOfTaken } from "./taken.ts";

/** What is held of one limit, of one size: by the tokens of the starts. */
interface Holding {
  readonly id: number;
  readonly slots: number;
  readonly tokens: number[];
}

/**
 * Counts starts under all of their limits: what each of them uses, and the token of the first; the others follow. Answers
 * with what is kept of that with each job; null: nothing.
 */
export function takeLimits(
  step: Step,
  starts: readonly (readonly Use[])[],
  first: number,
  ttlMs: number | undefined,
): (string | null)[] {
  const granting = ttlMs === undefined ? undefined : { number: first, ttlMs };
  const ids = new Map<Account, number>();
  const holding = new Map<SqliteMeter, Holding[]>();
  const texts: (string | null)[] = [];
  for (const [i, uses] of starts.entries()) {
    for (const { meter, charge } of uses) {
      const { account, holds, pins } = meter as SqliteMeter;
      let id = ids.get(account);
      if (id === undefined) ids.set(account, (id = account.save(granting)));
      if (holds || pins) hold(holding, meter as SqliteMeter, id, holds ? charge.slots : 0, first + i);
    }
    // Almost always it is the same as for the one before.
    const same = i > 0 && areSame(uses, starts[i - 1]!);
    texts.push(same ? texts[i - 1]! : textOf(uses, ids));
  }
  for (const own of holding.values()) {
    for (const { id, slots, tokens } of own) holdMany(step, id, slots, tokens);
  }
  return texts;
}

function hold(
  holding: Map<SqliteMeter, Holding[]>,
  meter: SqliteMeter,
  id: number,
  slots: number,
  token: number,
): void {
  let own = holding.get(meter);
  if (own === undefined) holding.set(meter, (own = []));
  const alike = own.find((one) => one.slots === slots);
  if (alike === undefined) own.push({ id, slots, tokens: [token] });
  else alike.tokens.push(token);
}

function areSame(a: readonly Use[], b: readonly Use[]): boolean {
  if (a === b) return true;
  return (
    a.length === b.length &&
    a.every(({ meter, charge }, i) => meter === b[i]!.meter && charge.weight === b[i]!.charge.weight)
  );
}

/** Of limits that share a name the start counts once, for the most that any of them says. */
function textOf(uses: readonly Use[], ids: ReadonlyMap<Account, number>): string | null {
  const taken = new Map<Account, Taken>();
  for (const { meter, charge } of uses) {
    const { account } = meter as SqliteMeter;
    const weight = Math.max(charge.weight, taken.get(account)?.weight ?? 0);
    taken.set(account, { limit: ids.get(account)!, entry: account.entry, at: null, weight, spent: 0 });
  }
  return taken.size === 0 ? null : textOfTaken([...taken.values()]);
}
