import { FakeClock } from "../../../src/testing/index.ts";
import type { Traffic } from "./traffic.ts";

/**
 * Time that stands still until it is moved, for a storage whose clock is that of its server: nothing reaches the server before
 * it was told the time, and moving on waits for what is on its way.
 */
export class ServerClock extends FakeClock {
  readonly #traffic: Traffic;

  /** `tell`: writes down the time at the server. */
  constructor(traffic: Traffic, tell: (wall: number) => Promise<unknown>) {
    super();
    this.#traffic = traffic;
    let told = Number.NaN;
    let telling: Promise<void> | undefined;
    traffic.gate = () => {
      const wall = this.wall();
      if (told !== wall) {
        told = wall;
        const now = (telling ?? Promise.resolve())
          .then(() => tell(wall))
          .then(() => {
            if (telling === now) telling = undefined;
          });
        telling = now;
      }
      return telling;
    };
  }

  override async advance(ms: number): Promise<void> {
    await this.#traffic.quiet();
    let left = ms;
    for (let next = this.nextTimerIn; next !== undefined && next <= left; next = this.nextTimerIn) {
      await super.advance(next);
      left -= next;
      await this.#traffic.quiet();
    }
    await super.advance(left);
    await this.#traffic.quiet();
  }
}
