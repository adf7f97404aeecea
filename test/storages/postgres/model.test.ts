import { describe } from "vitest";
import { limitsModelTest } from "../model-limits.ts";
import { modelTest } from "../model.ts";
import { emptyStorages } from "./support.ts";

describe("PostgresStorage", () => {
  const open = emptyStorages();
  modelTest("PostgresStorage", open, 10);
  limitsModelTest("PostgresStorage", open, 5, { keys: true });
});
