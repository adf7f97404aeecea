import { readStoredRule, type StoredRule } from "../../../storage/stored-rules.ts";
import type { Caller } from "../database.ts";

/** All rules, as they stood when they had this number. */
export interface RuleBook {
  readonly number: number;
  readonly stored: ReadonlyMap<string, StoredRule>;
}

interface Answer {
  readonly number: number;
  readonly stored: readonly (readonly [name: string, stored: unknown])[];
}

export async function readRules(database: Caller): Promise<RuleBook> {
  const { number, stored } = await database.call<Answer>("read_rules");
  return { number, stored: new Map(stored.filter((entry): entry is [string, StoredRule] => isStoredRule(entry[1]))) };
}

/** Is it a rule as it is kept? What cannot be read binds nobody. */
export function isStoredRule(stored: unknown): stored is StoredRule {
  return readStoredRule(JSON.stringify(stored)) !== undefined;
}
