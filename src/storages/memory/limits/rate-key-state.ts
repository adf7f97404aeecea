import type { KeyState } from "../../../limits/key-state.ts";
import type { RateState } from "../../../limits/rate-state.ts";

/** The numbers of a limit whose log `rates` keeps as well: its hold is that of the rate, whichever of the two sets it. */
export class RateKeyState implements KeyState {
  latestAt: number | null = null;
  calledAt: number | null = null;
  calledBy: number | null = null;
  calledIn = 0;
  remaining: number | null = null;
  remainingUntil: number | null = null;
  failures = 0;
  openUntil: number | null = null;
  readonly #rate: RateState;

  constructor(rate: RateState) {
    this.#rate = rate;
  }

  get heldUntil(): number | null {
    const { until } = this.#rate.hold;
    return until === Number.NEGATIVE_INFINITY ? null : until;
  }

  set heldUntil(until: number | null) {
    this.#rate.hold.until = until ?? Number.NEGATIVE_INFINITY;
  }
}
