import { readStoredRule, type StoredRule } from "../../../storage/stored-rules.ts";
import type { Caller } from "../database.ts";

/** All rules, as they stood when they had this number. */
export interface RuleBook {
  readonly number: number;
  readonly stored: ReadonlyMap<string, StoredRule>;
  /** The highest version that each owner has declared. */
  readonly owners: ReadonlyMap<string, number>;
}

interface Answer {
  readonly number: number;
  readonly stored: readonly (readonly [name: string, stored: unknown])[];
  readonly owners: readonly (readonly [name: string, version: number])[];
}

export async function readRules(database: Caller): Promise<RuleBook> {
  const { number, stored, owners } = await database.call<Answer>("read_rules");
  const rules = stored.filter((entry): entry is [string, StoredRule] => isStoredRule(entry[1]));
  return { number, stored: new Map(rules), owners: new Map(owners) };
}

/** Is it a rule as it is kept? What cannot be read limits nothing. */
export function isStoredRule(stored: unknown): stored is StoredRule {
  return readStoredRule(JSON.stringify(stored)) !== undefined;
}
