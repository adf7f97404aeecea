import { systemClock } from "../core/clock.ts";
import { OptionsError } from "../core/errors.ts";
import type { Gate } from "./gate.ts";
import { type ILimiter, isLimiter, lacking } from "./limiter.ts";
import { Line } from "./line.ts";
import { OwnLimiterPart, SixMethodPart } from "./foreign.ts";
import type { AnyPart, Member } from "./taking.ts";
import type { Composition } from "./waiter.ts";

/** What is known about a limiter that callers cannot see: what it is made of, and who waits for it. */
interface Inside {
  readonly parts: () => readonly AnyPart[];
  readonly line: Line;
}

/** Kept beside the limiters and not in them: their types stay as small as their documentation. */
const insides = new WeakMap<ILimiter, Inside>();

/** Grows with every change of any composite; until then what a line is made of need not be looked at again. */
let changes = 0;

/** A built-in limiter says what it is made of. The answer is the line in which one waits for it. */
export function declare(limiter: ILimiter, parts: () => readonly AnyPart[]): Line {
  const line = new Line(composing(() => [parts()]));
  insides.set(limiter, { parts, line });
  return line;
}

/** What a composite is made of has changed: every line that it is part of looks again. */
export function recompose(): void {
  changes += 1;
}

export function partsOf(limiter: ILimiter): readonly AnyPart[] {
  return inside(limiter).parts();
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
  let found = insides.get(limiter);
  if (found === undefined) {
    const part = isLimiter(limiter) ? new OwnLimiterPart(limiter) : new SixMethodPart(limiter);
    const parts = [part];
    declare(limiter, () => parts);
    found = insides.get(limiter)!;
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
