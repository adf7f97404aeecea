import type { Ledger } from "../../../limits/ledger.ts";
import type { LimitRule } from "../../../limits/rule.ts";
import { freeOf, type Tally } from "./tally.ts";

/** How much there was of a limit before anything was given back. */
interface Before {
  readonly rule: LimitRule;
  readonly free: number;
}

/** What a step gave back. What counts is what is left of it when the step is over: it may have been taken again. */
export class Freed {
  readonly #before = new Map<Tally, Before>();
  #ledgers = new Set<Ledger>();
  #news = false;

  /** Was anything noted? */
  get any(): boolean {
    return this.#news || this.#before.size > 0;
  }

  /** Something of this is about to be given back. */
  note(tally: Tally, rule: LimitRule, time: number): void {
    if (this.#before.has(tally)) return;
    this.#before.set(tally, { rule, free: freeOf(tally, rule, tally.group, time) });
    if (tally.ledger !== undefined) this.#ledgers.add(tally.ledger);
  }

  /** Whoever waits for room there is to hear of it. */
  noteLedger(ledger: Ledger): void {
    this.#ledgers.add(ledger);
  }

  /** A rule lets something start that it did not before, or may do so. */
  noteRule(): void {
    this.#news = true;
  }

  /** The logs that had something given back. Whoever waits for room there has not heard of it yet. */
  ledgers(): Iterable<Ledger> {
    const ledgers = this.#ledgers;
    if (ledgers.size > 0) this.#ledgers = new Set();
    return ledgers;
  }

  /** Is there room now where there was none? For what is weighed: more room than there was. */
  isNews(inForce: (name: string) => LimitRule | undefined, time: number): boolean {
    let news = this.#news;
    this.#news = false;
    for (const [tally, { rule, free }] of this.#before) {
      if (news) break;
      const now = inForce(tally.name) ?? rule;
      const after = freeOf(tally, now, tally.group, time);
      news = after > 0 && (free === 0 || (now.weight !== null && after > free));
    }
    this.#before.clear();
    return news;
  }
}
