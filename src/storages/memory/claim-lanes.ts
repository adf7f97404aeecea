import type { ClaimRules } from "../../limits/claim-rules.ts";
import { shareOf } from "../../limits/rule.ts";
import type { Wait } from "../../limits/wait.ts";
import { neverFits } from "../../storage/stored-rules.ts";
import type { Decision, LimitKey, KeyCharge } from "../../planner/claim-limits.ts";
import type { LaneSource } from "../../planner/plan-claim.ts";
import type { Lane, Line, StoredJob, Turn } from "./lanes.ts";
import { chargeAll, type ClaimKey, type ClaimStep } from "./limits/claim-key.ts";
import type { MemoryLimitState } from "./limits/limit-state.ts";
import { endUnstarted } from "./settling.ts";

/** The lanes that a claim plans over, as they are after each of its steps. */
export class MemoryLanes implements LaneSource<Lane> {
  readonly #step: ClaimStep;
  readonly #asked: ReadonlySet<string> | null;
  readonly #rules: ClaimRules;
  /** What heavy heads reserved that have started, or that another limit refuses. */
  readonly #unreserved = new Set<MemoryLimitState>();

  constructor(step: ClaimStep, rules: ClaimRules) {
    const { types } = step.request;
    this.#step = step;
    this.#asked = types === null ? null : new Set(types);
    this.#rules = rules;
  }

  first(type: string): Lane | undefined {
    const { book, queue, time } = this.#step;
    const line = queue.lines.get(type)!;
    if (line.open.size === 0 && line.closed.size > 0) book.gates.openDue(line, time);
    return line.first;
  }

  unit(lane: Lane): readonly Lane[] {
    return readyLanes(lane, this.#step.lines);
  }

  head(lane: Lane): StoredJob | undefined {
    this.#step.lane = lane;
    return lane.first;
  }

  start(lane: Lane, charges: readonly KeyCharge[]): void {
    this.#endReservation(lane);
    const { book, request, now, started } = this.#step;
    const turns = turnsOf(lane, this.#asked);
    const job = book.start(lane, turns, this.#shareOf(lane), request.worker, request.leaseMs, now);
    job.charges = chargeAll(charges, this.#step);
    started.push(job);
  }

  block(lane: Lane, wait: Wait, by: LimitKey, fits: Wait): void {
    const { book, time } = this.#step;
    const { limitState } = by as ClaimKey;
    if (lane.heavy?.by !== limitState || fits === 0) this.#endReservation(lane);
    if (fits > 0) book.heavy.note(lane, limitState, time + fits);
    book.gates.block(lane, limitState, time + wait, fits > 0);
    book.limits.rest(limitState, by.rule, time);
  }

  close(lane: Lane): void {
    this.#endReservation(lane);
  }

  refuse(lane: Lane, { by, charge }: Decision & { readonly granted: false }): void {
    const error = neverFits(by, by.rule.quota.max === null ? charge.slots : charge.weight);
    endUnstarted(this.#step.book, lane.first!, error, this.#step.now);
  }

  /**
   * Opens the gates of lanes that waited only for heavy heads which reserve nothing any more, and notes that workers are to be woken
   * up. Answers whether this claim may start jobs of one of these lanes.
   */
  letOthersLook(): boolean {
    const { book, lines } = this.#step;
    let own = false;
    for (const limitState of this.#unreserved) {
      // The step may have opened their gates before, and the head takes what the step has returned: workers have to look again all the same.
      if (book.gates.has(limitState) || book.freed.has(limitState)) book.freed.noteRule();
      for (const { line } of book.gates.openAll(limitState)) own ||= lines.has(line);
    }
    this.#unreserved.clear();
    return own;
  }

  /** The head starts, another key refuses it, or it waits only for other heads: it reserves nothing any more. */
  #endReservation(lane: Lane): void {
    if (lane.heavy === undefined) return;
    this.#unreserved.add(lane.heavy.by);
    this.#step.book.heavy.drop(lane);
  }

  #shareOf({ type, group }: Lane): number {
    return this.#rules.shares ? shareOf(this.#rules.of(type), group) : 1;
  }
}

/** The turns of its unit for the types that the claim asks for, paused or not. */
export function turnsOf({ unit: { turns }, own }: Lane, asked: ReadonlySet<string> | null): readonly Turn[] {
  if (turns.length === 1 || asked === null) return turns;
  if (asked.size === 1) return [own];
  return turns.filter(({ type }) => asked.has(type));
}

/** Of the lanes of one type and unit so many are looked at, where a lane of another unit is the first of the type. */
const MOST_LOOKS = 64;

/** The lanes of its unit, at open gates of these lines, one of which has the next job. `lane`, the first of its line, is among them. */
export function readyLanes(lane: Lane, lines: ReadonlySet<Line>): readonly Lane[] {
  const { turns } = lane.unit;
  if (turns.length === 1) return [lane];
  const ready: Lane[] = [lane];
  for (const turn of turns) {
    const { line } = turn.lanes[0]!;
    if (turn === lane.own || !lines.has(line)) continue;
    const { first } = line;
    if (first?.own === turn) ready.push(first);
    else {
      let looks = 0;
      for (const one of turn.lanes) {
        if (one.gate?.isOpen === true) ready.push(one);
        if ((looks += 1) === MOST_LOOKS) break;
      }
    }
  }
  return ready;
}
