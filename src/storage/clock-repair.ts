/** Columns of numbers that hold instants by the clock of a storage: known by their names, in whatever table they are. */
const INSTANTS = /(?:^|_)(?:at|until|since)$|^(?:deadline|newest|began|granted)$/;

export const isInstantColumn = (name: string): boolean => INSTANTS.test(name);

/** The same words for a storage that asks its server which columns those are. */
export const INSTANT_COLUMNS: string = INSTANTS.source.replaceAll("?:", "");

/** 0 is never, and the largest are for ever: both stay as they are. */
export const shiftInstant = (instant: number, by: number): number =>
  instant >= 1 && instant <= 1e17 ? instant - by : instant;

/** From so much on, the offset between the clock of a storage and the wall clock is worth a word. */
export const OFFSET_MS = 5_000;
