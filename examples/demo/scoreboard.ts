import { useOfAllowance } from "./arithmetic.ts";
import type { Plan } from "./plan.ts";

/** One worker process, as it looks from outside. */
export interface Player {
  readonly pid: number;
  done: number;
  /** The jobs it is at. */
  readonly running: Set<string>;
  killed: boolean;
}

/** What happened to the process that was killed. Instants are by the clock of the demo. */
export interface Killing {
  /** Which of the processes. */
  readonly player: number;
  readonly at: number;
  /** The jobs it held a lease on. */
  readonly inHand: Set<string>;
  /** When the last of them was given back, … */
  backAt: number | undefined;
  /** … and when the last of them was started again. */
  againAt: number | undefined;
}

/** The progress of the demo. Every message is recorded here; the picture is drawn from it. */
export class Scoreboard {
  readonly plan: Plan;
  /** When work began. */
  startedAt: number;
  readonly players: Player[] = [];
  readonly done = new Set<string>();
  readonly failures: string[] = [];
  /** When calls were made. */
  readonly starts: number[] = [];
  refused = 0;
  /** What was in the way when a worker last asked, and until when. */
  blocked: { readonly by: string; readonly until: number } | undefined;
  killing: Killing | undefined;
  /** When the last message arrived. */
  messageAt: number;
  readonly #back = new Set<string>();
  readonly #again = new Set<string>();

  constructor(plan: Plan, now: number) {
    this.plan = plan;
    this.startedAt = now;
    this.messageAt = now;
  }

  started(player: number, id: string, now: number): void {
    this.messageAt = now;
    this.starts.push(now);
    this.players[player]!.running.add(id);
    if (this.killing?.inHand.has(id) && player !== this.killing.player) {
      this.#again.add(id);
      if (this.#again.size === this.killing.inHand.size) this.killing.againAt ??= now;
    }
  }

  ended(player: number, id: string, now: number): void {
    this.messageAt = now;
    const one = this.players[player]!;
    one.running.delete(id);
    // What a killed process said last may come late; a job that it had in hand is to be done again, whatever it said.
    if (this.done.has(id) || (one.killed && this.killing?.inHand.has(id))) return;
    this.done.add(id);
    one.done += 1;
  }

  refusedOne(player: number, id: string, now: number): void {
    this.messageAt = now;
    this.refused += 1;
    this.players[player]!.running.delete(id);
  }

  /** The lease of a job of the killed process was taken back. */
  stalled(id: string, now: number): void {
    if (!this.killing?.inHand.has(id)) return;
    this.#back.add(id);
    if (this.#back.size === this.killing.inHand.size) this.killing.backAt ??= now;
  }

  killed(player: number, inHand: readonly string[], now: number): void {
    const one = this.players[player]!;
    one.killed = true;
    one.running.clear();
    // The call was made, but was not recorded.
    for (const id of inHand) if (this.done.delete(id)) one.done -= 1;
    this.killing = { player, at: now, inHand: new Set(inHand), backAt: undefined, againAt: undefined };
  }

  get running(): number {
    return this.players.reduce((sum, { running }) => sum + running.size, 0);
  }

  get waiting(): number {
    return Math.max(0, this.plan.jobs - this.done.size - this.running);
  }

  get use(): number | undefined {
    return this.plan.unlimited ? undefined : useOfAllowance(this.starts, this.plan);
  }
}
