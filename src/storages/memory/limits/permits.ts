import { Heap, type Slotted } from "../heap.ts";
import type { Charged } from "./limit-state.ts";

/** What was charged of a limit outside of any job. */
export interface Permit extends Slotted {
  readonly token: string;
  readonly charged: Charged;
  /** Something of it comes back when it ends. */
  readonly held: boolean;
  /** From then on nothing can be given back, or said about it. */
  expiresAt: number;
  /** What was held came back, and nothing can be charged back: only what was really used may still be said. */
  ended: boolean;
}

/** Permits that are under way, the one in front that expires first. */
export class Permits {
  readonly #all = new Map<string, Permit>();
  readonly #order = new Heap<Permit>((a, b) => a.expiresAt - b.expiresAt);

  get first(): Permit | undefined {
    return this.#order.first;
  }

  hasExpired(time: number): boolean {
    return (this.first?.expiresAt ?? Number.POSITIVE_INFINITY) <= time;
  }

  /** One that has not expired, whether or not it has ended. */
  find(token: string, time: number): Permit | undefined {
    const permit = this.#all.get(token);
    return permit === undefined || permit.expiresAt <= time ? undefined : permit;
  }

  add(permit: Permit): void {
    this.#all.set(permit.token, permit);
    this.#order.add(permit);
  }

  /** It is forgotten at another time. */
  keep(permit: Permit, expiresAt: number): void {
    permit.expiresAt = expiresAt;
    this.#order.moved(permit);
  }

  remove(permit: Permit): void {
    this.#all.delete(permit.token);
    this.#order.remove(permit);
  }
}
