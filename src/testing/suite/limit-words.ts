import type { ClaimRequest } from "../../storage/job-storage.ts";
import type {
  GroupState,
  LimitChange,
  LimitsDeclared,
  LimitState,
  LimitTake,
  LimitTaken,
} from "../../storage/limit-storage.ts";
import { ok } from "../expect.ts";
import type { Scene } from "./scene.ts";

type LimitRule = LimitState["rule"];
type Quota = LimitRule["quota"];

/** A rule for all jobs, but for the given fields. */
export function rule(name: string, quota: Partial<Quota>, about: Partial<LimitRule> = {}): LimitRule {
  return {
    name,
    quota: { max: null, windowMs: null, concurrency: null, everyMs: null, ...quota },
    types: null,
    queues: null,
    byGroup: false,
    groups: {},
    weight: null,
    estimate: 1,
    breaker: null,
    paused: false,
    ...about,
  };
}

/** At most so many in a window. */
export const window = (max: number, windowMs: number): Partial<Quota> => ({ max, windowMs });

/** A limit by these keys of a job. */
export const BY = (...by: readonly string[]) => ({ byGroup: true, by });

/** Open for a second after two failures in a row, whatever they are. */
export const BREAKER: NonNullable<LimitRule["breaker"]> = { failures: 2, openMs: 1_000, probes: 1, kinds: null };

/** Declares rules. */
export const define = (s: Scene, ...rules: readonly LimitRule[]): Promise<LimitsDeclared> =>
  s.storage.limits.define(rules);

export const change = (s: Scene, name: string, changed: LimitChange): Promise<void> =>
  s.storage.limits.change(name, changed);

/** A limit, as it is now. */
export async function limitOf(s: Scene, name: string): Promise<LimitState> {
  const [found] = await s.storage.limits.read({ name, group: null });
  ok(found !== undefined, `expected to find the limit ${name}, but there is none`);
  return found;
}

/** The state of a limit: for a group, for jobs without one, or for all. */
export async function countOf(s: Scene, name: string, group: string | null = null): Promise<GroupState> {
  const [found] = await s.storage.limits.read({ name, group });
  const state = found?.states.find((one) => one.group === group);
  ok(state !== undefined, `expected a state of the limit ${name} for ${String(group)}, but there is none`);
  return state;
}

/** How much of its window is in use, and how many slots. */
export async function usedAndHeld(s: Scene, name: string, group: string | null = null): Promise<readonly number[]> {
  const { used, held } = await countOf(s, name, group);
  return [used, held];
}

export interface Said {
  readonly count: number;
  readonly more: boolean;
  readonly nextInMs: number | null;
  readonly blockedBy: string | null;
}

/** How many jobs a claim gets, and the rest of its answer. */
export async function said(s: Scene, request: Partial<ClaimRequest> = {}): Promise<Said> {
  const { jobs, more, nextInMs, blockedBy } = await s.claim(request);
  return { count: jobs.length, more, nextInMs, blockedBy };
}

/** The answer to a claim that gets nothing, because this limit blocks all jobs for so long; null: until a release. */
export const blocked = (nextInMs: number | null, blockedBy = "k"): Said => ({
  count: 0,
  more: false,
  nextInMs,
  blockedBy,
});

/** The ids of the jobs that a claim gets, in order, in one text. */
export const ids = async (s: Scene, request: Partial<ClaimRequest> = {}): Promise<string> =>
  (await s.claimIds(request)).join(" ");

/** How many jobs a claim gets. */
export const count = async (s: Scene, request: Partial<ClaimRequest> = {}): Promise<number> =>
  (await s.claim(request)).jobs.length;

/** Takes a permit of a limit outside of any job. */
export const take = (s: Scene, name: string, about: Partial<LimitTake> = {}): Promise<LimitTaken> =>
  s.storage.limits.take({ name, group: null, weight: null, ttlMs: 10_000, ...about });

/** The refusal of a permit that is available after so long; null: after a release. */
export const refusedFor = (retryInMs: number | null): LimitTaken => ({ granted: false, retryInMs, most: null });

/** The token of a granted permit. Throws if it is refused. */
export async function taken(s: Scene, name: string, about: Partial<LimitTake> = {}): Promise<string> {
  const answer = await take(s, name, about);
  ok(answer.granted, `expected ${name} to be granted`);
  return answer.token;
}
