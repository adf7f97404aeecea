import { describe, test } from "vitest";
import { storageSuite } from "../../../src/testing/index.ts";
import { emptyStorages } from "./support.ts";

describe("PostgresStorage with planned claims", () => {
  const leaveOut = { keys: "lanes have no keys there yet" };
  for (const { name, run } of storageSuite(emptyStorages({ claims: "take" }), { leaveOut })) test(name, run);
});
