import type { MemoryStorage } from "../../src/index.ts";
import { type FakeClock, type FaultyStorage, faultyStorage } from "../../src/testing/index.ts";

/** Chance that is the same in every run. */
export function chance(seed: number): () => number {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

/** The storage behind a network that fails, delays, loses answers and falls silent. */
export function failingNetwork(
  storage: MemoryStorage,
  { clock, random, seed }: { readonly clock: FakeClock; readonly random: () => number; readonly seed: number },
): FaultyStorage {
  return faultyStorage(
    storage,
    ({ member }) => {
      const dice = random();
      if (member === "setup" || dice > 0.15) return undefined;
      if (dice < 0.04) return { kind: "fail-before" };
      if (dice < 0.08) return { kind: "fail-after" };
      if (dice < 0.11) return { kind: "delay", ms: random() * 4_000 };
      if (dice < 0.14) return { kind: "delay-answer", ms: random() * 4_000 };
      return { kind: "never" };
    },
    { seed, clock },
  );
}
