import { dateIn, systemClock } from "../core/clock.ts";
import { OptionsError } from "../core/errors.ts";
import { date, readArgument } from "../core/options.ts";
import type { ILimiter } from "./limiter.ts";
import { LineLimiter } from "./line-limiter.ts";
import { recompose } from "./composition.ts";
import { checkNames, overridesOf, partsOf, readLimiter } from "./parts.ts";
import type { LimiterPart } from "./charging.ts";

const OWNER = "CompositeLimiter";
const RECORDING = ["recordJobStart", "recordJobCompletion"] as const;

/**
 * Several limiters as one: a start needs all of them. They are asked in the order given, and a refusal or an error
 * spends nothing on any of them. Composites nest; the same limiter twice is one limit.
 */
export class CompositeLimiter extends LineLimiter {
  readonly #children: ILimiter[] = [];

  constructor(limiters: readonly ILimiter[] = []) {
    super(() => this.#parts(), CompositeLimiter);
    if (!Array.isArray(limiters)) throw new OptionsError(OWNER, "limiters", limiters, "an array of limiters");
    for (const [i, limiter] of limiters.entries()) this.#add(`limiters[${i}]`, limiter);
  }

  /** From now on a start needs this limiter too. Starts in flight keep, and return, what they charged. */
  addLimiter(limiter: ILimiter): void {
    this.#add("limiter", limiter);
  }

  async canProceed(): Promise<boolean> {
    for (const child of this.#children) if (!(await child.canProceed())) return false;
    return true;
  }

  async recordJobStart(): Promise<void> {
    await callAll(this.#writers(), (limiter) => limiter.recordJobStart());
  }

  async recordJobCompletion(): Promise<void> {
    await callAll(this.#writers(), (limiter) => limiter.recordJobCompletion());
  }

  /** The latest of all. */
  async getNextAvailableTime(): Promise<Date> {
    const dates = await Promise.all(this.#children.map((child) => child.getNextAvailableTime()));
    return dates.reduce((latest, next) => (next > latest ? next : latest), dateIn(systemClock, 0));
  }

  async setNextAvailableTime(at: Date): Promise<void> {
    const until = readArgument("setNextAvailableTime", "date", date, at);
    await callAll(this.#children, (child) => child.setNextAvailableTime(until));
  }

  async clear(): Promise<void> {
    const gates = this.#parts().filter((part) => part.kind === "gate");
    for (const gate of gates) gate.reset();
    // Limiters made of gates alone are reset already; the others are cleared by their own method.
    await callAll(
      this.#children.filter((child) => !CompositeLimiter.#clearsByReset(child)),
      (child) => child.clear(),
    );
    for (const gate of gates) gate.wakeUps.notify();
  }

  /** The parts of its children. `partsOf(this)` differs where a subclass overrides methods. */
  #parts(): readonly LimiterPart[] {
    return this.#children.flatMap(partsOf);
  }

  #add(option: string, value: ILimiter): void {
    const limiter = readLimiter(OWNER, option, value);
    if (limiter instanceof CompositeLimiter && limiter.#contains(this)) {
      throw new OptionsError(OWNER, option, value, "a limiter that does not contain this composite");
    }
    checkNames(OWNER, option, [...this.#children, limiter].flatMap(partsOf));
    this.#children.push(limiter);
    recompose();
  }

  #contains(other: CompositeLimiter): boolean {
    return (
      this === other || this.#children.some((child) => child instanceof CompositeLimiter && child.#contains(other))
    );
  }

  /** The limiters that record a start, however deep: each once, and one of those that record the same starts. */
  #writers(): readonly ILimiter[] {
    const seen = new Set<object>();
    return this.#leaves().filter((leaf) => {
      const own = partsOf(leaf).map(({ state }) => state);
      const known = own.length > 0 && own.every((state) => seen.has(state));
      for (const state of own) seen.add(state);
      return !known;
    });
  }

  /** Does `clear()` of this limiter, and of all that it is made of, do nothing but reset gates? */
  static #clearsByReset(limiter: ILimiter): boolean {
    if (overridesOf(limiter, "clear").length > 0 || partsOf(limiter).some(({ kind }) => kind !== "gate")) return false;
    if (!(limiter instanceof CompositeLimiter)) return true;
    return limiter.#children.every((child) => CompositeLimiter.#clearsByReset(child));
  }

  #leaves(): readonly ILimiter[] {
    return this.#children.flatMap((child) =>
      child instanceof CompositeLimiter && overridesOf(child, ...RECORDING).length === 0 ? child.#leaves() : [child],
    );
  }
}

/** Calls every limiter in order, whichever of them fail; then throws the first failure. */
async function callAll(limiters: readonly ILimiter[], call: (limiter: ILimiter) => Promise<void>): Promise<void> {
  let failure: { readonly error: unknown } | undefined;
  for (const limiter of limiters) {
    try {
      await call(limiter);
    } catch (error) {
      failure ??= { error };
    }
  }
  if (failure !== undefined) throw failure.error;
}
