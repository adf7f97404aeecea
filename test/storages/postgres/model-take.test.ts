import { describe } from "vitest";
import { limitsModelTest } from "../model-limits.ts";
import { modelTest } from "../model.ts";
import { emptyStorages } from "./support.ts";

describe("PostgresStorage with planned claims", () => {
  const open = emptyStorages({ claims: "take" });
  modelTest("PostgresStorage", open, 10);
  limitsModelTest("PostgresStorage", open, 5);
});
