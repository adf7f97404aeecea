import { OptionsError } from "../core/errors.ts";
import { type Inside, insideOfParts } from "./composition.ts";
import { ForeignPart, OwnLimiterPart, SixMethodPart } from "./foreign.ts";
import { DECIDING, type ILimiter, isLimiter, lacking, type Limiter } from "./limiter.ts";
import type { Line } from "./line.ts";
import { remoteTurns } from "./remote-turns.ts";
import type { AnyPart } from "./taking.ts";

/** A built-in class, and so the methods that its instances have unless they are overridden. */
export interface BuiltIn {
  readonly prototype: Limiter;
}

interface MadeByUs extends Inside {
  readonly builtIn: BuiltIn;
}

/** Kept beside the limiters and not in them: their types stay as small as their documentation. */
const builtIns = new WeakMap<ILimiter, MadeByUs>();
/** Limiters of the user's own, and built-in ones with methods of the user's own. */
const foreigners = new WeakMap<ILimiter, Inside>();

/** A built-in limiter says what it is made of, and of which class. The answer is the line in which one waits for it. */
export function declare(limiter: ILimiter, parts: () => readonly AnyPart[], builtIn: BuiltIn): Line {
  const inside = insideOfParts(parts, remoteTurns);
  builtIns.set(limiter, { ...inside, builtIn });
  return inside.line;
}

/**
 * The limiter, if `tryAcquire()` is what it is asked by; undefined: the six methods are. A subclass of a built-in limiter that
 * overrides one of the methods that decide is asked by these, for the `tryAcquire()` of its class would pass them by; unless it
 * overrides that one, too. A method that was assigned to an instance counts as overridden. An overridden `acquire()` alone changes
 * nothing: it is how one waits, and `tryAcquire()` is what decides.
 */
export function takesAtOnce(limiter: ILimiter): Limiter | undefined {
  if (!isLimiter(limiter)) return undefined;
  const overridden = overridesOf(limiter, "tryAcquire", ...DECIDING);
  return overridden.length === 0 || overridden.includes("tryAcquire") ? limiter : undefined;
}

/** Those of these methods that are not the ones of its built-in class. Of a limiter that is not ours: none. */
export function overridesOf<Method extends keyof Limiter>(limiter: ILimiter, ...methods: readonly Method[]): Method[] {
  const prototype = builtIns.get(limiter)?.builtIn.prototype;
  return methods.filter((method) => prototype !== undefined && (limiter as Limiter)[method] !== prototype[method]);
}

export function partsOf(limiter: ILimiter): readonly AnyPart[] {
  return insideOf(limiter).parts();
}

/** The same, and what lies beneath the methods of the user's own. */
export function allPartsOf(limiter: ILimiter): readonly AnyPart[] {
  return partsOf(limiter).flatMap(withBeneath);
}

function withBeneath(part: AnyPart): readonly AnyPart[] {
  return part instanceof ForeignPart ? [part, ...part.beneath().flatMap(withBeneath)] : [part];
}

/** Checks that `value` is a limiter of any kind. */
export function readLimiter(owner: string, option: string, value: unknown): ILimiter {
  const missing = lacking(value);
  if (missing !== undefined) {
    throw new OptionsError(owner, option, value, "a limiter", `it has no method ${missing}()`);
  }
  return value as ILimiter;
}

/** What a limiter of any kind is made of; one and the same however often it is asked for. */
export function insideOf(limiter: ILimiter): Inside {
  const ours = builtIns.get(limiter);
  if (ours !== undefined && overridesOf(limiter, "tryAcquire", ...DECIDING).length === 0) return ours;
  let found = foreigners.get(limiter);
  if (found === undefined) {
    const own = takesAtOnce(limiter);
    const part = own ? new OwnLimiterPart(own, ours?.parts) : new SixMethodPart(limiter, ours?.parts);
    const parts = [part];
    found = insideOfParts(() => parts, remoteTurns);
    foreigners.set(limiter, found);
  }
  return found;
}
