import type { WakeUps } from "../limits/wake-ups.ts";

/** Those who wait in a row, of whom the first is held up by a limit. */
export interface WaitingLine {
  /** When its first came, compared with everyone else in this process. */
  readonly firstOrder: number;
  /** How much longer that one waits at the least, as far as anybody can tell. */
  readonly remaining: number;
  /** Lets everyone start whose turn has come. */
  advance(): void;
}

/** The lines that one limit holds up, in the order in which their first waiters came. Nobody passes the first of them. */
export class Blocked {
  readonly wakeUps: WakeUps;
  /** The first line. A field of its own, for it is looked at before every start. */
  first: WaitingLine | undefined = undefined;
  readonly #lines: WaitingLine[] = [];
  #stopListening: (() => void) | undefined;
  #waking = false;
  #wakeAgain = false;

  /** `wakeUps` tells when there may be room. */
  constructor(wakeUps: WakeUps) {
    this.wakeUps = wakeUps;
  }

  get length(): number {
    return this.#lines.length;
  }

  /** The first waiter of a line has to wait here. */
  add(line: WaitingLine): void {
    let position = this.#lines.length;
    while (position > 0 && this.#lines[position - 1]!.firstOrder > line.firstOrder) position -= 1;
    this.#lines.splice(position, 0, line);
    this.first = this.#lines[0];
    this.#stopListening ??= this.wakeUps.listen(() => this.#wake());
  }

  /** It need not any more. */
  remove(line: WaitingLine): void {
    const position = this.#lines.indexOf(line);
    if (position !== -1) this.#lines.splice(position, 1);
    this.first = this.#lines[0];
    if (this.first !== undefined) return;
    this.#stopListening?.();
    this.#stopListening = undefined;
  }

  /** There may be room: they try again, in order, until one has to go on waiting. */
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
