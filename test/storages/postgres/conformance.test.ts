import { describe, test } from "vitest";
import { storageSuite } from "../../../src/testing/index.ts";
import { emptyStorages } from "./support.ts";

describe("PostgresStorage", () => {
  for (const { name, run } of storageSuite(emptyStorages())) test(name, run);
});
