import type { KeyCharge } from "../../../planner/claim-limits.ts";
import type { Step } from "../step.ts";
import type { SqliteLimitState } from "./limit-state.ts";
import { holdMany } from "./holds.ts";
import type { SqliteKey } from "./keys.ts";
import { type Taken, textOfTaken } from "./taken.ts";

/** What is held of one limit, of one size: by the tokens of the starts. */
interface Holding {
  readonly id: number;
  readonly slots: number;
  readonly tokens: number[];
}

/**
 * Counts starts under all of their limits: what each of them charges, and the token of the first; the others follow. Answers
 * with what is kept of that with each job; null: nothing.
 */
export function takeLimits(
  step: Step,
  starts: readonly (readonly KeyCharge[])[],
  first: number,
  ttlMs: number | undefined,
): (string | null)[] {
  const granting = ttlMs === undefined ? undefined : { number: first, ttlMs };
  const ids = new Map<SqliteLimitState, number>();
  const holding = new Map<SqliteKey, Holding[]>();
  const texts: (string | null)[] = [];
  for (const [i, charges] of starts.entries()) {
    for (const { key, charge } of charges) {
      const { limitState, holds, pins } = key as SqliteKey;
      let id = ids.get(limitState);
      if (id === undefined) ids.set(limitState, (id = limitState.save(granting)));
      if (holds || pins) hold(holding, key as SqliteKey, id, holds ? charge.slots : 0, first + i);
    }
    // Almost always it is the same as for the one before.
    const same = i > 0 && areSame(charges, starts[i - 1]!);
    texts.push(same ? texts[i - 1]! : textOf(charges, ids));
  }
  for (const own of holding.values()) {
    for (const { id, slots, tokens } of own) holdMany(step, id, slots, tokens);
  }
  return texts;
}

function hold(holding: Map<SqliteKey, Holding[]>, key: SqliteKey, id: number, slots: number, token: number): void {
  let own = holding.get(key);
  if (own === undefined) holding.set(key, (own = []));
  const alike = own.find((one) => one.slots === slots);
  if (alike === undefined) own.push({ id, slots, tokens: [token] });
  else alike.tokens.push(token);
}

function areSame(a: readonly KeyCharge[], b: readonly KeyCharge[]): boolean {
  if (a === b) return true;
  return (
    a.length === b.length && a.every(({ key, charge }, i) => key === b[i]!.key && charge.weight === b[i]!.charge.weight)
  );
}

/** Of limits that share a name the start counts once, for the most that any of them says. */
function textOf(charges: readonly KeyCharge[], ids: ReadonlyMap<SqliteLimitState, number>): string | null {
  const taken = new Map<SqliteLimitState, Taken>();
  for (const { key, charge } of charges) {
    const { limitState } = key as SqliteKey;
    const weight = Math.max(charge.weight, taken.get(limitState)?.weight ?? 0);
    taken.set(limitState, { limit: ids.get(limitState)!, entry: limitState.entry, at: null, weight, spent: 0 });
  }
  return taken.size === 0 ? null : textOfTaken([...taken.values()]);
}
