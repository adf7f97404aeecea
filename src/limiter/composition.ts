import { systemClock } from "../core/clock.ts";
import { Line } from "./line.ts";
import type { MakeTurns } from "./remote-turns.ts";
import type { AnyPart, Member } from "./charging.ts";
import type { Composition } from "./waiter.ts";

/** The internals of a limiter: its parts, and the line of its waiters. */
export interface Internals<P extends AnyPart = AnyPart> {
  readonly parts: () => readonly P[];
  readonly line: Line;
}

/** Grows with every change of any composite. While it is unchanged, a line keeps its composition. */
let changes = 0;

/** The parts of a composite have changed: every line composes its members again. */
export function recompose(): void {
  changes += 1;
}

/** A limit with a line of its own. Without `turns` all of its parts are gates. */
export function internalsOfParts<P extends AnyPart>(parts: () => readonly P[], turns?: MakeTurns): Internals<P> {
  return { parts, line: lineOf([parts], turns) };
}

/** A line for several limits at once, each with a weight of its own. */
export function jointLine(limits: readonly Internals[]): Line {
  return lineOf(
    limits.map(({ parts }) => parts),
    limits.find(({ line }) => line.turns)?.line.turns,
  );
}

function lineOf(limits: readonly (() => readonly AnyPart[])[], turns: MakeTurns | undefined): Line {
  let known: Composition | undefined;
  let asOf = -1;
  return new Line(() => {
    if (known === undefined || asOf !== changes) {
      known = compose(limits.map((parts) => parts()));
      asOf = changes;
    }
    return known;
  }, turns);
}

function compose(groups: readonly (readonly AnyPart[])[]): Composition {
  // Parts that record the same starts in the same way are charged once, with the largest weight of any of them;
  // the same limiter twice is the simplest case.
  const members: Member[] = [];
  for (const [group, parts] of groups.entries()) {
    for (const part of parts) {
      const same = members.find((other) => other.part.state === part.state && other.part.counts === part.counts);
      const its = same?.groups ?? new Set(); // one set for all of them: what is added for one counts for all
      its.add(group);
      if (members.some((other) => other.part === part)) continue;
      const takes = same === undefined;
      members.push({ part, groups: its, takes, timed: takes && part.called !== undefined });
    }
  }
  const isGate = ({ part }: Member): boolean => part.kind === "gate";
  return {
    members,
    local: members.every(isGate),
    timed: members.some(({ timed }) => timed),
    clock: (members.find(isGate) ?? members.find(({ part }) => part.clock !== systemClock))?.part.clock ?? systemClock,
  } as Composition;
}
