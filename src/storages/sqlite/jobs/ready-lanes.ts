import type { JobKeys } from "../../../core/job.ts";
import type { Wait } from "../../../limits/wait.ts";
import type { Head, ReadyLane } from "../../../planner/plan-claim.ts";
import type { JobRow } from "./record.ts";

/** The rank of a lane among those of its type. Lanes without keys have no first job to go by: there is one of each turn. */
export interface Rank {
  readonly priority: number;
  readonly turn: number;
  readonly own: number;
  readonly headAt: number;
  readonly headSeq: number;
}

/** Which comes first: the higher priority, the one served the longest ago, and of those the one whose first job is older. */
export function byRank(a: Rank, b: Rank): number {
  return b.priority - a.priority || a.turn - b.turn || a.own - b.own || a.headAt - b.headAt || a.headSeq - b.headSeq;
}

/** Before all other turns, and in the order of their own: those of lanes that are in front of their priority. */
const IN_FRONT = -(2 ** 52);

/** The turn that ranks a lane at this gate. */
export const turnAt = (turn: number, gate: Pick<ClaimGate, "front"> | undefined): number =>
  gate !== undefined && gate.front !== 0 ? IN_FRONT + turn : turn;

/** The rank of a lane: by its turn, or in front of its priority. */
export function rankOf({ priority, turn, own, headAt, headSeq, gate }: ClaimLane): Rank {
  return { priority, turn: turnAt(turn, gate), own, headAt, headSeq };
}

/** The same as it will be in the tables: there it has a first job only if it has keys. */
export function writtenRankOf(lane: ClaimLane): Rank {
  return lane.keyed ? rankOf(lane) : { ...rankOf(lane), headAt: 0, headSeq: 0 };
}

/** A lane as a claim sees it, with all that the claim has done so far. Nothing of that is written before its end. */
export interface ClaimLane extends ReadyLane {
  readonly keys: JobKeys | undefined;
  readonly keyed: boolean;
  readonly own: number;
  /** Does its group have lanes of many types? */
  readonly many: boolean;
  turn: number;
  /** Its first job, if it has keys, or stands beside lanes that have; else 0. */
  headAt: number;
  headSeq: number;
  /** How many were started since it was its turn, when it was read. */
  readonly served: number;
  /** How many it counts. */
  waiting: number;
  /** May it be taken from, if its gate is open? */
  ready: boolean;
  /** Where it stands; undefined: at none. */
  gate: ClaimGate | undefined;
  /** It stands at another one than before. */
  moved: boolean;
  /** It has the turn of its unit, as far as this claim has given one. */
  turned: boolean;
  /** How often its rank has changed. */
  version: number;
  /** The lanes that have their turn with it. */
  unit: ClaimUnit | undefined;
  /** Its next jobs, as far as they were read; the first of them that has not started; and whether these are all. */
  rows: JobRow[];
  at: number;
  whole: boolean;
  /** Was it read at all? */
  read: boolean;
  /** The next job, if that has been looked at. */
  head: Head | undefined;
  /** How many it gave. */
  gave: number;
  /** The job that was too heavy when a claim looked at it; and since when it waits. */
  heavy: number | null;
  readonly since: number | null;
}

/** A gate as a claim sees it. */
export class ClaimGate {
  readonly type: string;
  readonly name: string;
  /** The state of the limit. */
  readonly grp: string;
  /** The lane that it is for alone; 0: for all. */
  readonly front: number;
  /** undefined: it is not known whether there is one in the tables. */
  id: number | undefined;
  open = true;
  /** The claim has closed it, for so long. */
  wait: Wait | undefined;
  /** The claim has closed it, and opened it again since. */
  reopened = false;
  /** Of one that is for a lane alone: when its first job fits, by itself. */
  fits: Wait = 0;
  /** The lanes there that the claim knows. */
  readonly lanes = new Set<ClaimLane>();
  /** Others may stand there, too: behind `bound`, or anywhere. */
  others: boolean;
  bound: Rank | undefined;
  /** The rank that it is known by, if it was read in its turn. */
  known: Rank | undefined;
  /** A lane there was served, or has left. */
  changed = false;

  constructor({ type, name, grp, front }: Pick<ClaimGate, "type" | "name" | "grp" | "front">) {
    this.type = type;
    this.name = name;
    this.grp = grp;
    this.front = front;
    this.others = front === 0;
  }

  close(wait: Wait, fits: Wait): void {
    this.open = false;
    this.wait = wait;
    this.fits = fits;
    this.reopened = false;
  }

  reopen(): void {
    this.open = true;
    this.wait = undefined;
    this.reopened = true;
  }

  /** Is nothing known to stand there any more? */
  get isEmpty(): boolean {
    return this.lanes.size === 0 && !this.others;
  }

  /** No lane there comes before this rank. undefined: that is not known. */
  get first(): Rank | undefined {
    let first = this.others ? this.bound : undefined;
    if (this.others && first === undefined) return undefined;
    for (const lane of this.lanes) {
      const rank = writtenRankOf(lane);
      if (first === undefined || byRank(rank, first) < 0) first = rank;
    }
    return first;
  }
}

export const isOpen = ({ ready, gate }: ClaimLane): boolean => ready && (gate === undefined || gate.open);

/** The lanes of one priority and group, of the types that the claim asks for. */
export interface ClaimUnit {
  /** All of them, empty, at closed gates or paused as they may be; where lanes have keys, none. */
  readonly lanes: readonly ClaimLane[];
  /** How many were started since it is their turn. */
  served: number;
}

/** Lanes that are read in pages, in the order of their places. */
export interface Source {
  /** The rank of the last that was read, as it is in the tables: none that is not read comes before. undefined: none was read. */
  bound: Rank | undefined;
  /** There are no more. */
  whole: boolean;
  /** Reads some more, and answers with them. */
  read(): readonly ClaimLane[];
}

/** A lane with the rank that it had when it was put there. */
interface Ranked extends Rank {
  readonly lane: ClaimLane;
  readonly version: number;
}

/**
 * The lanes of one type that stand at no gate or at open ones, in the order of their turns. They are read as they are needed: a
 * page of one of the sources, when what was read from it is behind the first of all.
 */
export class ReadyLanes {
  readonly #sources: Source[];
  /** Is the lane where it belongs? Else it has a later turn now. */
  readonly #isRight: (lane: ClaimLane) => boolean;
  /** The first comes last. Those that are not there any more stay until they are first. */
  #ranked: Ranked[] = [];

  constructor(sources: readonly Source[], isRight: (lane: ClaimLane) => boolean) {
    this.#sources = [...sources];
    this.#isRight = isRight;
  }

  /** Lanes that were read, from the first on. */
  *upcoming(): Iterable<ClaimLane> {
    for (let i = this.#ranked.length - 1; i >= 0; i--) {
      const { lane, version } = this.#ranked[i]!;
      if (lane.version === version && isOpen(lane)) yield lane;
    }
  }

  get first(): ClaimLane | undefined {
    for (;;) {
      const top = this.#top();
      const source = this.#unread(top);
      if (source !== undefined) {
        this.#enter(source.read());
        continue;
      }
      if (top === undefined) return undefined;
      const { lane } = top;
      if (this.#isRight(lane)) return lane;
      this.put(lane);
    }
  }

  /** More lanes are to be read from here. */
  add(source: Source): void {
    this.#sources.push(source);
  }

  /** The lane has another rank now. */
  put(lane: ClaimLane): void {
    lane.version += 1;
    if (!isOpen(lane)) return;
    const placed = rankedOf(lane);
    let [from, to] = [0, this.#ranked.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (byRank(this.#ranked[middle]!, placed) > 0) from = middle + 1;
      else to = middle;
    }
    this.#ranked.splice(from, 0, placed);
  }

  #enter(lanes: readonly ClaimLane[]): void {
    for (const lane of lanes) if (isOpen(lane)) this.#ranked.push(rankedOf(lane));
    this.#ranked.sort((a, b) => byRank(b, a));
  }

  #top(): Ranked | undefined {
    for (;;) {
      const top = this.#ranked.at(-1);
      if (top === undefined || (top.lane.version === top.version && isOpen(top.lane))) return top;
      this.#ranked.pop();
    }
  }

  /** A source that may have a lane before this one. */
  #unread(top: Rank | undefined): Source | undefined {
    for (let i = this.#sources.length - 1; i >= 0; i--) {
      const source = this.#sources[i]!;
      if (source.whole) this.#sources.splice(i, 1);
      else if (top === undefined || source.bound === undefined || byRank(source.bound, top) < 0) return source;
    }
    return undefined;
  }
}

const rankedOf = (lane: ClaimLane): Ranked => ({ ...rankOf(lane), lane, version: lane.version });
