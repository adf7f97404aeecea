import { type Granted, confirmCall } from "../../../limits/key-state.ts";
import { quotaOf } from "../../../limits/rule.ts";
import { callStart } from "../../../limits/window.ts";
import { type Confirmation, confirmInMs, type Grant } from "../../../storage/grants.ts";
import type { Charged } from "./limit-state.ts";

/** An unconfirmed grant is kept for so long: a call that was made too late may still be confirmed. */
const KNOWN_MS = 3_600_000;
/** From so many on, older ones are removed. */
const MANY = 100;

interface Kept {
  readonly granted: Granted;
  readonly at: number;
  readonly charged: readonly Charged[];
}

/** Starts that are granted and not confirmed yet. */
export class Grants {
  #last = 0;
  readonly #kept = new Map<string, Kept>();

  /** A grant whose calls are made within so long, or never. */
  next(time: number, ttlMs: number): Granted {
    this.#last += 1;
    return { by: this.#last, until: time + ttlMs };
  }

  /** Keeps the charges of a grant until it is confirmed. Undefined: none of them is for a window or spacing. */
  keep(granted: Granted, starts: readonly (readonly Charged[])[], time: number): Grant | undefined {
    const charged: Charged[] = [];
    let shortest = Number.POSITIVE_INFINITY;
    for (let start = 0; start < starts.length; start++) {
      const before = starts[start - 1];
      for (let i = 0; i < starts[start]!.length; i++) {
        const each = starts[start]![i]!;
        // Starts with the same charges share them.
        if (each === before?.[i]) continue;
        const { windowMs, everyMs } = quotaOf(each.rule, each.limitState.group);
        if ((windowMs === null || each.entry === undefined) && everyMs === null) continue;
        charged.push(each);
        shortest = Math.min(shortest, windowMs ?? shortest, everyMs ?? shortest);
      }
    }
    if (charged.length === 0) return undefined;
    if (this.#kept.size >= MANY) this.#forgetOld(time);
    const id = String(granted.by);
    this.#kept.set(id, { granted, at: time, charged });
    return { id, confirmInMs: confirmInMs(shortest) };
  }

  /** `time`: now. No call was made after it was confirmed, whatever the clocks of its caller say. */
  confirm({ grant, calledInMs }: Confirmation, time: number): void {
    const kept = this.#kept.get(grant);
    if (kept === undefined) return;
    this.#kept.delete(grant);
    const at = Math.min(kept.at + calledInMs, time);
    for (let i = 0; i < kept.charged.length; i++) {
      const { entry, keyState } = kept.charged[i]!;
      if (entry !== undefined) callStart(entry, at);
      confirmCall(keyState, kept.granted.by, at, at - kept.at);
    }
  }

  #forgetOld(time: number): void {
    for (const [id, { at }] of this.#kept) {
      if (time - at < KNOWN_MS) break;
      this.#kept.delete(id);
    }
  }

  /** All its charges were cancelled. */
  forget(granted: Granted | undefined): void {
    if (granted !== undefined) this.#kept.delete(String(granted.by));
  }
}
