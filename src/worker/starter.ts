import type { Mark } from "../core/clock.ts";
import { JobError } from "../core/errors.ts";
import type { JobRecord } from "../core/job.ts";
import type { Claim } from "../storage/job-storage.ts";
import type { LimiterGrant } from "./admission.ts";
import { inBackground } from "./ask.ts";
import { ClaimSize } from "./claim-size.ts";
import { ClaimedStarts } from "./claimed-starts.ts";
import { givenBack } from "./outcome.ts";
import type { WorkerParts } from "./parts.ts";

/**
 * A handler is called within `GRANT_TTL_MS` of the claim, or never: the storage counts its start at the end of that time until it is
 * confirmed. If a storage takes longer to answer, the next claim asks for more time, up to the second number.
 */
const GRANT_TTL_MS = 2_000;
const LONGEST_GRANT_TTL_MS = 60_000;
/** Reported every time that grants of the limiter were too old for so many claims in a row. */
const REPORT_STALE = 5;
/** Reported when answers to claims came too late so many times in a row, once until one comes in time. */
const REPORT_LATE = 3;

/** Starts the jobs of a claim, or gives all of them back if its answer came too late. */
export class Starter {
  /** How much the next claim asks for. */
  readonly size = new ClaimSize();
  readonly #parts: WorkerParts;
  #grantTtlMs = GRANT_TTL_MS;
  /** For how many claims in a row grants of the limiter were too old. */
  #stale = 0;

  constructor(parts: WorkerParts) {
    this.#parts = parts;
  }

  /** How long after its claim a handler may be called. */
  get grantTtlMs(): number {
    return this.#grantTtlMs;
  }

  /** `asked`: when the claim was sent. `grants`: of the limiter, one for each job. `cancelled`: ids of jobs to cancel at once. */
  start(claim: Claim, asked: Mark, grants: readonly LimiterGrant[], cancelled: ReadonlySet<string>): void {
    const { jobs, grant } = claim;
    const { isRunning, confirmations, inFlight, report } = this.#parts;
    const { clock, lease: leaseMs, defaults } = this.#parts.settings;
    const now = clock.now();
    const ttl = this.#grantTtlMs;
    // The starts that the claim counted under limits that go by time.
    const starts =
      grant && new ClaimedStarts({ clock, asked, grantTtlMs: ttl, grant, count: jobs.length, confirmations });
    const late = starts?.late === true;
    const stale = grants.some((one) => one.late);
    if (late) this.#grantTtlMs = Math.min(2 * ttl, LONGEST_GRANT_TTL_MS);
    else if (now - asked.now <= GRANT_TTL_MS) this.#grantTtlMs = GRANT_TTL_MS;
    // A job whose lease is half over is not started either: the lease may expire, and another worker may start the job.
    const tookMs = now - asked.now;
    const allowedMs = Math.min(leaseMs / 2, starts === undefined ? Number.POSITIVE_INFINITY : ttl);
    const expired = tookMs >= leaseMs / 2;
    if (late || stale || expired || !isRunning()) {
      for (const one of grants) inBackground(() => one.cancel(), report);
      if (stale) this.#metStale();
      else if (late || expired) this.#metLate(jobs, tookMs, allowedMs);
      return this.giveBack(claim);
    }
    this.#stale = 0;
    this.size.inTime(tookMs, allowedMs);
    const origin = { claimedAt: now, leasedUntil: asked.now + leaseMs, grants, starts };
    inFlight.add(defaults === undefined ? jobs : jobs.map(defaults), origin, cancelled);
  }

  /** Gives back all jobs of a claim. None of their handlers was called, so the grant is confirmed at once. */
  giveBack({ jobs, grant }: Claim): void {
    const { confirmations, settle } = this.#parts;
    if (grant !== undefined) confirmations.add({ grant: grant.id, calledInMs: 0 }, grant.confirmInMs);
    settle(jobs.map((job) => givenBack(job)));
  }

  /** Grants of the limiter were too old when jobs had been claimed for them. If that is always so, nothing ever starts. */
  #metStale(): void {
    this.#stale += 1;
    if (this.#stale % REPORT_STALE !== 0) return;
    this.#parts.report(
      new JobError(
        `the grants of the limiter were too old ${this.#stale} times in a row when jobs had been claimed for them: ` +
          "give the limiter a longer `grantTtl`, or reduce the load of the storage",
      ),
    );
  }

  /** The answer to a claim came too late to start its jobs. The next claim asks for less. */
  #metLate(jobs: readonly JobRecord[], tookMs: number, allowedMs: number): void {
    const bytes = jobs.reduce((sum, { data }) => sum + data.length, 0);
    const times = this.size.late({ jobs: jobs.length, bytes });
    if (times !== REPORT_LATE) return;
    this.#parts.report(
      new JobError(
        `claims were answered too late ${times} times in a row, and their jobs given back: the latest took ` +
          `${Math.round(tookMs) / 1_000} s for ${jobs.length} jobs with ${bytes} bytes of data, and ${allowedMs / 1_000} s are ` +
          "allowed. The worker asks for less; if that does not help, bring it nearer to its storage, keep large data " +
          "elsewhere and pass a reference, or give it a longer `lease`",
      ),
    );
  }
}
