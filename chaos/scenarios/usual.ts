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

/** What is checked after every scenario. `drained`: it waited until nothing was left to do, so nothing may be left. */
export function usual(
  history: Digest,
  final: Final,
  { drained, outages }: { readonly drained: boolean; readonly outages?: boolean | undefined },
): Verdict[] {
  return [
    noLoss(history, final, { drained }),
    oneSettlement(history, final),
    fencing(history, final),
    exclusiveLeases(history),
    concurrency(history, slotsOf(history)),
    accounting(history, final),
    hygiene(history, { outages }),
  ];
}

/** How many handlers each worker may run. */
export function slotsOf(history: Digest): Map<string, number> {
  return new Map(history.notes.flatMap(({ kind, p, value }) => (kind === "ready" && value > 0 ? [[p, value]] : [])));
}
