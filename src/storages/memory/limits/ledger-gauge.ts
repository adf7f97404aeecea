import type { KeyState } from "../../../limits/key-state.ts";
import type { RateState } from "../../../limits/rate-state.ts";

/** What a limit keeps beside a log that `rates` knows as well: the pause is that of the ledger, whoever sets it. */
export class LedgerGauge implements KeyState {
  latestAt: number | null = null;
  calledAt: number | null = null;
  calledBy: number | null = null;
  calledIn = 0;
  toldLeft: number | null = null;
  toldUntil: number | null = null;
  failures = 0;
  openUntil: number | null = null;
  readonly #ledger: RateState;

  constructor(ledger: RateState) {
    this.#ledger = ledger;
  }

  get pausedUntil(): number | null {
    const { until } = this.#ledger.hold;
    return until === Number.NEGATIVE_INFINITY ? null : until;
  }

  set pausedUntil(until: number | null) {
    this.#ledger.hold.until = until ?? Number.NEGATIVE_INFINITY;
  }
}
