import type { Clock } from "../core/clock.ts";
import { NEVER, type Wait, WHEN_RELEASED } from "../limits/wait.ts";
import { both } from "../limits/compose.ts";
import type { Gate } from "./gate.ts";
import { type AnyPart, type Member, weightFor, type Weights } from "./taking.ts";

/** All were taken, with what each gave for it; or one refused, and nothing was. */
export type Attempt =
  | { readonly tokens: readonly unknown[] }
  | {
      readonly refusedBy: AnyPart;
      readonly wait: Wait;
      /** `room.times` of that part when it was asked: if it has moved on since, do not go to sleep. */
      readonly times: number;
    };

/**
 * Takes all parts or none, where some of them cannot be taken synchronously:
 *
 * 1. Gates are asked: that costs nothing and spares the others a take that would have to be undone.
 * 2. Remote parts take, checked parts are asked, in the order given; the first refusal ends it.
 * 3. Gates are asked again and take, in one synchronous step.
 * 4. Checked parts, which know no undo, are told. Nothing can refuse any more.
 *
 * Whatever a refusal or a throw finds taken is given back. Checked parts are locked throughout.
 */
export async function attempt(members: readonly Member[], weights: Weights, clock: Clock): Promise<Attempt> {
  const unlock = await lockAll(members);
  try {
    for (;;) {
      const outcome = await once(members, weights, clock);
      if (outcome !== "expired") return outcome;
    }
  } finally {
    unlock();
  }
}

async function once(members: readonly Member[], weights: Weights, clock: Clock): Promise<Attempt | "expired"> {
  const tokens: unknown[] = [];
  const undo: (() => Promise<void> | void)[] = [];
  let expiresAt = Number.POSITIVE_INFINITY;
  try {
    const first = askGates(members, weights, clock, clock.now());
    if (first !== undefined) return first;

    for (const [i, member] of members.entries()) {
      const { part } = member;
      const { times } = part.room;
      const weight = weightFor(weights, member);
      if (part.kind === "remote") {
        expiresAt = Math.min(expiresAt, clock.now() + part.grantTtl);
        const answer = await part.tryTake(member.takes ? weight : 0);
        if (!("token" in answer)) {
          await giveBack(undo);
          return { refusedBy: part, wait: answer.wait, times };
        }
        tokens[i] = answer.token;
        if (member.takes) undo.push(() => part.cancel(answer.token, weight));
      } else if (part.kind === "checked") {
        const wait = await part.ask(weight, clock);
        if (wait !== 0) {
          await giveBack(undo);
          return { refusedBy: part, wait, times };
        }
      }
    }

    const now = clock.now();
    // The process was paused between grant and use: the grants stay counted, for nobody knows what they met.
    if (now > expiresAt) return "expired";
    const second = askGates(members, weights, clock, now);
    if (second !== undefined) {
      await giveBack(undo);
      return second;
    }
    for (const [i, member] of members.entries()) {
      const { part } = member;
      if (part.kind !== "gate" || !member.takes) continue;
      const weight = weightFor(weights, member);
      const token = part.take(part.timeAt(clock, now), weight);
      tokens[i] = token;
      undo.push(() => part.cancel(token, weight));
    }

    for (const { part } of members) {
      if (part.kind !== "checked") continue;
      await part.record();
      undo.push(() => part.release(undefined, 1));
    }
    return { tokens };
  } catch (error) {
    // The first failure is the one to tell; what follows from it is not.
    await giveBack(undo).catch(() => {});
    throw error;
  }
}

/** The gate that is in the way the longest, if one is. */
function askGates(members: readonly Member[], weights: Weights, clock: Clock, now: number): Attempt | undefined {
  let wait: Wait = 0;
  let refusedBy: Gate | undefined;
  for (const member of members) {
    if (member.part.kind !== "gate") continue;
    const gate = member.part;
    // Nobody passes those who wait there in line.
    const behind = gate.blocked.first !== undefined;
    const own = behind ? WHEN_RELEASED : gate.wait(gate.timeAt(clock, now), weightFor(weights, member));
    const joint = both(wait, own);
    if (joint !== wait) {
      wait = joint;
      refusedBy = gate;
    }
    if (wait === NEVER) break;
  }
  return refusedBy && { refusedBy, wait, times: refusedBy.room.times };
}

/** Last taken, first given back; and all of it, whatever fails. */
async function giveBack(undo: (() => Promise<void> | void)[]): Promise<void> {
  let failure: { readonly error: unknown } | undefined;
  for (let step = undo.pop(); step !== undefined; step = undo.pop()) {
    try {
      await step();
    } catch (error) {
      failure ??= { error };
    }
  }
  if (failure !== undefined) throw failure.error;
}

async function lockAll(members: readonly Member[]): Promise<() => void> {
  const locks = new Set(members.flatMap(({ part }) => (part.kind === "checked" ? [part.lock] : [])));
  const ends: (() => void)[] = [];
  for (const lock of [...locks].toSorted((a, b) => a.order - b.order)) ends.push(await lock.take());
  return () => {
    for (const end of ends) end();
  };
}
