import fc from "fast-check";
import { it } from "vitest";
import type { OpenedStorage } from "../../src/testing/index.ts";
import { commands } from "./model-commands.ts";
import { Model } from "./model-state.ts";

/** Does a storage answer as the model does, whatever is done to it? A failure prints the shortest way to it, and its seed. */
export function modelTest(name: string, open: () => Promise<OpenedStorage>, numRuns: number, seed?: number): void {
  it(`${name} answers as the model does (${numRuns} random lives)`, { timeout: 120_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.noBias(commands(100)), async (life) => {
        const { storage, clock, close } = await open();
        try {
          await storage.setup();
          await fc.asyncModelRun(() => ({ model: new Model(clock.wall()), real: { storage, clock } }), life);
        } finally {
          await storage.close();
          await close?.();
        }
      }),
      // What fails is told before the test is out of time, as short as it has become until then.
      { numRuns, interruptAfterTimeLimit: 100_000, markInterruptAsFailure: true, ...(seed !== undefined && { seed }) },
    );
  });
}
