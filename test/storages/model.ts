import fc from "fast-check";
import { it } from "vitest";
import type { OpenedStorage } from "../../src/testing/index.ts";
import { commands } from "./model-commands.ts";
import { Model } from "./model-state.ts";

/** `SLUICE_LIVES=50 SLUICE_SEED=7 vitest run …` plays fifty times as many, from another beginning. */
const MORE = Number(process.env["SLUICE_LIVES"] ?? 1);
const SEED = Number(process.env["SLUICE_SEED"] ?? 20_300_101);

/** Does a storage answer as the model does, whatever is done to it? A failure prints the shortest way to it, and its seed. */
export function modelTest(name: string, open: () => Promise<OpenedStorage>, runs: number, seed = SEED): void {
  const numRuns = runs * MORE;
  it(`${name} answers as the model does (${numRuns} random lives)`, { timeout: 120_000 * MORE }, async () => {
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
      // A failure is reported before the test times out, as short as it has become until then.
      { numRuns, seed, interruptAfterTimeLimit: 100_000 * MORE, markInterruptAsFailure: true },
    );
  });
}
