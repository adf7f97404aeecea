import { OptionsError } from "../core/errors.ts";

/** For storages that cannot take part in a transaction of the user's: to add the job all the same would be a lie. */
export function refuseTransaction(owner: string, tx: unknown): void {
  if (tx === undefined) return;
  const hint = `a ${owner} cannot take part in a transaction of yours; a PostgresStorage (sluice/postgres) can`;
  throw new OptionsError("add", "tx", tx, "left out", hint);
}
