import type { Clock } from "../core/clock.ts";
import { OptionsError } from "../core/errors.ts";
import { both } from "../limits/compose.ts";
import { NEVER, type Wait, WHEN_RELEASED } from "../limits/wait.ts";
import type { WaitingLine } from "./blocked.ts";
import { type AnyPart, isLate, isWeightGiven, type Member, type Tokens, weightFor, type Weights } from "./charging.ts";

/** All parts granted, with their tokens; or one refused, and nothing is charged; or the request was abandoned. */
export type Attempt = { readonly tokens: Tokens } | Refused | "unwanted";

export interface Refused {
  readonly refusedBy: AnyPart;
  readonly wait: Wait;
  /** The most that the part could ever grant, where the weight exceeds it. */
  readonly most?: number | undefined;
  /** `wakeUps.times` of that part when it was asked: if it has changed since, do not sleep. */
  readonly times: number;
}

/** After so many late answers of a storage the attempt fails. */
const MOST_TOO_LATE = 5;

/**
 * Charges all parts or none, where some of them are not gates:
 *
 * 1. Gates are checked: that costs nothing, and avoids charges elsewhere that would have to be undone.
 * 2. Checked parts are checked, in order, under their locks.
 * 3. Remote parts are charged, in order.
 * 4. Gates are checked again and charged, in one synchronous step.
 * 5. Checked parts, which have no undo, record the start. Nothing can refuse any more.
 *
 * A refusal or an error returns what was charged before it.
 */
export async function attempt(
  members: readonly Member[],
  weights: Weights,
  clock: Clock,
  asker: Asker,
): Promise<Attempt> {
  const unlock = await lockAll(members);
  try {
    for (let tooLate = 0; asker.wanted(); tooLate++) {
      if (tooLate === MOST_TOO_LATE) throw slow(members);
      const outcome = await new SingleAttempt(members, weights, clock, asker).run();
      if (outcome !== "too late") return outcome;
    }
    return "unwanted";
  } finally {
    unlock();
  }
}

/** The request that an attempt is for. */
export interface Asker {
  /** Is the request still waiting? */
  readonly wanted: () => boolean;
  /** May it start although this line is blocked at a gate that it needs? */
  readonly passes: (line: WaitingLine) => boolean;
}

/** A charged member, and its token. */
interface Step {
  readonly part: AnyPart;
  readonly undo: () => Promise<void> | void;
}

/** One attempt at all parts. */
class SingleAttempt {
  readonly #members: readonly Member[];
  readonly #weights: Weights;
  readonly #clock: Clock;
  readonly #asker: Asker;
  readonly #tokens: unknown[] = [];
  readonly #taken: Step[] = [];

  constructor(members: readonly Member[], weights: Weights, clock: Clock, asker: Asker) {
    this.#members = members;
    this.#weights = weights;
    this.#clock = clock;
    this.#asker = asker;
  }

  async run(): Promise<Attempt | "too late"> {
    try {
      const refused =
        this.#impossible() ?? this.#askGates() ?? (await this.#askChecked()) ?? (await this.#takeRemote());
      if (refused !== undefined) return await this.#giveBack(refused);
      if (isLate(this.#members, this.#ordered)) return await this.#giveBack("too late");
      if (!this.#asker.wanted()) return await this.#giveBack("unwanted");
      const late = this.#askGates();
      if (late !== undefined) return await this.#giveBack(late);
      this.#takeGates();
      await this.#recordChecked();
      return isLate(this.#members, this.#ordered) ? await this.#giveBack("too late") : { tokens: this.#ordered };
    } catch (error) {
      // Report the first failure, not those that follow from it.
      await this.#giveBack(undefined).catch(() => {});
      throw error;
    }
  }

  #impossible(): Refused | undefined {
    for (const member of this.#members) {
      const { part } = member;
      if (part.kind !== "remote" || part.counts === "starts") continue;
      if (weightFor(this.#weights, member) > part.capacity) return refusedBy(part, NEVER);
    }
    return undefined;
  }

  /** The gate with the longest wait, if one refuses. */
  #askGates(): Refused | undefined {
    const now = this.#clock.now();
    let refused: Refused | undefined;
    for (const member of this.#members) {
      const gate = member.part;
      if (gate.kind !== "gate") continue;
      // A line that is blocked at the gate is not passed.
      const behind = gate.blocked.first !== undefined && !this.#asker.passes(gate.blocked.first);
      const wait = behind ? WHEN_RELEASED : gate.wait(gate.timeAt(this.#clock, now), weightFor(this.#weights, member));
      const joint = both(refused?.wait ?? 0, wait);
      if (joint !== (refused?.wait ?? 0)) refused = refusedBy(gate, joint);
    }
    return refused;
  }

  async #askChecked(): Promise<Refused | undefined> {
    for (const member of this.#members) {
      const { part } = member;
      if (part.kind !== "checked") continue;
      const { times } = part.wakeUps;
      const wait = await part.ask(weightFor(this.#weights, member), this.#clock);
      if (wait !== 0) return { refusedBy: part, wait, times };
    }
    return undefined;
  }

  async #takeRemote(): Promise<Refused | undefined> {
    for (const [i, member] of this.#members.entries()) {
      const { part } = member;
      if (part.kind !== "remote") continue;
      const { times } = part.wakeUps;
      const weight = weightFor(this.#weights, member);
      const answer = await part.tryTake(member.takes ? weight : 0, isWeightGiven(this.#weights, member));
      if (!("token" in answer)) return { refusedBy: part, wait: answer.wait, most: answer.most, times };
      const { token } = answer;
      this.#tokens[i] = token;
      if (!member.takes) continue;
      this.#taken.push({ part, undo: () => part.cancel(token, weight) });
    }
    return undefined;
  }

  /** Charges of gates count from the call, however long the checked parts take to record it. */
  #takeGates(): void {
    const now = this.#clock.now();
    for (const [i, member] of this.#members.entries()) {
      const { part } = member;
      if (part.kind !== "gate" || !member.takes) continue;
      const weight = weightFor(this.#weights, member);
      const token = part.take(part.timeAt(this.#clock, now), weight);
      this.#tokens[i] = token;
      this.#taken.push({ part, undo: () => part.cancel(token, weight) });
    }
  }

  async #recordChecked(): Promise<void> {
    for (const { part, takes } of this.#members) {
      if (part.kind !== "checked" || !takes) continue;
      await part.recordStart();
      this.#taken.push({ part, undo: () => part.release(undefined, 1) });
    }
  }

  /** Of a single member, not in an array. */
  get #ordered(): Tokens {
    return this.#members.length === 1 ? this.#tokens[0] : this.#tokens;
  }

  /** Returns all charges in reverse order, whichever of them fail, and wakes waiters that were refused meanwhile. */
  async #giveBack<T>(outcome: T): Promise<T> {
    let failure: { readonly error: unknown } | undefined;
    for (let step = this.#taken.pop(); step !== undefined; step = this.#taken.pop()) {
      try {
        await step.undo();
        if (step.part.kind !== "gate") step.part.wakeUps.notify();
      } catch (error) {
        failure ??= { error };
      }
    }
    if (failure !== undefined) throw failure.error;
    return outcome;
  }
}

function refusedBy(part: AnyPart, wait: Wait): Refused {
  return { refusedBy: part, wait, times: part.wakeUps.times };
}

/** The error for a storage that always answers too late. */
function slow(members: readonly Member[]): OptionsError {
  const strictest = members
    .flatMap(({ part }) => (part.kind === "remote" ? [part] : []))
    .toSorted((a, b) => a.grantTtl - b.grantTtl)[0];
  return new OptionsError(
    strictest?.name ?? "RateLimiter",
    "grantTtl",
    strictest?.grantTtl,
    "longer than it takes to be granted something and to use it",
    `that was exceeded ${MOST_TOO_LATE} times in a row, and what was granted was given back`,
  );
}

/** In a fixed order, so that no two callers wait for each other. */
async function lockAll(members: readonly Member[]): Promise<() => void> {
  const locks = new Set(members.flatMap(({ part }) => (part.kind === "checked" ? [part.lock] : [])));
  const ends: (() => void)[] = [];
  for (const lock of [...locks].toSorted((a, b) => a.order - b.order)) ends.push(await lock.take());
  return () => {
    for (const end of ends) end();
  };
}
