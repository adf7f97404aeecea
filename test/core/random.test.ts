import { expect, it } from "vitest";
import { newId } from "../../src/core/random.ts";

it("ids are UUIDs of version 7, all different, and sort by the time they were made", () => {
  const names = Array.from({ length: 10_000 }, (_, i) => newId(1_700_000_000_000 + i));
  expect(new Set(names).size).toBe(names.length);
  expect(names.toSorted()).toEqual(names);
  for (const name of names)
    expect(name).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(Number.parseInt(names[0]!.replaceAll("-", "").slice(0, 12), 16)).toBe(1_700_000_000_000);
});
