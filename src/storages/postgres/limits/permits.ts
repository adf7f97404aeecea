import { LimitNotFoundError } from "../../../core/errors.ts";
import type { LimitGiven, LimitTake, LimitTaken } from "../../../storage/limit-storage.ts";
import type { Database, Steps } from "../database.ts";
import { granted, type GrantRow } from "../grants.ts";

/** What a permit says about itself: the limit, its number, what was reserved, when, and until when it may be corrected. */
type Permit = readonly [limit: number, number: number, reserved: number, at: number, until: number];

type Taken =
  | { readonly missing: true }
  | {
      readonly missing?: never;
      readonly granted: false;
      readonly retryInMs: number | null;
      readonly most: number | null;
      readonly by?: readonly string[];
    }
  | {
      readonly missing?: never;
      readonly granted: true;
      readonly held: boolean;
      readonly token?: Permit;
      readonly grant?: GrantRow | null;
    };

export async function take(database: Database, request: LimitTake): Promise<LimitTaken> {
  const { name, group, by, weight, dry = false, ttlMs, grantTtlMs = null } = request;
  const args = [name, group, by === undefined ? null : JSON.stringify(by), weight, dry, ttlMs, grantTtlMs];
  const taken = dry
    ? await database.call<Taken>("take_permit", ...args)
    : await database.once<Taken>("take_permit", args, { undo: cancel });
  if (taken.missing === true) throw new LimitNotFoundError(name);
  if (!taken.granted) {
    const { retryInMs, most, by: names } = taken;
    return { granted: false, retryInMs, most, ...(names !== undefined && { by: names }) };
  }
  return { granted: true, token: taken.token?.join(":") ?? "", held: taken.held, ...granted(taken.grant) };
}

/** The permit was taken, and no caller has received it. */
async function cancel(steps: Steps, taken: Taken | null): Promise<void> {
  if (taken?.missing === true || taken?.granted !== true || taken.token === undefined) return;
  if (taken.grant) await steps.call("confirm", JSON.stringify({ grants: [taken.grant[0]], called: [0] }));
  await steps.call("give_permit", null, ...taken.token, "cancelled", null);
}

export async function give(database: Database, token: string, given: LimitGiven): Promise<void> {
  database.check();
  const permit = read(token);
  if (permit === undefined) return;
  const [how, used] = typeof given === "string" ? [given, null] : ["used", given.used];
  await database.once("give_permit", [null, ...permit, how, used], { as: "fenced" });
}

/** Keeps what is held. Answers with the tokens that are lost. */
export async function renew(database: Database, tokens: readonly string[], ttlMs: number): Promise<readonly string[]> {
  database.check();
  const numbers = tokens.map(numberHeld);
  const holding = numbers.filter((number) => number !== undefined);
  if (holding.length === 0) return tokens;
  const answer = await database.call<{ kept: readonly number[] }>("renew_permits", JSON.stringify(holding), ttlMs);
  const kept = new Set<number | undefined>(answer.kept);
  return tokens.filter((_, i) => !kept.has(numbers[i]));
}

/** Its number, if something is held by it. */
function numberHeld(token: string): number | undefined {
  const [, number, , , until] = read(token) ?? [];
  return until === 0 ? number : undefined;
}

function read(token: string): Permit | undefined {
  if (typeof token !== "string") return undefined;
  const [limit, number, ...rest] = token.split(":").map(Number);
  const isPermit = rest.length === 3 && rest.every((part) => part >= 0 && Number.isFinite(part));
  if (!isPermit || !isNumber(limit) || !isNumber(number)) return undefined;
  return [limit, number, rest[0]!, rest[1]!, rest[2]!];
}

const isNumber = (part: number | undefined): part is number => Number.isSafeInteger(part) && part! >= 0;
