import { applies, type LimitRule, shareOf } from "../../limits/rule.ts";
import type { Wait } from "../../limits/wait.ts";
import type { ClaimRequest } from "../../storage/job-storage.ts";
import { neverFits } from "../../storage/stored-rules.ts";
import type { Decision, LimitKey, KeyCharge } from "../../planner/claim-limits.ts";
import type { LaneSource } from "../../planner/plan-claim.ts";
import type { Book } from "./book.ts";
import type { Lane, Line, StoredJob, Turn } from "./lanes.ts";
import { chargeAll, type Claiming, type ClaimKey } from "./limits/claim-key.ts";
import type { MemoryLimitState } from "./limits/limit-state.ts";
import type { MemoryQueue } from "./queues.ts";

/** The lanes that a claim plans over, as they are after each of its steps. */
export class MemoryLanes implements LaneSource<Lane> {
  readonly #book: Book;
  readonly #queue: MemoryQueue;
  readonly #request: ClaimRequest;
  readonly #asked: ReadonlySet<string> | null;
  readonly #lines: ReadonlySet<Line>;
  /** The rules that give some groups a larger share. */
  readonly #sharing: readonly LimitRule[];
  readonly #now: number;
  readonly #time: number;
  readonly #started: StoredJob[];
  readonly #claiming: Claiming;
  /** The limits of heavy heads that have started. */
  readonly #waitedFor = new Set<MemoryLimitState>();

  /** `lines`: those that it may take from. Jobs that start are put into `started`. `claiming.lane` is set to the lane that it asks for. */
  constructor(
    book: Book,
    queue: MemoryQueue,
    request: ClaimRequest,
    lines: ReadonlySet<Line>,
    rules: readonly LimitRule[],
    now: number,
    started: StoredJob[],
    claiming: Claiming,
  ) {
    this.#book = book;
    this.#queue = queue;
    this.#request = request;
    this.#asked = request.types === null ? null : new Set(request.types);
    this.#lines = lines;
    this.#sharing = rules.filter(({ groups }) => Object.keys(groups).length > 0);
    this.#now = now;
    this.#time = book.limitTime(now);
    this.#started = started;
    this.#claiming = claiming;
  }

  first(type: string): Lane | undefined {
    const line = this.#queue.lines.get(type)!;
    if (line.open.size === 0 && line.closed.size > 0) this.#book.gates.openDue(line, this.#time);
    return line.first;
  }

  unit(lane: Lane): readonly Lane[] {
    return readyLanes(lane, this.#lines);
  }

  head(lane: Lane): StoredJob | undefined {
    this.#claiming.lane = lane;
    return lane.first;
  }

  start(lane: Lane, charges: readonly KeyCharge[]): void {
    if (lane.heavy !== undefined) this.#waitedFor.add(lane.heavy.by);
    const { worker, leaseMs } = this.#request;
    const job = this.#book.start(lane, turnsOf(lane, this.#asked), this.#shareOf(lane), worker, leaseMs, this.#now);
    job.charges = chargeAll(charges);
    this.#started.push(job);
  }

  block(lane: Lane, wait: Wait, by: LimitKey, fits: Wait): void {
    const { opened: limitState } = by as ClaimKey;
    if (fits > 0) this.#book.heavy.note(lane, limitState, this.#time + fits);
    else if (by.rule.weight !== null) this.#book.heavy.drop(lane);
    this.#book.gates.block(lane, limitState, this.#time + wait, fits > 0);
    this.#book.limits.rest(limitState, by.rule, this.#time);
  }

  refuse(lane: Lane, { by, charge }: Decision & { readonly granted: false }): void {
    const job = lane.first!;
    const { queue, id, type, attempt } = job;
    const error = neverFits(by, by.rule.quota.max === null ? charge.slots : charge.weight);
    this.#book.withdraw(job, this.#now);
    job.error = error;
    this.#book.end(job, "dead", this.#now);
    this.#book.subscribers.event({ event: "dead", queue, id, type, attempt, error });
  }

  /**
   * Lanes that waited only for heads that have started may be looked at again, and the book notes that they may start. The
   * answer: may this claim take from one of them?
   */
  letOthersLook(): boolean {
    let own = false;
    const waitedFor = [...this.#waitedFor];
    this.#waitedFor.clear();
    for (const limitState of waitedFor) {
      for (const { line } of this.#book.gates.openAll(limitState)) {
        this.#book.freed.noteRule();
        own ||= this.#lines.has(line);
      }
    }
    return own;
  }

  #shareOf({ type, group }: Lane): number {
    if (this.#sharing.length === 0) return 1;
    return shareOf(
      this.#sharing.filter((rule) => applies(rule, this.#queue.name, type)),
      group,
    );
  }
}

/** The turns of its unit for the types asked for, paused as these may be. */
export function turnsOf({ unit: { turns }, own }: Lane, asked: ReadonlySet<string> | null): readonly Turn[] {
  if (turns.length === 1 || asked === null) return turns;
  if (asked.size === 1) return [own];
  return turns.filter(({ type }) => asked.has(type));
}

/** So many lanes of one type and unit are looked at, if others of the type come before them. */
const MOST_LOOKS = 64;

/** Lanes at open gates, of its unit and these lines, that may have the job which starts next; `lane`, the first of its line, is one. */
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
