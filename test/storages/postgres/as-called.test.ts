import { describe } from "vitest";
import { asCalledTest } from "../as-called.ts";
import { emptyStorages } from "./support.ts";

describe("starts between their grant and their call", () => {
  asCalledTest("PostgresStorage", emptyStorages(), 12);
});
