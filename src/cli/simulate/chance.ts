import type { Random } from "../../core/random.ts";

/** Chance that is the same whenever the seed is: a counter that is mixed well (splitmix, 32 bits). */
export function seeded(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e37_79b9) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0_aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a_2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32;
  };
}

/** The time to the next of events that come by chance, `mean` apart on average. */
export function exponential(random: Random, mean: number): number {
  return -mean * Math.log(1 - random());
}

/**
 * Something that is never below zero and now and then much more than usual: log-normal, with this mean, and a standard
 * deviation of `spread` times the mean.
 */
export function lognormal(random: Random, mean: number, spread: number): number {
  if (spread === 0) return mean;
  const variance = Math.log(1 + spread * spread);
  return mean * Math.exp(Math.sqrt(variance) * normal(random) - variance / 2);
}

function normal(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}
