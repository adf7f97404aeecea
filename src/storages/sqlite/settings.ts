import type { Statements } from "./driver.ts";
import { readRules, RuleBook } from "./limits/rule-book.ts";

const PAUSES = "SELECT queue, type FROM sluice_pauses";
const NEXT_KEYED = "SELECT queue FROM sluice_lanes WHERE keys <> '' AND queue > ? ORDER BY queue LIMIT 1";
const CLAIMS = "SELECT queue FROM sluice_claims";

/** What users and workers have set for all steps. Read once, and shared by all steps until its number changes. */
export interface Settings {
  readonly number: number;
  readonly rules: RuleBook;
  /** By queue: the types that are paused, as they are kept (schema-1.ts). */
  readonly pauses: ReadonlyMap<string, ReadonlySet<string>>;
  /** The queues that have lanes with keys. */
  readonly keyed: ReadonlySet<string>;
  /** The queues for which something is kept that claims brought along. */
  readonly claims: ReadonlySet<string>;
}

/** Of a new database. */
export const NO_SETTINGS: Settings = {
  number: 0,
  rules: new RuleBook(new Map()),
  pauses: new Map(),
  keyed: new Set(),
  claims: new Set(),
};

export function readSettings(statements: Statements, number: number): Settings {
  const pauses = new Map<string, Set<string>>();
  for (const { queue, type } of statements.get(PAUSES).all() as { queue: string; type: string }[]) {
    const types = pauses.get(queue);
    if (types === undefined) pauses.set(queue, new Set([type]));
    else types.add(type);
  }
  const claims = statements.get(CLAIMS).all() as { queue: string }[];
  const keyed = new Set(statements.names(NEXT_KEYED));
  return { number, rules: readRules(statements), pauses, keyed, claims: new Set(claims.map(({ queue }) => queue)) };
}
