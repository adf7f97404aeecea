import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type OtherGroup, type Position, positionOf } from "../../src/planner/position.ts";
import { byTurn } from "../../src/planner/turns.ts";
import { planUnder, type ToyJob, type ToyLane, ToyLanes } from "./support.ts";

/** The position of a job of these lanes, none of which is blocked. */
function positionIn(lanes: readonly ToyLane[], lane: ToyLane, job: ToyJob): Position {
  const waiting = lanes.filter(({ jobs }) => jobs.length > 0);
  const higher = waiting.filter(({ priority }) => priority > lane.priority);
  const equal = waiting.filter(({ priority }) => priority === lane.priority);
  const sum = (some: readonly ToyLane[]) => some.reduce((n, { jobs }) => n + jobs.length, 0);
  const isBefore = (other: ToyJob) => (other.dueAt - job.dueAt || other.seq - job.seq) < 0;
  const groups = Map.groupBy(
    equal.filter(({ group }) => group !== lane.group),
    ({ group }) => group,
  );
  return positionOf({
    higher: sum(higher),
    higherOfType: sum(higher.filter(({ type }) => type === lane.type)),
    own: equal
      .filter(({ group }) => group === lane.group)
      .map((one) => ({ turn: one.turn, id: one.id, before: one.jobs.filter(isBefore).length, isOwn: one === lane })),
    others: Array.from(groups.values(), (some): OtherGroup => {
      const { turn, id } = some.toSorted(byTurn)[0]!;
      return { turn, id, waiting: sum(some), isMixed: some.some(({ type }) => type !== lane.type) };
    }),
  });
}

const job = fc.record({
  type: fc.constantFrom("t", "u"),
  priority: fc.constantFrom(0, 1),
  group: fc.constantFrom(null, "a", "b", "c"),
  dueAt: fc.nat(5),
});

/** Lanes with these jobs in due order, `served` of which have started. */
function lanesWith(
  jobs: readonly { dueAt: number; type: string; priority: number; group: string | null }[],
  served: number,
) {
  const lanes = new ToyLanes();
  for (const [i, one] of jobs.toSorted((a, b) => a.dueAt - b.dueAt).entries()) lanes.add(`${i}`, one);
  planUnder(lanes, [], served);
  lanes.started.length = 0;
  return lanes;
}

describe("the position of a waiting job", () => {
  it("is the number of jobs that a plan for all types starts before it", () => {
    fc.assert(
      fc.property(fc.array(job, { maxLength: 25 }), fc.nat(10), (jobs, served) => {
        const lanes = lanesWith(jobs, served);
        const promised = new Map(
          lanes.lanes.flatMap((lane) =>
            lane.jobs.map((one) => {
              const { higher, group, turns } = positionIn(lanes.lanes, lane, one).ahead;
              return [one.id, higher + group + turns] as const;
            }),
          ),
        );
        planUnder(lanes, [], 100);
        expect(lanes.started.map(({ id }) => promised.get(id))).toEqual(lanes.started.map((_, i) => i));
      }),
    );
  });

  it("counts as certain no job of its type that a plan starts after it, whatever types are planned beside its own", () => {
    fc.assert(
      fc.property(fc.array(job, { maxLength: 25 }), fc.nat(10), fc.boolean(), (jobs, served, both) => {
        const lanes = lanesWith(jobs, served);
        const certain = new Map(
          lanes.lanes.flatMap((lane) =>
            lane.jobs.map((one) => [one.id, [lane.type, positionIn(lanes.lanes, lane, one).before.type] as const]),
          ),
        );
        planUnder(lanes, [], 100, both ? ["t", "u"] : ["t"]);
        const started = { t: 0, u: 0 };
        for (const { id } of lanes.started) {
          const [type, before] = certain.get(id)!;
          expect(started[type as "t" | "u"]).toBeGreaterThanOrEqual(before);
          started[type as "t" | "u"] += 1;
        }
      }),
    );
  });

  it("is counted up to 10,000", () => {
    const { ahead, before } = positionOf({
      higher: 20_000,
      higherOfType: 20_000,
      own: [{ turn: 1, id: 1, before: 20_000, isOwn: true }],
      others: [{ turn: 0, id: 2, waiting: 50_000, isMixed: false }],
    });
    expect([ahead, before]).toEqual([
      { higher: 10_000, group: 10_000, lane: 10_000, turns: 10_000 },
      { lane: 10_000, type: 10_000 },
    ]);
  });

  it("is after all groups that were never served, where its own has no lane yet", () => {
    const others = [{ turn: 0, id: 9, waiting: 1, isMixed: false }];
    expect(positionOf({ higher: 0, higherOfType: 0, own: [], others }).ahead.turns).toBe(1);
  });
});
