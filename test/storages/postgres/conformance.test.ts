import { describe, test } from "vitest";
import { storageSuite } from "../../../src/testing/index.ts";
import { emptyStorages } from "./support.ts";

describe("PostgresStorage", () => {
  for (const { name, run } of storageSuite(emptyStorages(), { leaveOut: { keys: "lanes have no keys there yet" } }))
    test(name, run);
});
