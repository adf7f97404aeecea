import type { LimitChanged } from "../../../core/limit-change.ts";
import { KEPT_CHANGES, KEPT_CHANGES_OF_ALL } from "../../../storage/limit-history.ts";
import type { LimitHistoryEntry, LimitHistoryQuery } from "../../../storage/limit-storage.ts";
import type { Step } from "../step.ts";

const ADD = "INSERT INTO sluice_limit_changes (name, at_wall, change) VALUES (?, ?, ?)";
const DROP_OWN = `DELETE FROM sluice_limit_changes WHERE name = ? AND seq <= (SELECT seq FROM sluice_limit_changes
  WHERE name = ? ORDER BY seq DESC LIMIT 1 OFFSET ${KEPT_CHANGES})`;
const DROP_OLD = `DELETE FROM sluice_limit_changes
  WHERE seq <= (SELECT max(seq) FROM sluice_limit_changes) - ${KEPT_CHANGES_OF_ALL}`;
const READ = "SELECT at_wall AS at, change FROM sluice_limit_changes ORDER BY seq DESC LIMIT +?";
const READ_ONE = "SELECT at_wall AS at, change FROM sluice_limit_changes WHERE name = ? ORDER BY seq DESC LIMIT +?";
const OWNERS = "SELECT name, version FROM sluice_limit_owners";
const REMEMBER = `INSERT INTO sluice_limit_owners (name, version) VALUES (?, ?)
  ON CONFLICT (name) DO UPDATE SET version = excluded.version`;
const FORGET = "DELETE FROM sluice_limit_owners WHERE name = ?";

/** Keeps what was changed, and emits an event for each. */
export function recordChanges(step: Step, changes: readonly LimitChanged[]): void {
  for (const change of changes) {
    step.sql(ADD).run(change.limit, step.wall, JSON.stringify(change));
    step.sql(DROP_OWN).run(change.limit, change.limit);
    step.event({ event: "limit-changed", queue: null, ...change });
  }
  if (changes.length > 0) step.sql(DROP_OLD).run();
}

export function readHistory(step: Step, { name, limit }: LimitHistoryQuery): LimitHistoryEntry[] {
  const rows = name === null ? step.sql(READ).all(limit) : step.sql(READ_ONE).all(name, limit);
  return (rows as Row[]).map((row) => entryOf(row));
}

interface Row {
  readonly at: number;
  readonly change: string;
}

function entryOf({ at, change }: Row): LimitHistoryEntry {
  return { ...(JSON.parse(change) as LimitChanged), at };
}

/** The highest version that each owner has declared. */
export function ownersOf(step: Step): ReadonlyMap<string, number> {
  const rows = step.sql(OWNERS).all() as { readonly name: string; readonly version: number }[];
  return new Map(rows.map(({ name, version }) => [name, version]));
}

export function rememberOwner(
  step: Step,
  { name, version }: { readonly name: string; readonly version: number },
): void {
  step.sql(REMEMBER).run(name, version);
}

export function forgetOwner(step: Step, name: string): void {
  step.sql(FORGET).run(name);
}
