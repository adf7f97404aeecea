import type { Claim, ClaimRequest } from "../../../storage/job-storage.ts";
import { isBroughtLongAgo, keepBrought } from "../limits/brought-limits.ts";
import { confirm } from "../limits/grants.ts";
import type { Step } from "../step.ts";
import { catchUp, isAnyLate } from "./due.ts";
import { OpenTypes } from "./open-types.ts";
import { claimPlanned, glancePlanned } from "./planned-claim.ts";
import { settle } from "./settle.ts";
import { claimUniform, glanceUniform, isUniform } from "./uniform-claim.ts";

/** Settles, then starts jobs and charges their limits. */
export function claim(step: Step, request: ClaimRequest): Claim {
  confirm(step, request.confirm ?? []);
  const stale = settle(step, request.settle);
  catchUp(step, request.queue);
  keepBrought(step, request);
  const types = new OpenTypes(step, request.queue, request.types);
  const rules = step.rules.forClaim(request);
  // Lanes with keys go by their first jobs: that is for the planner.
  const fast = isUniform(rules.all, request) && !types.keyed;
  return {
    stale,
    ...(fast ? claimUniform(step, request, types, rules.all) : claimPlanned(step, request, types, rules)),
  };
}

/**
 * The same without any lock, where it takes nothing: the answer to a claim in vain, or to one that only looks.
 * Undefined: there is something to do.
 */
export function glance(step: Step, request: ClaimRequest): Claim | undefined {
  // Workers of one queue may differ in what they bring along: a claim in vain takes no lock for that.
  if (isAnyLate(step) || (request.limits.length > 0 && isBroughtLongAgo(step, request.queue))) return undefined;
  const types = new OpenTypes(step, request.queue, request.types);
  const rules = step.rules.forClaim(request);
  const seen = isUniform(rules.all, request)
    ? glanceUniform(step, request, types, rules.all)
    : glancePlanned(step, request, types, rules);
  return seen && { stale: [], ...seen };
}
