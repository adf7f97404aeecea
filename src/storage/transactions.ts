import { OptionsError } from "../core/errors.ts";

/** For storages that cannot take part in a user's transaction: a job that was added outside of it would survive its rollback. */
export function refuseTransaction(owner: string, tx: unknown): void {
  if (tx === undefined) return;
  const hint = `a ${owner} cannot take part in a transaction of yours; a PostgresStorage (sluice/postgres) can`;
  throw new OptionsError("add", "tx", tx, "left out", hint);
}
