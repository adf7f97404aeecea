import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { ClosingLine } from "./scripts/closing-line.ts";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: "test/storages/postgres/global-setup.ts",
    reporters: ["default", new ClosingLine()],
    testTimeout: 30_000,
    // Many tests wait for a server or for other processes: two at a time take little more than half as long, on two cores too.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    // A promise that nobody looks after is a defect, in the tests as in the product.
    dangerouslyIgnoreUnhandledErrors: false,
  },
});
