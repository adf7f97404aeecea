import { type Digest, digest } from "../../chaos/history/digest.ts";
import type { Body, Entry } from "../../chaos/history/entry.ts";
import type { Final } from "../../chaos/history/final.ts";
import { JOB_STATES, type AttemptRecord, type JobRecord, type JobState } from "../../src/core/job.ts";
import type { LimitState } from "../../src/storage/limit-storage.ts";

/** A history made by hand: who did what, when. */
export class Story {
  readonly #entries: Entry[] = [];
  #calls = 0;

  at(hr: number, p: string, body: Body): this {
    this.#entries.push({ p, seq: this.#entries.length, hr, ...body });
    return this;
  }

  /** Adds jobs at `hr`, acknowledged a millisecond later. */
  add(
    hr: number,
    p: string,
    ids: readonly string[],
    more: { key?: string; group?: string; answer?: string } = {},
  ): this {
    const call = this.#calls++;
    const { key = null, group = null } = more;
    const jobs = ids.map((id) => ({ id, queue: "q", key, group, priority: 0, inMs: 0 }));
    const answers = ids.map((id) => ({ id: more.answer ?? id, created: more.answer === undefined }));
    return this.at(hr, p, { op: "add", phase: "invoke", call, jobs }).at(hr + 1, p, {
      op: "add",
      phase: "ok",
      call,
      answers,
    });
  }

  /** Adds jobs at `hr`, and is killed before the answer. */
  addAndDie(hr: number, p: string, ids: readonly string[]): this {
    const jobs = ids.map((id) => ({ id, queue: "q", key: null, group: null, priority: 0, inMs: 0 }));
    return this.at(hr, p, { op: "add", phase: "invoke", call: this.#calls++, jobs });
  }

  /** The storage's clock shows what ours does. */
  claim(
    hr: number,
    p: string,
    job: string,
    token: number,
    more: { attempt?: number; leaseMs?: number; limit?: string } = {},
  ): this {
    const { attempt = 1, leaseMs = 1_000, limit } = more;
    return this.at(hr + 1, p, {
      op: "claim",
      phase: "ok",
      from: hr,
      queue: "q",
      leaseMs,
      limits: limit === undefined ? [] : [limit],
      jobs: [{ job, token, attempt, grantMs: hr, leaseUntil: hr + leaseMs }],
    });
  }

  settle(
    hr: number,
    p: string,
    job: string,
    token: number,
    more: { to?: string; stale?: boolean; unstarted?: boolean } = {},
  ): this {
    const call = this.#calls++;
    const { to = "completed", stale = false, unstarted = false } = more;
    return this.at(hr, p, { op: "settle", phase: "invoke", call, outcomes: [{ job, token, to, unstarted }] }).at(
      hr + 1,
      p,
      {
        op: "settle",
        phase: "ok",
        call,
        stale: stale ? [job] : [],
      },
    );
  }

  heartbeat(hr: number, p: string, job: string, token: number, { lost = false, leaseMs = 1_000 } = {}): this {
    const leases = [{ job, token }];
    return this.at(hr + 1, p, { op: "heartbeat", phase: "ok", from: hr, leaseMs, leases, lost: lost ? [job] : [] });
  }

  /** `under`: the limits of its worker. */
  run(
    from: number,
    until: number | null,
    p: string,
    job: string,
    token: number,
    { under = [] }: { under?: readonly string[] } = {},
  ): this {
    const run = { op: "run", job, token, attempt: 1 } as const;
    this.at(from, p, { ...run, phase: "invoke", under });
    return until === null ? this : this.at(until, p, { ...run, phase: "ok" });
  }

  change(hr: number, action: "remove" | "retry" | "cancel", ids: readonly string[]): this {
    const call = this.#calls++;
    return this.at(hr, "c", { op: "change", phase: "invoke", call, action, ids }).at(hr + 1, "c", {
      op: "change",
      phase: "ok",
      call,
      ids,
    });
  }

  ready(hr: number, p: string, slots = 1): this {
    return this.at(hr, p, { op: "process", phase: "info", kind: "ready", text: `id of ${p}`, value: slots });
  }

  note(hr: number, p: string, kind: "error" | "paused" | "term" | "left" | "memory", value = 0, text = ""): this {
    return this.at(hr, p, { op: "process", phase: "info", kind, text, value });
  }

  fault(hr: number, kind: "kill" | "stop" | "cont" | "term", target: string): this {
    return this.at(hr, "conductor", { op: "fault", phase: "info", kind, target, wall: hr });
  }

  get digest(): Digest {
    return digest(this.#entries.toSorted((a, b) => a.hr - b.hr || a.seq - b.seq));
  }
}

export interface Kept extends Partial<JobRecord> {
  readonly id: string;
}

/** What the storage holds in the end. */
export function finalOf(
  kept: readonly Kept[],
  more: {
    damage?: string[];
    rows?: Partial<Record<JobState, number>>;
    attempts?: Record<string, AttemptRecord[]>;
    limits?: LimitState[];
  } = {},
): Final {
  const jobs = kept.map(
    (job) => ({ state: "completed", token: 1, result: null, queue: "q", idempotencyKey: null, ...job }) as JobRecord,
  );
  const counts = Object.fromEntries(
    JOB_STATES.map((state) => [state, jobs.filter((job) => job.state === state).length]),
  );
  return {
    jobs,
    attempts: new Map(Object.entries(more.attempts ?? {})),
    counts: new Map([["q", counts as Record<JobState, number>]]),
    rows: new Map([["q", more.rows ?? (counts as Record<JobState, number>)]]),
    damage: more.damage ?? [],
    limits: more.limits ?? [],
  };
}
