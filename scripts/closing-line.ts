import type { Reporter, TestModule } from "vitest/node";

/** Closes the output of the tests with one plain line: `N passed, M failed`. */
export class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const counts = { passed: 0, failed: errors.length, skipped: 0, pending: 0 };
    for (const module of modules) {
      for (const test of module.children.allTests()) counts[test.result().state] += 1;
      // A file that could not even be loaded has no tests to fail.
      if (module.state() === "failed" && [...module.children.allTests("failed")].length === 0) counts.failed += 1;
    }
    const skipped = counts.skipped + counts.pending;
    console.log(`${counts.passed} passed, ${counts.failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`);
  }
}
