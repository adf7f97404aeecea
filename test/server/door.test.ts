import { expect, it } from "vitest";
import * as root from "../../src/index.ts";
import * as server from "../../src/server/index.ts";

it("sluice exports all that sluice/server does, and the same", () => {
  expect(Object.keys(server).toSorted()).toEqual(["Job", "JobHandle", "JobQueueClient", "JobQueueServer"]);
  expect({ ...root }).toMatchObject({ ...server });
});
