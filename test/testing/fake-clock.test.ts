import { expect, it } from "vitest";
import { FakeClock } from "../../src/testing/index.ts";

it("advances that are too short for a wall time add up on the wall clock", async () => {
  const clock = new FakeClock();
  const before = clock.wall();
  for (let i = 0; i < 10_000; i++) await clock.advance(0.000_1);
  expect(clock.wall() - before).toBeCloseTo(1, 2);
});

it("a step of the wall clock leaves the monotonic clock alone", async () => {
  const clock = new FakeClock(1_000);
  await clock.advance(50);
  clock.stepWall(-700);
  await clock.advance(5);
  expect([clock.now(), clock.wall()]).toEqual([55, 355]);
});
