/** What a checker found. */
export interface Verdict {
  readonly id: string;
  /** How many things it checked, and what they are. */
  readonly n: number;
  readonly of: string;
  readonly violations: readonly string[];
  /** A figure worth printing. */
  readonly note?: string;
}

/** Collects what one checker finds. */
export class Finding {
  readonly #id: string;
  readonly #of: string;
  readonly violations: string[] = [];
  n = 0;
  note: string | undefined;

  constructor(id: string, of: string) {
    this.#id = id;
    this.#of = of;
  }

  /** Checks one thing; the violation is only spelled out if there is one. */
  check(right: boolean, wrong: () => string): void {
    this.n += 1;
    if (!right) this.violations.push(wrong());
  }

  get verdict(): Verdict {
    const { n, violations, note } = this;
    return { id: this.#id, n, of: this.#of, violations, ...(note !== undefined && { note }) };
  }
}

/** Several findings under one id, as one. */
export function together(verdicts: readonly Verdict[]): Verdict[] {
  const byId = new Map<string, Verdict>();
  for (const verdict of verdicts) {
    const before = byId.get(verdict.id);
    if (before === undefined) {
      byId.set(verdict.id, verdict);
      continue;
    }
    const notes = [before.note, verdict.note].filter((note) => note !== undefined);
    byId.set(verdict.id, {
      ...before,
      n: before.n + verdict.n,
      violations: [...before.violations, ...verdict.violations],
      ...(notes.length > 0 && { note: notes.join("; ") }),
    });
  }
  return [...byId.values()];
}

export const round = (ms: number): number => Math.round(ms * 10) / 10;

/** A checker that checked nothing proves nothing: where a scenario needs it, that is a violation too. */
export function mustLook(verdict: Verdict): Verdict {
  return verdict.n > 0 ? verdict : { ...verdict, violations: [...verdict.violations, "it looked at nothing"] };
}
