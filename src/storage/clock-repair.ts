/** Columns that hold instants by the clock of a storage: recognised by their names, in any table. */
const INSTANTS = /(?:^|_)(?:at|until|since)$|^(?:deadline|newest|began|granted)$/;

export const isInstantColumn = (name: string): boolean => INSTANTS.test(name);

/** The same pattern for a storage that asks its server for the columns. */
export const INSTANT_COLUMNS: string = INSTANTS.source.replaceAll("?:", "");

/** 0 means never, and the largest values mean for ever: both stay as they are. */
export const shiftInstant = (instant: number, by: number): number =>
  instant >= 1 && instant <= 1e17 ? instant - by : instant;

/** From here on, `doctor` warns of the offset between the clock of a storage and the wall clock. */
export const OFFSET_MS = 5_000;
