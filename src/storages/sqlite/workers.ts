import {
  detailsOf,
  type Registered,
  type UnhandledType,
  unhandledOf,
  wallWorker,
  type WorkerEntry,
  workerOf,
  type WorkerRecord,
  type WorkerRow,
} from "../../storage/workers.ts";
import { queueNames } from "./jobs/overview.ts";
import { readyTypes } from "./jobs/open-types.ts";
import { gateTypes } from "./limits/gates.ts";
import type { Step } from "./step.ts";

const REMOVE = "DELETE FROM sluice_workers WHERE id = ?";
const REGISTER = `INSERT INTO sluice_workers (id, queue, info, since, seen_at, until) VALUES (?, ?, ?, ?, ?, ?)
  ON CONFLICT DO UPDATE SET queue = excluded.queue, info = excluded.info, seen_at = excluded.seen_at, until = excluded.until`;
const FIRST = "SELECT id FROM sluice_workers WHERE until > ? ORDER BY since, id LIMIT 1";
const LIVE = `SELECT id, queue, info, since, seen_at AS seenAt FROM sluice_workers
  WHERE until > ? AND queue = coalesce(?, queue) ORDER BY since, id`;
// Jobs that have come due and are not shown as such yet: the first of them.
const DUE = `SELECT DISTINCT type FROM
  (SELECT type FROM sluice_jobs WHERE queue = ? AND state = 'scheduled' AND due_at <= ? ORDER BY due_at LIMIT 1000)`;

export function register(
  step: Step,
  workers: readonly WorkerEntry[],
  ttlMs: number,
  gone: readonly string[],
): Registered {
  const { now } = step;
  for (const id of gone) step.sql(REMOVE).run(id);
  for (const one of workers) {
    step.sql(REGISTER).run(one.id, one.queue, JSON.stringify(detailsOf(one)), now - one.upMs, now, now + ttlMs);
  }
  const first = step.sql(FIRST).get(now) as { readonly id: string } | undefined;
  return { first: workers.some(({ id }) => id === first?.id) };
}

export function liveWorkers(step: Step, queue?: string): WorkerRecord[] {
  return (step.sql(LIVE).all(step.now, queue ?? null) as WorkerRow[]).map((row) =>
    wallWorker(workerOf(row), step.skew),
  );
}

export function unhandled(step: Step): UnhandledType[] {
  const waiting = queueNames(step).map((queue) => ({
    queue,
    types: waitingTypes(step, queue),
    pauses: [...step.pausesOf(queue)],
  }));
  return unhandledOf(waiting, liveWorkers(step));
}

function waitingTypes(step: Step, queue: string): string[] {
  const due = (step.sql(DUE).all(queue, step.now) as { readonly type: string }[]).map(({ type }) => type);
  const atGates = [true, false].flatMap((open) => gateTypes(step, queue, open));
  return [...new Set([...due, ...readyTypes(step, queue), ...atGates])].toSorted();
}
