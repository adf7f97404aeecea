import { systemClock } from "../core/clock.ts";
import { OptionsError } from "../core/errors.ts";
import type { Gate } from "./gate.ts";
import { DECIDING, type ILimiter, isLimiter, lacking, type Limiter } from "./limiter.ts";
import { Line } from "./line.ts";
import { ForeignPart, OwnLimiterPart, SixMethodPart } from "./foreign.ts";
import type { AnyPart, Member } from "./taking.ts";
import type { Composition } from "./waiter.ts";

/** What is known about a limiter that callers cannot see: what it is made of, and who waits for it. */
interface Inside {
  readonly parts: () => readonly AnyPart[];
  readonly line: Line;
}

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

/** Grows with every change of any composite; until then what a line is made of need not be looked at again. */
let changes = 0;

/** A built-in limiter says what it is made of, and of which class. The answer is the line in which one waits for it. */
export function declare(limiter: ILimiter, parts: () => readonly AnyPart[], builtIn: BuiltIn): Line {
  const line = new Line(composing(() => [parts()]));
  builtIns.set(limiter, { parts, line, builtIn });
  return line;
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

/** What a composite is made of has changed: every line that it is part of looks again. */
export function recompose(): void {
  changes += 1;
}

export function partsOf(limiter: ILimiter): readonly AnyPart[] {
  return inside(limiter).parts();
}

/** The same, and what lies beneath the methods of the user's own. */
export function allPartsOf(limiter: ILimiter): readonly AnyPart[] {
  return partsOf(limiter).flatMap(withBeneath);
}

function withBeneath(part: AnyPart): readonly AnyPart[] {
  return part instanceof ForeignPart ? [part, ...part.beneath().flatMap(withBeneath)] : [part];
}

/** The line in which one waits for this limiter; one and the same however often it is asked for. */
export function lineOf(limiter: ILimiter): Line {
  return inside(limiter).line;
}

/** A line for several limiters at once, each with a weight of its own. */
export function jointLine(owner: string, limiters: readonly ILimiter[]): Line {
  checkNames(owner, "limiter", limiters);
  return new Line(composing(() => limiters.map(partsOf)));
}

/** Checks that `value` is a limiter of any kind. */
export function readLimiter(owner: string, option: string, value: unknown): ILimiter {
  const missing = lacking(value);
  if (missing !== undefined) {
    throw new OptionsError(owner, option, value, "a limiter", `it has no method ${missing}()`);
  }
  return value as ILimiter;
}

/** A name counts starts or weights; both at once, in one composite, would be counted as one sum of the two. */
export function checkNames(owner: string, option: string, limiters: readonly ILimiter[]): void {
  const countedAs = new Map<object, AnyPart>();
  for (const part of limiters.flatMap(partsOf)) {
    const known = countedAs.get(part.ledger);
    if (known !== undefined && known.counts !== part.counts) {
      throw new OptionsError(
        owner,
        option,
        part.name,
        "counted in one way, by starts or by weight",
        "give the two limiters names of their own",
      );
    }
    countedAs.set(part.ledger, part);
  }
}

function inside(limiter: ILimiter): Inside {
  const ours = builtIns.get(limiter);
  if (ours !== undefined && overridesOf(limiter, "tryAcquire", ...DECIDING).length === 0) return ours;
  let found = foreigners.get(limiter);
  if (found === undefined) {
    const own = takesAtOnce(limiter);
    const part = own ? new OwnLimiterPart(own, ours?.parts) : new SixMethodPart(limiter, ours?.parts);
    const parts = [part];
    found = { parts: () => parts, line: new Line(composing(() => [parts])) };
    foreigners.set(limiter, found);
  }
  return found;
}

function composing(groups: () => readonly (readonly AnyPart[])[]): () => Composition {
  let known: Composition | undefined;
  let asOf = -1;
  return () => {
    if (known === undefined || asOf !== changes) {
      known = compose(groups());
      asOf = changes;
    }
    return known;
  };
}

function compose(groups: readonly (readonly AnyPart[])[]): Composition {
  // Parts that write the same starts in the same way take once, for the largest weight that any of them is asked for;
  // the same limiter twice is the plainest case of that.
  const members: Member[] = [];
  for (const [group, parts] of groups.entries()) {
    for (const part of parts) {
      const same = members.find((other) => other.part.ledger === part.ledger && other.part.counts === part.counts);
      const its = same?.groups ?? []; // one list for all of them: what is added for one counts for all
      if (!its.includes(group)) its.push(group);
      if (members.some((other) => other.part === part)) continue;
      const takes = same === undefined;
      const timed = takes && (part.kind === "gate" ? part.timed : part.kind === "remote");
      members.push({ part, groups: its, takes, timed });
    }
  }
  const gates = members.filter((member): member is Member<Gate> => member.part.kind === "gate");
  return {
    members,
    gates: gates.length === members.length ? gates : undefined,
    timed: members.some(({ timed }) => timed),
    clock: (gates[0] ?? members.find(({ part }) => part.clock !== systemClock))?.part.clock ?? systemClock,
  };
}
