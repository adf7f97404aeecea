import { defineConfig } from "vitest/config";
import { ClosingLine } from "./scripts/closing-line.ts";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: "test/storages/postgres/global-setup.ts",
    reporters: ["default", new ClosingLine()],
    testTimeout: 30_000,
    // A promise that nobody looks after is a defect, in the tests as in the product.
    dangerouslyIgnoreUnhandledErrors: false,
  },
});
