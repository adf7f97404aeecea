import fc from "fast-check";
import { it } from "vitest";
import type { OpenedStorage } from "../../src/testing/index.ts";
import { type Kind, lifeOf } from "./model-limits-life.ts";
import { Player } from "./model-limits-player.ts";

/** `SLUICE_LIVES=50 SLUICE_SEED=7 vitest run …` plays fifty times as many, from another beginning. */
const MORE = Number(process.env["SLUICE_LIVES"] ?? 1);
const SEED = Number(process.env["SLUICE_SEED"] ?? 20_300_101);

/** Does a storage keep jobs under limits as the model does? A failure prints the shortest life that shows it, and its seed. */
export function limitsModelTest(
  name: string,
  open: () => Promise<OpenedStorage>,
  numRuns: number,
  { keys = false }: { readonly keys?: boolean } = {},
): void {
  const kinds: readonly Kind[] = ["general", "groups", "mixed", ...(keys ? (["keys", "mixed keys"] as const) : [])];
  for (const kind of kinds) {
    const lives = numRuns * MORE;
    it(`${name}: jobs under limits, ${kind} (${lives} random lives)`, { timeout: 60_000 * MORE }, async () => {
      await fc.assert(
        fc.asyncProperty(lifeOf(kind), async (life) => {
          const { storage, clock, close } = await open();
          try {
            await storage.setup();
            await new Player(life, storage, clock).play();
          } finally {
            await storage.close();
            await close?.();
          }
        }),
        // What fails is told before the test is out of time, as short as it has become until then.
        { numRuns: lives, seed: SEED, interruptAfterTimeLimit: 50_000 * MORE, markInterruptAsFailure: true },
      );
    });
  }
}
