import type { Confirmation, Grant } from "../../storage/grants.ts";
import type { Database } from "./database.ts";

/** What is to be confirmed, as functions answer it: the number that was drawn for it, and when that is worth a call. */
export type GrantRow = readonly [number: number, confirmInMs: number];

/** The part of an answer that says what is to be confirmed, if anything is. */
export const granted = (row: GrantRow | null | undefined): { readonly grant?: Grant } =>
  row ? { grant: { id: String(row[0]), confirmInMs: row[1] } } : {};

/** Confirmations as functions take them: lists of one length. */
export interface Confirmed {
  readonly grants: readonly number[];
  readonly called: readonly number[];
}

/** Undefined: there is nothing to confirm. Entries without a grant are left out. */
export function confirmed(confirmations: readonly Confirmation[]): Confirmed | undefined {
  const known = confirmations.filter(({ grant }) => isNumber(grant));
  if (known.length === 0) return undefined;
  return { grants: known.map(({ grant }) => Number(grant)), called: known.map(({ calledInMs }) => calledInMs) };
}

/** Confirms when calls were made. */
export async function confirm(database: Database, confirmations: readonly Confirmation[]): Promise<void> {
  const said = confirmed(confirmations);
  if (said !== undefined) await database.call("confirm", JSON.stringify(said));
}

const isNumber = (id: string): boolean => Number.isSafeInteger(Number(id)) && Number(id) > 0;
