/** A number from 0 (included) to 1 (excluded). Tests pass their own. */
export type Random = () => number;

/** The real thing. */
export const systemRandom: Random = () => Math.random();
