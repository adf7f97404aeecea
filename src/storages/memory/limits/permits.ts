import { Heap, NOWHERE, type Slotted } from "../heap.ts";
import type { Charged } from "./limit-state.ts";

/** What was charged under a limit outside of any job. */
export interface Permit extends Slotted {
  readonly token: string;
  readonly charged: Charged;
  /** From then on it cannot be released, cancelled or settled. */
  expiresAt: number;
  /** It was released, and cannot be cancelled: it may still be settled. */
  ended: boolean;
}

/** Permits that are under way, the one in front that expires first. */
export class Permits {
  readonly #all = new Map<string, Permit>();
  readonly #order = new Heap<Permit>((a, b) => a.expiresAt - b.expiresAt);
  #last = 0;

  get first(): Permit | undefined {
    return this.#order.first;
  }

  hasExpired(time: number): boolean {
    return (this.first?.expiresAt ?? Number.POSITIVE_INFINITY) <= time;
  }

  /** A permit that has not expired, whether or not it has ended. */
  find(token: string, time: number): Permit | undefined {
    const permit = this.#all.get(token);
    return permit === undefined || permit.expiresAt <= time ? undefined : permit;
  }

  /** Returns the token. */
  add(charged: Charged, expiresAt: number): string {
    const token = `p${(this.#last += 1)}`;
    const permit = { token, charged, expiresAt, ended: false, slot: NOWHERE };
    this.#all.set(token, permit);
    this.#order.add(permit);
    return token;
  }

  expireAt(permit: Permit, expiresAt: number): void {
    permit.expiresAt = expiresAt;
    this.#order.moved(permit);
  }

  remove(permit: Permit): void {
    this.#all.delete(permit.token);
    this.#order.remove(permit);
  }
}
