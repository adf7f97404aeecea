import {
  adaptiveGap,
  callSpaced,
  cancelSpaced,
  createDurations,
  createSpacing,
  grantSpaced,
  recordDuration,
  recordSpaced,
  type SpacedStart,
  spacingWait,
} from "../limits/spacing.ts";
import { createHold, type Hold, holdWait } from "../limits/hold.ts";
import type { Wait } from "../limits/wait.ts";
import { Gate, type GateSettings, type LimiterGate } from "./gate.ts";

/** At least so much time from one start to the next. */
export class SpacingGate extends Gate<SpacedStart> implements LimiterGate {
  readonly capacity = Number.POSITIVE_INFINITY;
  hold: Hold = createHold();
  protected readonly interval: number;
  #spacing = createSpacing();

  constructor(interval: number, settings: GateSettings) {
    super(settings);
    this.interval = interval;
  }

  wait(now: number): Wait {
    return Math.max(spacingWait(this.#spacing, now), holdWait(this.hold, now));
  }

  take(now: number, weight: number): SpacedStart {
    return grantSpaced(this.#spacing, now, this.gap(this.units(weight)));
  }

  override called(token: SpacedStart): void {
    callSpaced(this.#spacing, token, this.clock.now());
  }

  recordStart(): void {
    recordSpaced(this.#spacing, this.clock.now(), this.gap(1));
  }

  cancel(token: SpacedStart): void {
    cancelSpaced(this.#spacing, token);
    this.wakeUps.notify();
  }

  reset(): void {
    this.#spacing = createSpacing();
    this.hold = createHold();
  }

  /** What is to follow a start: an interval for every unit of its weight. */
  protected gap(units: number): number {
    return this.interval * units;
  }
}

/** The gap shrinks by the average duration of the work. Alone it bounds nothing: it is combined with a window. */
export class AdaptiveSpacingGate extends SpacingGate {
  readonly #remembered: number;
  #durations;
  /** When the starts without a permit began that have not ended yet, as far back as durations are remembered. */
  #recorded: number[] = [];

  constructor(interval: number, remembered: number, settings: GateSettings) {
    super(interval, settings);
    this.#remembered = remembered;
    this.#durations = createDurations(remembered);
  }

  override release(token: SpacedStart): void {
    recordDuration(this.#durations, Math.max(0, this.clock.now() - token.at));
  }

  override recordStart(): void {
    super.recordStart();
    this.#recorded.push(this.clock.now());
    if (this.#recorded.length > this.#remembered) this.#recorded.shift();
  }

  recordCompletion(): void {
    const startedAt = this.#recorded.shift();
    if (startedAt !== undefined) recordDuration(this.#durations, Math.max(0, this.clock.now() - startedAt));
  }

  override reset(): void {
    this.#durations = createDurations(this.#remembered);
    this.#recorded = [];
    super.reset();
  }

  protected override gap(units: number): number {
    return adaptiveGap(this.interval, this.#durations) * units;
  }
}
