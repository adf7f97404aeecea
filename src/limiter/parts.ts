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
  /** The parts, or the limiters of which they are to be had. */
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
export function jointLine(limiters: readonly ILimiter[]): Line {
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
  // The same limiter twice is one limit: it is asked once and taken once, for the larger weight.
  const groupsOf = new Map<AnyPart, number[]>();
  for (const [group, parts] of groups.entries()) {
    for (const part of parts) {
      const known = groupsOf.get(part);
      if (known === undefined) groupsOf.set(part, [group]);
      else if (!known.includes(group)) known.push(group);
    }
  }
  const members: Member[] = [];
  for (const [part, its] of groupsOf) {
    const takes = !members.some((other) => writesTheSame(other, part, its));
    members.push({ part, groups: its, takes, timed: takes && part.kind === "gate" && part.timed });
  }
  const gates = members.filter((member): member is Member<Gate> => member.part.kind === "gate");
  return {
    members,
    gates: gates.length === members.length ? gates : undefined,
    timed: gates.some(({ timed }) => timed),
    clock: (gates[0] ?? members[0])?.part.clock ?? systemClock,
  };
}

/** Does `other` write just what `part` would: the same starts, for the same weights, counted the same way? */
function writesTheSame(other: Member, part: AnyPart, groups: readonly number[]): boolean {
  return (
    other.part.ledger === part.ledger &&
    other.part.counts === part.counts &&
    other.groups.length === groups.length &&
    other.groups.every((group) => groups.includes(group))
  );
}
