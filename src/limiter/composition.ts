import { systemClock } from "../core/clock.ts";
import { OptionsError } from "../core/errors.ts";
import type { Gate } from "./gate.ts";
import { Line } from "./line.ts";
import type { MakeTurns } from "./remote-turns.ts";
import type { AnyPart, Member } from "./charging.ts";
import type { Composition } from "./waiter.ts";

/** The internals of a limiter: its parts, and the line of its waiters. */
export interface Inside {
  readonly parts: () => readonly AnyPart[];
  readonly line: Line;
}

/** Grows with every change of any composite. While it is unchanged, a line keeps its composition. */
let changes = 0;

/** The parts of a composite have changed: every line composes its members again. */
export function recompose(): void {
  changes += 1;
}

/** A limit with a line of its own. Without `turns` all of its parts are gates. */
export function insideOfParts(parts: () => readonly AnyPart[], turns?: MakeTurns): Inside {
  return {
    parts,
    line: new Line(
      composing(() => [parts()]),
      turns,
    ),
  };
}

/** A limit of one gate that belongs to no other limit. */
export function insideOfGate(gate: Gate): Inside {
  const parts = [gate];
  return insideOfParts(() => parts);
}

/** A line for several limits at once, each with a weight of its own. */
export function jointLine(owner: string, limits: readonly Inside[]): Line {
  const groups = () => limits.map(({ parts }) => parts());
  checkNames(owner, "limiter", groups().flat());
  return new Line(composing(groups), limits.find(({ line }) => line.turns !== undefined)?.line.turns);
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
  // Parts that record the same starts in the same way are charged once, with the largest weight of any of them;
  // the same limiter twice is the simplest case.
  const members: Member[] = [];
  for (const [group, parts] of groups.entries()) {
    for (const part of parts) {
      const same = members.find((other) => other.part.state === part.state && other.part.counts === part.counts);
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
