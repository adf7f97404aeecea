import { type ClaimRules, type RuleIndex, RulesInForce } from "../../../limits/claim-rules.ts";
import { claimantOf, waitOfOthers } from "../../../limits/starved.ts";
import type { JobRecord } from "../../../core/job.ts";
import type { Clock } from "../../../core/clock.ts";
import type { Claim, ClaimRequest } from "../../../storage/job-storage.ts";
import type { ClaimPlan } from "../../../planner/plan-claim.ts";
import { STEP_BYTES } from "../../../storage/step-bytes.ts";
import { ruleOfClaim } from "../../../storage/stored-rules.ts";
import type { Database } from "../database.ts";
import { granted, type GrantRow } from "../grants.ts";
import { ask, type Asked, recordsOf } from "./claim.ts";
import { propose, type Proposal, type ProposalText, type Wanted } from "./proposal.ts";
import type { Snapshot } from "./snapshot.ts";
import { LATER_MS, wakeUp } from "./wake-up.ts";

/** The rules of a queue, as they stood when they had this number. */
interface KnownRules {
  readonly epoch: number;
  readonly rules: RuleIndex;
}

const NO_RULES = new RulesInForce([]).of("");

interface KnownSnapshot {
  /** What was asked for. */
  readonly queue: string;
  readonly types: readonly string[] | null;
  readonly snapshot: Snapshot;
  /** When it was answered. */
  readonly at: number;
  /** So many times as many lanes are looked at and proposed as are wanted: more where other claims were faster. */
  readonly reach: number;
}

/** At most so many times as many lanes are proposed as are wanted. */
const MOST_REACH = 4;
/** So often a claim asks; then what it has is its answer, and another claim goes on. */
const MOST_TRIPS = 5;
/** From here on only lanes of a higher priority that came meanwhile precede the plan: others come faster than plans are made. */
const LATE_TRIP = 4;
/** So many lanes of each type are asked for, at least; and where those were not enough. */
const PAGE = 4;
const LARGE_PAGE = 1_000;
/** So many lanes more are proposed where other transactions have the jobs of those that were. */
const SPARE_LANES = 250;
/** So old a snapshot may be that a claim begins with: others have had their turns since. */
const FRESH_MS = 1_000;
/** So many snapshots are remembered. */
const MOST_KNOWN = 100;

/**
 * Claims under limits and among groups: planned here, from what the storage was like a moment ago, and taken there
 * (sql/take.sql), as far as it fits. What a claim answers about the next one is planned from the snapshot that it came with.
 */
export class PlannedClaims {
  readonly #clock: Clock;
  readonly #rules = new Map<string, KnownRules>();
  /** By what was asked for: the queue, the types, and the limits that came along. */
  readonly #snapshots = new Map<string, KnownSnapshot>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async claim(database: Database, request: ClaimRequest): Promise<Claim> {
    const { queue, max, maxBytes = STEP_BYTES } = request;
    const key = JSON.stringify([queue, request.types, request.limits]);
    const jobs: JobRecord[] = [];
    let bytes = maxBytes;
    let stale: readonly string[] = [];
    let grant: GrantRow | undefined;
    const known = this.#snapshots.get(key);
    let reach = known?.reach ?? 1;
    let page = Math.max(PAGE, max + 1) * reach;
    let wanted: Wanted = { max, bytes, spare: max * (reach - 1), begun: false };
    let proposal = this.#recall(request, key, wanted);
    let awaits = awaitedBy(proposal?.unmarked ?? []);
    let othersWaitMs = 0;
    /** Lanes whose jobs other transactions have: it goes on to those behind them. */
    const stuck = new Set<number>();
    for (let trip = 1; ; trip++) {
      const plan = this.#textOf(queue, proposal, page, trip, grant, awaits);
      const answer = await this.#ask(database, request, trip, wanted, plan, jobs.length > 0);
      if (answer === undefined) return { jobs, stale, ...LOOK_AGAIN, ...granted(grant) };
      const records = recordsOf(answer.jobs, request);
      for (const { data } of records) bytes -= data.length;
      jobs.push(...records);
      othersWaitMs = Math.max(othersWaitMs, answer.others ?? 0);
      if (trip === 1) stale = answer.lost;
      if (answer.grant) grant = grant === undefined ? answer.grant : [grant[0], Math.min(grant[1], answer.grant[1])];
      const { snapshot } = answer;
      if (snapshot === undefined || snapshot === null) {
        const { more, nextInMs, blockedBy } = answer;
        return { jobs, stale, more, nextInMs, blockedBy, ...waitOfOthers(othersWaitMs), ...granted(grant) };
      }
      if (snapshot.rules !== null) {
        this.#rules.set(queue, { epoch: snapshot.epoch, rules: new RulesInForce(snapshot.rules).of(queue) });
      }
      const stuckBefore = stuck.size;
      for (const lane of snapshot.stuck) stuck.add(lane);
      const left = max - jobs.length;
      const spare = stuck.size > 0 ? SPARE_LANES : left * (reach - 1);
      wanted = { max: left, bytes, spare: left > 0 ? spare : 0, begun: jobs.length > 0 };
      const next = propose(snapshot, this.#rulesOf(request), wanted, request.grantTtlMs, { stuck });
      const missed = proposal !== undefined && records.length < wanted.max && next.started > 0;
      this.#remember(key, {
        queue,
        types: request.types,
        snapshot,
        at: this.#clock.now(),
        reach: missed ? MOST_REACH : trip > 1 ? reach : Math.max(1, reach / 2),
      });
      // If all lanes of the snapshot wait for limits, it is not known whether more could start.
      const isFull = jobs.length > 0 && wanted.max <= 0 && !next.cut;
      // All of the plan was done, and it was made from a snapshot of this claim.
      const done = trip > 1 && !snapshot.again && proposal?.plan !== undefined;
      // Another transaction has what could start: there may be others behind it; or it came to nothing.
      const others = trip < MOST_TRIPS && stuck.size > 0 && (next.cut ? stuck.size > stuckBefore : next.started > 0);
      const inVain = trip > 1 && (snapshot.busy || stuck.size > 0) && !snapshot.changed && !others;
      if ((next.isEmpty && !others) || done || inVain || isFull || trip >= MOST_TRIPS) {
        const last = done
          ? after(proposal!, next)
          : next.plan && { ...next.plan, more: next.plan.more || next.started > 0 };
        const final = inVain ? last && { ...last, more: false } : last;
        const ahead =
          inVain && final === undefined
            ? LOOK_LATER
            : this.#ahead(answer, snapshot, request, final, next, { started: jobs.length, isStuck: stuck.size > 0 });
        if (jobs.length === 0) othersWaitMs = Math.max(othersWaitMs, next.othersWaitMs);
        awaits = this.#awaitedAfter(request, jobs, next);
        // A worker that is full claims again only when a job ends, and others would not know that it waits for slots.
        const starves = isFull && [...awaits.values()].includes(true);
        if (awaits.size === 0 || (ahead.more && !starves))
          return { jobs, stale, ...ahead, ...waitOfOthers(othersWaitMs), ...granted(grant) };
        if (trip >= MOST_TRIPS) return { jobs, stale, ...LOOK_AGAIN, ...granted(grant) };
        // A release wakes up the worker only if the limit that refuses says so: nothing else is left to do.
        proposal = undefined;
      } else {
        if (missed) reach = MOST_REACH;
        page = Math.max(page, Math.max(PAGE, max + 1) * reach);
        if (stuck.size > 0 || (next.cut && next.started === 0)) page = LARGE_PAGE;
        proposal = next;
        awaits = awaitedBy(next.unmarked);
      }
    }
  }

  /** Undefined: it failed, and what was started before is the answer. */
  async #ask(
    database: Database,
    request: ClaimRequest,
    trip: number,
    { max, bytes }: Wanted,
    plan: ProposalText,
    begun: boolean,
  ): Promise<Asked | undefined> {
    const rest = trip === 1 ? request : { ...request, settle: [], confirm: [] };
    try {
      return await ask(database, { ...rest, max, maxBytes: Math.max(1, bytes) }, plan, claimantOf(request));
    } catch (error) {
      if (!begun) throw error;
      return undefined;
    }
  }

  #rulesOf({ queue, limits }: ClaimRequest): ClaimRules {
    return (this.#rules.get(queue)?.rules ?? NO_RULES).forClaim(null, limits.map(ruleOfClaim));
  }

  #textOf(
    queue: string,
    proposal: Proposal | undefined,
    page: number,
    trip: number,
    grant: GrantRow | undefined,
    awaits: AwaitedLimits,
  ): ProposalText {
    const epoch = this.#rules.get(queue)?.epoch;
    const marks = awaits.size > 0 && { awaits: [...awaits.keys()], starves: [...awaits.values()] };
    if (proposal === undefined) return { ...NOTHING, epoch, page, ...marks };
    return {
      ...proposal.text,
      epoch,
      page,
      ...(trip >= LATE_TRIP && { is_late: true }),
      ...(grant && { number: grant[0] }),
      ...marks,
    };
  }

  /** The limits that have to be marked before the claim is answered with what its latest plan says. */
  #awaitedAfter(request: ClaimRequest, jobs: readonly JobRecord[], { unmarked, unserved }: Proposal): AwaitedLimits {
    if (unmarked.size + unserved.size === 0) return awaitedBy([]);
    const rules = this.#rulesOf(request);
    const types = new Set(jobs.map(({ type }) => type));
    // Limits that have started something of the claim.
    const served = new Set(Array.from(types).flatMap((type) => rules.of(type).map(({ name }) => name)));
    const starving = [...unserved].filter((name) => !served.has(name));
    return new Map(Array.from([...unmarked, ...starving], (name) => [name, !served.has(name)]));
  }

  /** What comes after the claim. */
  #ahead(
    answer: Asked,
    snapshot: Snapshot,
    request: ClaimRequest,
    plan: ClaimPlan | undefined,
    { limits, needsGates }: Proposal,
    claimed: { readonly started: number; readonly isStuck: boolean },
  ): Ahead {
    if (plan === undefined) return LOOK_AGAIN;
    const { max, types } = request;
    const ahead = wakeUp(snapshot, plan, limits, types, { ...claimed, max, needsGates });
    let { nextInMs } = ahead;
    if (ahead.more) return ahead;
    if (answer.lookIn !== null && answer.lookIn !== undefined) {
      // While a limit keeps jobs back there is hardly another reason to look.
      const look = Math.max(ahead.blockedBy === null ? 250 : 5_000, answer.lookIn);
      nextInMs = nextInMs === null ? look : Math.min(nextInMs, look);
    }
    if (answer.stuck === true && nextInMs !== null && nextInMs <= 0) nextInMs = 100;
    return { ...ahead, nextInMs };
  }

  /** A plan from what the latest claim of a queue was answered, if it asked for the same a moment ago. */
  #recall(request: ClaimRequest, key: string, wanted: Wanted): Proposal | undefined {
    const known = this.#snapshots.get(key);
    if (known === undefined) return undefined;
    // Claims of one process that come together plan from different snapshots.
    this.#snapshots.delete(key);
    const elapsed = Math.max(0, this.#clock.now() - known.at);
    if (elapsed > FRESH_MS) return undefined;
    const { settle, confirm = [], grantTtlMs } = request;
    const earlier = { elapsed, releases: settle.length > 0, confirms: confirm.length > 0 };
    return propose(known.snapshot, this.#rulesOf(request), wanted, grantTtlMs, { earlier });
  }

  #remember(key: string, known: KnownSnapshot): void {
    if (this.#snapshots.size >= MOST_KNOWN) this.#snapshots.clear();
    // Groups have had their turns since others were answered.
    for (const [other, earlier] of this.#snapshots) if (overlap(earlier, known)) this.#snapshots.delete(other);
    this.#snapshots.set(key, known);
  }
}

/** May claims that ask for these take from the same lanes? */
function overlap(a: KnownSnapshot, b: KnownSnapshot): boolean {
  if (a.queue !== b.queue) return false;
  return a.types === null || b.types === null || a.types.some((type) => b.types!.includes(type));
}

/** What a plan said that was done, by the time of the snapshot after it; where it left something that can start, that is to be had. */
function after({ plan, now }: Proposal, next: Proposal): ClaimPlan | undefined {
  if (plan === undefined || next.plan === undefined) return next.plan;
  const more = plan.more || next.plan.more || next.started > 0;
  return { ...plan, more, nextIn: Math.max(0, plan.nextIn - (next.now - now)) };
}

/** Limits for all that have to wake up what waits when slots are released: have they started nothing of the claim, which waits for some? */
type AwaitedLimits = ReadonlyMap<string, boolean>;

/** The same, while the claim goes on. */
const awaitedBy = (names: Iterable<string>): AwaitedLimits => new Map(Array.from(names, (name) => [name, false]));

type Ahead = Pick<Claim, "more" | "nextInMs" | "blockedBy">;

const LOOK_AGAIN: Ahead = { more: true, nextInMs: 0, blockedBy: null };
/** Another transaction has the jobs, for as long as it likes. */
const LOOK_LATER: Ahead = { more: false, nextInMs: LATER_MS, blockedBy: null };

const NOTHING = {
  types: [],
  seen_types: [],
  seen_counts: [],
  lanes: [],
  places: [],
  kinds: [],
  counts: [],
  units: [],
  emptied: [],
};
