import { accounting } from "../checkers/accounting.ts";
import { concurrency } from "../checkers/concurrency.ts";
import { fencing } from "../checkers/fencing.ts";
import { hygiene } from "../checkers/hygiene.ts";
import { exclusiveLeases } from "../checkers/leases.ts";
import { noLoss } from "../checkers/loss.ts";
import { oneSettlement } from "../checkers/settlement.ts";
import type { Verdict } from "../checkers/verdict.ts";
import type { Digest } from "../history/digest.ts";
import type { Final } from "../history/final.ts";

interface Circumstances {
  /** The scenario waited until all jobs had ended, so none may be left. */
  readonly drained: boolean;
  /** The storage was unreachable at times. */
  readonly outages?: boolean | undefined;
  /** Other processes kept the processors busy. */
  readonly busy?: boolean | undefined;
}

/** What is checked after every scenario. */
export function usual(history: Digest, final: Final, { drained, outages, busy }: Circumstances): Verdict[] {
  return [
    noLoss(history, final, { drained }),
    oneSettlement(history, final),
    fencing(history, final),
    exclusiveLeases(history),
    concurrency(history, slotsOf(history)),
    accounting(history, final),
    hygiene(history, { outages, busy }),
  ];
}

/** How many handlers each worker may run. */
export function slotsOf(history: Digest): Map<string, number> {
  return new Map(history.notes.flatMap(({ kind, p, value }) => (kind === "ready" && value > 0 ? [[p, value]] : [])));
}
