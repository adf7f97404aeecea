import { OptionsError } from "../core/errors.ts";
import { type Internals, internalsOfParts } from "./composition.ts";
import { ForeignPart, OwnLimiterPart, SixMethodPart } from "./foreign.ts";
import { DECIDING, type ILimiter, isLimiter, lacking, type Limiter } from "./limiter.ts";
import type { Line } from "./line.ts";
import { remoteTurns } from "./remote-turns.ts";
import type { AnyPart, LimiterPart } from "./charging.ts";

/** A built-in class, and so the methods that its instances have unless they are overridden. */
export interface BuiltIn {
  readonly prototype: Limiter;
}

interface BuiltInInternals extends Internals<LimiterPart> {
  readonly builtIn: BuiltIn;
}

/** Kept beside the limiters and not in them, so that their public types stay small. */
const builtIns = new WeakMap<ILimiter, BuiltInInternals>();
/** Users' own limiters, and built-in ones with overridden methods. */
const userLimiters = new WeakMap<ILimiter, Internals<LimiterPart>>();

/** Registers the parts and the class of a built-in limiter. Returns the line of its waiters. */
export function declare(limiter: ILimiter, parts: () => readonly LimiterPart[], builtIn: BuiltIn): Line {
  const internals = internalsOfParts(parts, remoteTurns);
  builtIns.set(limiter, { ...internals, builtIn });
  return internals.line;
}

/**
 * The limiter, if its `tryAcquire()` decides; undefined: its six methods do. A subclass of a built-in limiter that
 * overrides one of the deciding methods is used by these, because the `tryAcquire()` of its class would bypass them; unless it
 * overrides that one too. A method that was assigned to an instance counts as overridden. An overridden `acquire()` alone changes
 * nothing: it only waits, and `tryAcquire()` decides.
 */
export function takesAtOnce(limiter: ILimiter): Limiter | undefined {
  if (!isLimiter(limiter)) return undefined;
  const overridden = overridesOf(limiter, "tryAcquire", ...DECIDING);
  return overridden.length === 0 || overridden.includes("tryAcquire") ? limiter : undefined;
}

/** The methods of these that override those of its built-in class. Of a user's own limiter: none. */
export function overridesOf<Method extends keyof Limiter>(limiter: ILimiter, ...methods: readonly Method[]): Method[] {
  const prototype = builtIns.get(limiter)?.builtIn.prototype;
  return methods.filter((method) => prototype !== undefined && (limiter as Limiter)[method] !== prototype[method]);
}

export function partsOf(limiter: ILimiter): readonly LimiterPart[] {
  return internalsOf(limiter).parts();
}

/** The same, with the built-in parts beneath overridden methods. */
export function allPartsOf(limiter: ILimiter): readonly LimiterPart[] {
  return partsOf(limiter).flatMap(withBeneath);
}

function withBeneath(part: LimiterPart): readonly LimiterPart[] {
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

/** A name counts starts or weights. Both in one composite would be added up. */
export function checkNames(owner: string, option: string, parts: readonly AnyPart[]): void {
  const countedAs = new Map<object, AnyPart>();
  for (const part of parts) {
    const known = countedAs.get(part.state);
    if (known !== undefined && known.counts !== part.counts) {
      throw new OptionsError(
        owner,
        option,
        part.name,
        "counted in one way, by starts or by weight",
        "give the two limiters names of their own",
      );
    }
    countedAs.set(part.state, part);
  }
}

/** The parts and the line of a limiter of any kind; the same object at every call. */
export function internalsOf(limiter: ILimiter): Internals<LimiterPart> {
  const ours = builtIns.get(limiter);
  if (ours !== undefined && overridesOf(limiter, "tryAcquire", ...DECIDING).length === 0) return ours;
  let found = userLimiters.get(limiter);
  if (found === undefined) {
    const own = takesAtOnce(limiter);
    const part = own ? new OwnLimiterPart(own, ours?.parts) : new SixMethodPart(limiter, ours?.parts);
    const parts = [part];
    found = internalsOfParts(() => parts, remoteTurns);
    userLimiters.set(limiter, found);
  }
  return found;
}
