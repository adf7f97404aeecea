import type { WakeUps } from "../limits/wake-ups.ts";

/** A line of waiters whose first is blocked by a limit. */
export interface WaitingLine {
  /** When its first waiter came, compared with all others in this process. */
  readonly firstOrder: number;
  /** How much longer that waiter waits at the least, as far as is known. */
  readonly remaining: number;
  /** Starts the waiters whose turn has come. */
  advance(): void;
}

/** The lines that one limit blocks, in the order in which their first waiters came. The first of them is not passed. */
export class Blocked {
  readonly wakeUps: WakeUps;
  /** The first line. A field of its own, because it is read before every start. */
  first: WaitingLine | undefined = undefined;
  readonly #lines: WaitingLine[] = [];
  #stopListening: (() => void) | undefined;
  #waking = false;
  #wakeAgain = false;

  /** `wakeUps` notifies when something was released. */
  constructor(wakeUps: WakeUps) {
    this.wakeUps = wakeUps;
  }

  get length(): number {
    return this.#lines.length;
  }

  /** Registers a line whose first waiter has to wait here. */
  add(line: WaitingLine): void {
    let position = this.#lines.length;
    while (position > 0 && this.#lines[position - 1]!.firstOrder > line.firstOrder) position -= 1;
    this.#lines.splice(position, 0, line);
    this.first = this.#lines[0];
    this.#stopListening ??= this.wakeUps.listen(() => this.#wake());
  }

  /** Removes a line. */
  remove(line: WaitingLine): void {
    const position = this.#lines.indexOf(line);
    if (position !== -1) this.#lines.splice(position, 1);
    this.first = this.#lines[0];
    if (this.first !== undefined) return;
    this.#stopListening?.();
    this.#stopListening = undefined;
  }

  /** Something was released: the lines try again, in order, until one stays blocked. */
  #wake(): void {
    if (this.#waking) {
      this.#wakeAgain = true;
      return;
    }
    this.#waking = true;
    do {
      this.#wakeAgain = false;
      for (let line = this.first; line !== undefined; line = this.first) {
        line.advance();
        if (this.first === line) break;
      }
    } while (this.#wakeAgain);
    this.#waking = false;
  }
}
