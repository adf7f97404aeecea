import { startsBefore } from "../../limits/behind.ts";
import { type LimitRule, valueOf } from "../../limits/rule.ts";
import { limitConditionOf } from "../../storage/inspected-key.ts";
import type { StartConditions } from "../../storage/limit-storage.ts";
import { workersFor } from "../../storage/workers.ts";
import { NO_POSITION, type OtherGroup, type OwnLane, type Position, positionOf } from "../../planner/position.ts";
import { byTurn } from "../../planner/turns.ts";
import type { Book } from "./book.ts";
import { byDue, type Lane, type LaneUnit, type StoredJob } from "./lanes.ts";
import type { MemoryQueue } from "./queues.ts";
import { copyOf } from "./stored-job.ts";

/** Everything that decides when a job can start. */
export function explain(book: Book, id: string, now: number): StartConditions | undefined {
  const job = book.jobs.get(id);
  if (job === undefined) return undefined;
  const queue = book.queue(job.queue);
  book.promoteAll(queue, now);
  const time = book.limitTime(now);
  const rules = rulesFor(book, queue, job.type);
  const queued = job.state === "waiting" || job.state === "scheduled";
  const position = queued ? positionIn(queue, job, time) : NO_POSITION;
  const first = position.ahead.lane > 0 ? job.lane?.first?.weights : undefined;
  const asking = { lane: job.lane, looksAt: () => true };
  const limits = rules.map((rule) => {
    const key = book.limits.keyAt(rule, valueOf(rule, job), time);
    const before = startsBefore(rule, rules, position.before);
    const behind = queued ? book.heavy.longest(key, job.priority, asking) : 0;
    return limitConditionOf(key, { weights: job.weights, first, before, behind }, book.limitSkew);
  });
  return {
    job: copyOf(job, book.skew),
    now: now - book.skew,
    queuePaused: queue.paused,
    typePaused: queue.pausedTypes.has(job.type),
    workers: workersFor(book.workers.live(now, job.queue), job.type),
    ahead: position.ahead,
    limits,
  };
}

/** The rules that jobs of a type run under: those that are kept, and those that the latest claim brought along. */
export function rulesFor(book: Book, queue: MemoryQueue, type: string): LimitRule[] {
  return [...book.limits.byQueue.of(queue.name).of(type), ...queue.claimLimits];
}

function positionIn(queue: MemoryQueue, job: StoredJob, time: number): Position {
  const isReady = ({ gate, type }: Lane) => gate !== undefined && gate.until <= time && !queue.pausedTypes.has(type);
  let higher = 0;
  let higherOfType = 0;
  for (const unit of queue.units.above(job.priority)) {
    for (const lane of lanesOf(unit)) {
      higher += lane.waiting;
      if (lane.type === job.type && isReady(lane)) higherOfType += lane.waiting;
    }
  }
  const unit = queue.units.get(job.priority, job.group);
  const own = unit === undefined ? [] : Array.from(lanesOf(unit), (lane) => ownLane(queue, lane, job));
  return positionOf({ higher, higherOfType, own, others: othersOf(queue, job, unit, isReady) });
}

function ownLane(queue: MemoryQueue, lane: Lane, job: StoredJob): OwnLane {
  const place = { dueAt: job.firstDueAt ?? job.dueAt, seq: job.seq };
  let before = 0;
  for (let other = lane.first; other !== undefined && byDue(other, place) < 0; other = other.after) before += 1;
  const isOwn = lane === queue.lines.get(job.type)?.lane(job.priority, job.group, job.keys);
  return { turn: lane.turn, id: lane.id, before, isOwn };
}

function* othersOf(
  queue: MemoryQueue,
  job: StoredJob,
  own: LaneUnit | undefined,
  isReady: (lane: Lane) => boolean,
): Iterable<OtherGroup> {
  for (const unit of queue.units.at(job.priority)) {
    if (unit === own) continue;
    let first: Lane | undefined;
    let waiting = 0;
    let isMixed = false;
    for (const lane of lanesOf(unit)) {
      isMixed ||= lane.type !== job.type;
      if (!isReady(lane)) continue;
      waiting += lane.waiting;
      if (first === undefined || byTurn(lane, first) < 0) first = lane;
    }
    if (first !== undefined) yield { turn: first.turn, id: first.id, waiting, isMixed };
  }
}

/** Its lanes in which jobs wait. */
function* lanesOf({ turns }: LaneUnit): Iterable<Lane> {
  for (const { lanes } of turns) for (const lane of lanes) if (lane.waiting > 0) yield lane;
}
