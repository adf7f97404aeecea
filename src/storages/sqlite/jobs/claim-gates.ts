import { deleteEmpty, untilOf } from "../limits/gates.ts";
import type { Step } from "../step.ts";
import type { GateRow } from "./lane-rows.ts";
import { EARLIER } from "./lanes.ts";
import { byRank, ClaimGate, type ClaimLane, type Rank, writtenRankOf } from "./ready-lanes.ts";

const RANK = "priority, turn, own, head_at, head_seq";
const CLOSE = `UPDATE sluice_gates SET until = ?, heavy_until = ?, (${RANK}) = (?, ?, ?, ?, ?) WHERE id = ?`;
// Of one that was not read nothing is known but that others may stand there.
const CLOSE_UNREAD = `INSERT INTO sluice_gates (name, grp, queue, type, front, until, heavy_until, ${RANK})
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (name, grp, queue, type, front) DO UPDATE
  SET until = excluded.until, heavy_until = excluded.heavy_until RETURNING id`;
const MOVE = `UPDATE sluice_gates SET (${RANK}) = (?, ?, ?, ?, ?) WHERE id = ?`;

/** The gates that a claim has to do with. */
export class ClaimGates {
  readonly #gates = new Map<string, ClaimGate>();

  get all(): Iterable<ClaimGate> {
    return this.#gates.values();
  }

  of(type: string, name: string, grp: string, front: number): ClaimGate {
    const key = `${type.length} ${type} ${name.length} ${name} ${front} ${grp}`;
    let gate = this.#gates.get(key);
    if (gate === undefined) this.#gates.set(key, (gate = new ClaimGate({ type, name, grp, front })));
    return gate;
  }

  /** The gate of a row. */
  read(type: string, { gate: id, name, state, front, until }: GateRow): ClaimGate {
    const gate = this.of(type, name, state, front);
    if (gate.id === undefined) {
      gate.id = id;
      // What the claim has closed stays closed, whatever it was before.
      if (gate.wait === undefined) gate.open = until === null;
    }
    return gate;
  }

  /** The lane stands there from now on. */
  move(lane: ClaimLane, gate: ClaimGate | undefined): void {
    if (lane.gate === gate) return;
    if (lane.gate !== undefined) {
      lane.gate.lanes.delete(lane);
      lane.gate.changed = true;
    }
    lane.gate = gate;
    lane.moved = true;
    gate?.lanes.add(lane);
  }

  /** Do lanes stand at a gate that the claim has closed and opened again? */
  get anyReopened(): boolean {
    for (const { reopened, lanes } of this.#gates.values()) if (reopened && lanes.size > 0) return true;
    return false;
  }

  /** The heavy head reserves nothing any more: what the claim has closed behind it is open again. Answers with those gates. */
  reopenBehind(head: Pick<ClaimGate, "name" | "grp">): readonly ClaimGate[] {
    const behind = [...this.#gates.values()].filter(
      ({ name, grp, front, wait }) => name === head.name && grp === head.grp && front === 0 && wait !== undefined,
    );
    for (const gate of behind) gate.reopen();
    return behind;
  }

  /**
   * A lane that was served and is alone at a gate that is still open goes home: to keep the rank of the gate right would be
   * another row for each start. Answers with those.
   */
  *sendHome(): Iterable<ClaimLane> {
    for (const gate of this.#gates.values()) {
      if (!gate.open || !gate.changed || gate.others || gate.lanes.size !== 1 || gate.front !== 0) continue;
      const [lane] = gate.lanes;
      this.move(lane!, undefined);
      yield lane!;
    }
  }

  /** Writes down which gates are closed. From now on all of them have a number. */
  writeClosed(step: Step, queue: string): void {
    for (const gate of this.#gates.values()) {
      if (gate.wait === undefined) continue;
      const until = untilOf(step, gate.wait);
      const heavyUntil = gate.front === 0 ? null : untilOf(step, gate.fits);
      const rank = gate.first;
      if (gate.id !== undefined && rank !== undefined) {
        if (step.sql(CLOSE).run(until, heavyUntil, ...values(rank), gate.id).changes !== 0) continue;
      }
      const { name, grp, type, front } = gate;
      const [one] = gate.lanes;
      const at = rank ?? writtenRankOf(one!);
      const row = step.sql(CLOSE_UNREAD).get(name, grp, queue, type, front, until, heavyUntil, ...values(at));
      gate.id = (row as { readonly id: number }).id;
    }
  }

  /** The lanes are written: gates without any are deleted, and none is known by a rank that is too late. */
  writeRanks(step: Step): void {
    for (const gate of this.#gates.values()) {
      if (gate.id === undefined) continue;
      if (gate.isEmpty || (gate.changed && gate.lanes.size === 0)) deleteEmpty(step, gate.id);
      const { first: rank, known } = gate;
      if (rank === undefined) {
        const [first] = [...gate.lanes]
          .filter(({ moved }) => moved)
          .toSorted((a, b) => byRank(writtenRankOf(a), writtenRankOf(b)));
        if (first !== undefined) step.sql(EARLIER).run(first.id);
      } else if (gate.wait === undefined && gate.changed && known !== undefined && byRank(rank, known) !== 0) {
        step.sql(MOVE).run(...values(rank), gate.id);
      }
    }
  }
}

const values = ({ priority, turn, own, headAt, headSeq }: Rank): [number, number, number, number, number] => [
  priority,
  turn,
  own,
  headAt,
  headSeq,
];
