import { isInstantColumn, shiftInstant } from "../../storage/clock-repair.ts";
import type { SqliteConnection } from "./driver.ts";

/**
 * Takes the skew out of the clock: every instant of the storage moves by it, in one transaction, so that ages, and with them all
 * decisions, stay as they are. Processes at work notice by the number of repairs. Whole milliseconds, for those move any
 * instant without rounding it. Answers by how many.
 *
 * The skew is the one that was written down: a storage over the connection has read something just before.
 */
export function repairClock(connection: SqliteConnection): number {
  connection.exec("BEGIN IMMEDIATE");
  try {
    const [{ skew }] = connection.prepare("SELECT skew FROM sluice_meta").all() as [{ readonly skew: number }];
    const by = Math.trunc(skew);
    for (const { table, columns } of instantColumns(connection)) {
      const moved = columns.map((column) => `${column} = iif(${column} BETWEEN 1 AND 1e17, ${column} - ?1, ${column})`);
      connection.prepare(`UPDATE ${table} SET ${moved.join(", ")}`).run(by);
    }
    shiftRules(connection, by);
    shiftCharges(connection, by);
    connection.prepare(FOLLOW_DUE).run(skew - by);
    connection.prepare(FOLLOW_DEADLINES).run(skew - by);
    connection
      .prepare(
        "UPDATE sluice_meta SET last = last - ?1, skew = skew - ?1, repairs = repairs + 1, settings = settings + 1",
      )
      .run(by);
    connection.exec("COMMIT");
    return by;
  } catch (error) {
    connection.exec("ROLLBACK");
    throw error;
  }
}

const FOLLOW_DUE = "UPDATE sluice_jobs SET due_at = due_wall + ? WHERE due_wall IS NOT NULL";
const FOLLOW_DEADLINES =
  "UPDATE sluice_jobs SET deadline = deadline_wall + ? WHERE deadline_wall IS NOT NULL AND finished_at IS NULL";

/** The columns that hold instants by the clock of the storage, but for those of the clock itself. */
export function instantColumns(
  connection: SqliteConnection,
): readonly { readonly table: string; readonly columns: readonly string[] }[] {
  const tables = connection
    .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'sluice_*' AND name <> 'sluice_meta'")
    .all() as { readonly name: string }[];
  return tables.flatMap(({ name: table }) => {
    const all = connection.prepare(`PRAGMA table_info(${table})`).all() as { name: string; type: string }[];
    const columns = all.flatMap(({ name, type }) => (type === "REAL" && isInstantColumn(name) ? [name] : []));
    return columns.length === 0 ? [] : [{ table, columns }];
  });
}

/** Rules hold instants in their JSON. */
function shiftRules(connection: SqliteConnection, by: number): void {
  const rules = connection.prepare("SELECT name, stored FROM sluice_rules").all() as {
    readonly name: string;
    readonly stored: string;
  }[];
  for (const { name, stored } of rules) {
    const rule = JSON.parse(stored) as { heldUntil?: number; blindUntil?: number };
    if (rule.heldUntil === undefined && rule.blindUntil === undefined) continue;
    const { heldUntil, blindUntil } = rule;
    const shifted = {
      ...rule,
      ...(heldUntil !== undefined && { heldUntil: shiftInstant(heldUntil, by) }),
      ...(blindUntil !== undefined && { blindUntil: shiftInstant(blindUntil, by) }),
    };
    connection.prepare("UPDATE sluice_rules SET stored = ? WHERE name = ?").run(JSON.stringify(shifted), name);
  }
}

/** So do the charges of running jobs (limits/job-charges.ts): the fifth of each list. */
function shiftCharges(connection: SqliteConnection, by: number): void {
  const running = connection
    .prepare("SELECT seq, limits FROM sluice_jobs WHERE lease_until IS NOT NULL AND limits IS NOT NULL")
    .all() as { readonly seq: number; readonly limits: string }[];
  for (const { seq, limits } of running) {
    const charges = JSON.parse(limits) as number[][];
    if (!Array.isArray(charges) || !charges.some((one) => one.length > 4)) continue;
    for (const one of charges) if (one.length > 4) one[4] = shiftInstant(one[4]!, by);
    connection.prepare("UPDATE sluice_jobs SET limits = ? WHERE seq = ?").run(JSON.stringify(charges), seq);
  }
}
