import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { ClosingLine } from "./scripts/closing-line.ts";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: "test/storages/postgres/global-setup.ts",
    reporters: ["default", new ClosingLine()],
    // For what hangs alone: no test passes or fails by how long it takes, and a busy machine may take many times as long.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // Many tests wait for a server or for other processes: two at a time take little more than half as long, on two cores too.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    // A promise that nobody looks after is a defect, in the tests as in the product.
    dangerouslyIgnoreUnhandledErrors: false,
  },
});
