import { FakeClock } from "../../../src/testing/index.ts";
import type { Traffic } from "./traffic.ts";

/**
 * Time that stands still until it is moved, for a storage whose clock is that of its server: the time is written to the server
 * before any other statement, and moving on waits for statements that are under way.
 */
export class ServerClock extends FakeClock {
  readonly #traffic: Traffic;

  /** `write`: writes the time to the server. */
  constructor(traffic: Traffic, write: (wall: number) => Promise<unknown>) {
    super();
    this.#traffic = traffic;
    let written = Number.NaN;
    let writing: Promise<void> | undefined;
    traffic.gate = () => {
      const wall = this.wall();
      if (written !== wall) {
        written = wall;
        const now = (writing ?? Promise.resolve())
          .then(() => write(wall))
          .then(() => {
            if (writing === now) writing = undefined;
          });
        writing = now;
      }
      return writing;
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
