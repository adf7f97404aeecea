import { NEVER } from "../../limits/wait.ts";
import { byTurn } from "../../storage/turns.ts";
import type { Claim, ClaimRequest } from "../../storage/job-storage.ts";
import type { JobRecord } from "../../core/job.ts";
import type { Book } from "./book.ts";
import { ClaimRoom } from "./claim-room.ts";
import { byDue } from "./lanes.ts";
import { endOverdue } from "./overdue.ts";
import type { JobLane, JobLine, MemoryQueue } from "./queues.ts";
import { settle } from "./settling.ts";
import { copyOf, type StoredJob } from "./stored-job.ts";

/** Settles, then takes jobs and room together. */
export function claim(book: Book, request: ClaimRequest, now: number): Claim {
  // First, for it may refuse a name: then nothing has happened yet.
  const room = new ClaimRoom(book, request.limits, now);
  const stale = settle(book, request.settle, now);
  endOverdue(book, now, Number.POSITIVE_INFINITY);
  const queue = book.queues.get(request.queue);
  const lines = queue?.openLines(request.types) ?? [];
  for (const line of lines) book.promote(line, now);
  const jobs = queue === undefined ? [] : take(book, queue, request, lines, room, now);
  return { jobs, stale, ...outlook(book, request.queue, lines, room, now) };
}

function take(
  book: Book,
  queue: MemoryQueue,
  request: ClaimRequest,
  lines: readonly JobLine[],
  room: ClaimRoom,
  now: number,
): JobRecord[] {
  const wanted = request.max > 0 ? Math.min(request.max, room.free) : 0;
  const asked = request.types === null ? null : new Set(request.types);
  const started: StoredJob[] = [];
  while (started.length < wanted) {
    const next = nextLane(lines);
    if (next === undefined) break;
    const lanes = siblings(queue, next, asked);
    const lane = lanes.length === 1 ? next : firstDue(queue, lanes);
    started.push(book.start(lane, lanes, request.worker, request.leaseMs, now));
  }
  if (started.length === 0) return [];
  const starts = room.take(started.length);
  const { subscribers } = book;
  return started.map((job) => {
    job.starts = starts;
    if (subscribers.hearEvents) {
      const { id, type, attempt } = job;
      subscribers.event({ event: "started", queue: job.queue, id, type, attempt, worker: request.worker });
    }
    return copyOf(job);
  });
}

/** The lane that speaks for the unit whose turn it is: the one that was served the longest ago. */
function nextLane(lines: readonly JobLine[]): JobLane | undefined {
  let next: JobLane | undefined;
  for (let i = 0; i < lines.length; i++) {
    const lane = lines[i]!.ready.first;
    if (lane !== undefined && (next === undefined || byTurn(lane, next) < 0)) next = lane;
  }
  return next;
}

/** All lanes of its unit of the types asked for, empty or paused as they may be. */
function siblings(queue: MemoryQueue, lane: JobLane, asked: ReadonlySet<string> | null): readonly JobLane[] {
  const { unit, priority, group } = lane;
  if (unit.length === 1 || asked === null) return unit;
  if (asked.size === 1) return [lane];
  if (asked.size >= unit.length) return unit.filter(({ line }) => asked.has(line.type));
  const found: JobLane[] = [];
  for (const type of asked) {
    const other = queue.lines.get(type)?.lane(priority, group);
    if (other !== undefined) found.push(other);
  }
  return found;
}

/** Of the lanes of a unit the one whose first job starts next. */
function firstDue({ pausedTypes }: MemoryQueue, lanes: readonly JobLane[]): JobLane {
  let first: JobLane | undefined;
  for (const lane of lanes) {
    if (lane.waiting === 0 || pausedTypes.has(lane.line.type)) continue;
    if (first === undefined || byDue(lane.first!, first.first!) < 0) first = lane;
  }
  return first!;
}

/**
 * What comes after this claim. The limits hold for whatever it could take: while they are full it makes no sense to
 * ask again, even if a job comes due before.
 */
function outlook(
  book: Book,
  queue: string,
  lines: readonly JobLine[],
  room: ClaimRoom,
  now: number,
): Pick<Claim, "more" | "nextInMs" | "blockedBy"> {
  const waits = nextLane(lines) !== undefined;
  const dueAt = waits ? now : nextDue(lines);
  if (dueAt === undefined) return { more: false, nextInMs: null, blockedBy: null };
  const { wait, blockedBy, full } = room.next;
  for (const ledger of full) book.blocked(ledger, queue);
  return {
    more: waits && wait === 0,
    nextInMs: wait === NEVER ? null : Math.max(wait, dueAt - now),
    blockedBy: waits ? blockedBy : null,
  };
}

function nextDue(lines: readonly JobLine[]): number | undefined {
  let next: number | undefined;
  for (const { scheduled } of lines) {
    const dueAt = scheduled.first?.dueAt;
    if (dueAt !== undefined && (next === undefined || dueAt < next)) next = dueAt;
  }
  return next;
}
