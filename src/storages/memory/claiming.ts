import { NEVER } from "../../limits/wait.ts";
import { byTurn } from "../../storage/turns.ts";
import type { Claim, ClaimRequest } from "../../storage/job-storage.ts";
import type { JobRecord } from "../../core/job.ts";
import type { Book } from "./book.ts";
import { ClaimRoom } from "./claim-room.ts";
import { endOverdue } from "./overdue.ts";
import type { JobLane, JobLine } from "./queues.ts";
import { settle } from "./settling.ts";
import { copyOf, type StoredJob } from "./stored-job.ts";

/** Settles, then takes jobs and room together. */
export function claim(book: Book, request: ClaimRequest, now: number): Claim {
  // First, for it may refuse a name: then nothing has happened yet.
  const room = new ClaimRoom(book, request.limits, now);
  const stale = settle(book, request.settle, now);
  endOverdue(book, now, Number.POSITIVE_INFINITY);
  const lines = book.queues.get(request.queue)?.openLines(request.types) ?? [];
  for (const line of lines) book.promote(line, now);
  const jobs = take(book, request, lines, room, now);
  return { jobs, stale, ...outlook(book, request.queue, lines, room, now) };
}

function take(book: Book, request: ClaimRequest, lines: readonly JobLine[], room: ClaimRoom, now: number): JobRecord[] {
  const wanted = request.max > 0 ? Math.min(request.max, room.free) : 0;
  const started: StoredJob[] = [];
  while (started.length < wanted) {
    const lane = nextLane(lines);
    if (lane === undefined) break;
    started.push(book.start(lane, request.worker, request.leaseMs, now));
  }
  if (started.length === 0) return [];
  const starts = room.take(started.length);
  const { subscribers } = book;
  return started.map((job) => {
    job.starts = starts;
    if (subscribers.hearEvents) {
      const { queue, id, type, attempt } = job;
      subscribers.event({ event: "started", queue, id, type, attempt, worker: request.worker });
    }
    return copyOf(job);
  });
}

/** The lane whose first job starts next. */
function nextLane(lines: readonly JobLine[]): JobLane | undefined {
  let next: JobLane | undefined;
  for (let i = 0; i < lines.length; i++) {
    const lane = lines[i]!.ready.first;
    if (lane !== undefined && (next === undefined || byTurn(lane, next) < 0)) next = lane;
  }
  return next;
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
