import type { ChangeAction } from "../../src/storage/job-storage.ts";
import type { AddedJob, Body, ClaimedJob, Entry, FaultKind, NoteKind, SettledJob } from "./entry.ts";

/** A step that was asked for at `from`; `until` is when it was answered, null if the process died before. */
interface Spanned {
  readonly p: string;
  readonly from: number;
  until: number | null;
}

export interface AddCall extends Spanned {
  readonly jobs: readonly AddedJob[];
  /** null: it is unknown whether it happened. */
  answers: readonly { readonly id: string; readonly created: boolean }[] | null;
  /** It was refused: nothing may have happened. */
  failed: boolean;
}

export interface ClaimFact extends ClaimedJob {
  readonly p: string;
  readonly queue: string;
  readonly leaseMs: number;
  readonly limits: readonly string[];
  readonly from: number;
  readonly until: number;
}

export interface SettleFact extends SettledJob, Spanned {
  verdict: "accepted" | "stale" | "unknown";
}

export interface HeartbeatFact {
  readonly p: string;
  readonly job: string;
  readonly token: number;
  readonly leaseMs: number;
  readonly from: number;
  readonly until: number;
  readonly kept: boolean;
}

export interface RunFact extends Spanned {
  readonly job: string;
  readonly token: number;
  readonly attempt: number;
  /** The limits that its worker says it is under. */
  readonly under: readonly string[];
}

/** A handler, a permit or a wrapped function: called under these limits, at this instant. */
export interface CallFact {
  readonly p: string;
  readonly hr: number;
  readonly under: readonly string[];
}

export interface ChangeFact extends Spanned {
  readonly action: ChangeAction;
  /** The jobs that were changed or, if that is unknown, those that were requested; null: all that matched. */
  ids: readonly string[] | null;
}

/** What happened, as the facts that checkers use. */
export interface Digest {
  readonly adds: readonly AddCall[];
  readonly claims: readonly ClaimFact[];
  readonly settles: readonly SettleFact[];
  readonly heartbeats: readonly HeartbeatFact[];
  readonly sweeps: readonly { readonly p: string; readonly hr: number; readonly stalled: number }[];
  readonly runs: readonly RunFact[];
  readonly aborts: readonly { p: string; hr: number; job: string; token: number; reason: string }[];
  /** Calls outside of jobs: permits and wrapped functions. */
  readonly calls: readonly CallFact[];
  readonly uses: readonly {
    readonly job: string;
    readonly token: number;
    readonly hr: number;
    readonly tokens: number;
  }[];
  readonly arrivals: readonly { limiter: string; hr: number; job: string; token: number }[];
  readonly changes: readonly ChangeFact[];
  readonly faults: readonly { kind: FaultKind; target: string; hr: number; wall: number }[];
  readonly notes: readonly { p: string; hr: number; kind: NoteKind; text: string; value: number }[];
  /** How many steps were taken. */
  readonly operations: number;
}

type Of<Op extends Body["op"]> = Extract<Entry, { op: Op }>;

/** Joins requests and answers. Entries come in the order of the clock. */
export function digest(entries: readonly Entry[]): Digest {
  const book = new Book();
  for (const entry of entries) book.read(entry);
  return book;
}

class Book implements Digest {
  readonly adds: AddCall[] = [];
  readonly claims: ClaimFact[] = [];
  readonly settles: SettleFact[] = [];
  readonly heartbeats: HeartbeatFact[] = [];
  readonly sweeps: { p: string; hr: number; stalled: number }[] = [];
  readonly runs: RunFact[] = [];
  readonly aborts: { p: string; hr: number; job: string; token: number; reason: string }[] = [];
  readonly calls: CallFact[] = [];
  readonly uses: { job: string; token: number; hr: number; tokens: number }[] = [];
  readonly arrivals: { limiter: string; hr: number; job: string; token: number }[] = [];
  readonly changes: ChangeFact[] = [];
  readonly faults: { kind: FaultKind; target: string; hr: number; wall: number }[] = [];
  readonly notes: { p: string; hr: number; kind: NoteKind; text: string; value: number }[] = [];
  operations = 0;
  readonly #adding = new Map<string, AddCall>();
  readonly #settling = new Map<string, SettleFact[]>();
  readonly #changing = new Map<string, ChangeFact>();
  readonly #running = new Map<string, RunFact>();

  read(entry: Entry): void {
    const isStep = entry.phase !== "info" && entry.phase !== "invoke" && !("with" in entry);
    if (isStep) this.operations += 1;
    switch (entry.op) {
      case "add":
        return this.#add(entry);
      case "claim":
        return this.#claim(entry);
      case "settle":
        return this.#settle(entry);
      case "heartbeat":
        return this.#heartbeat(entry);
      case "sweep":
        return void this.sweeps.push({ p: entry.p, hr: entry.hr, stalled: entry.stalled });
      case "change":
        return this.#change(entry);
      case "run":
        return this.#run(entry);
      case "abort": {
        const { p, hr, job, token, reason } = entry;
        return void this.aborts.push({ p, hr, job, token, reason });
      }
      case "call": {
        const { p, hr, under } = entry;
        return void this.calls.push({ p, hr, under });
      }
      case "use": {
        const { job, token, hr, tokens } = entry;
        return void this.uses.push({ job, token, hr, tokens });
      }
      case "confirm":
        return;
      case "arrive": {
        const { limiter, hr, job, token } = entry;
        return void this.arrivals.push({ limiter, hr, job, token });
      }
      case "fault": {
        const { kind, target, hr, wall } = entry;
        return void this.faults.push({ kind, target, hr, wall });
      }
      case "process": {
        const { p, hr, kind, text, value } = entry;
        return void this.notes.push({ p, hr, kind, text, value });
      }
    }
  }

  #add(entry: Of<"add">): void {
    const key = `${entry.p} ${entry.call}`;
    if (entry.phase === "invoke") {
      const { p, hr: from, jobs } = entry;
      const call: AddCall = { p, from, until: null, jobs, answers: null, failed: false };
      this.adds.push(call);
      this.#adding.set(key, call);
      return;
    }
    const call = this.#adding.get(key);
    if (call === undefined) return;
    call.until = entry.hr;
    if (entry.phase === "ok") call.answers = entry.answers;
    else call.failed = true;
  }

  #claim({ p, from, hr: until, queue, leaseMs, limits, jobs }: Of<"claim">): void {
    for (const job of jobs) this.claims.push({ ...job, p, queue, leaseMs, limits, from, until });
  }

  #settle(entry: Of<"settle">): void {
    const key = `${entry.p} ${entry.call}`;
    if (entry.phase === "invoke") {
      const { p, hr: from } = entry;
      const facts = entry.outcomes.map((outcome): SettleFact => ({
        ...outcome,
        p,
        from,
        until: null,
        verdict: "unknown",
      }));
      this.settles.push(...facts);
      this.#settling.set(key, facts);
      return;
    }
    const stale = new Set(entry.stale);
    for (const fact of this.#settling.get(key) ?? []) {
      fact.until = entry.hr;
      fact.verdict = stale.has(fact.job) ? "stale" : "accepted";
    }
  }

  #heartbeat({ p, from, hr: until, leases, lost, leaseMs }: Of<"heartbeat">): void {
    const gone = new Set(lost);
    for (const { job, token } of leases)
      this.heartbeats.push({ p, job, token, leaseMs, from, until, kept: !gone.has(job) });
  }

  #change(entry: Of<"change">): void {
    const key = `${entry.p} ${entry.call}`;
    if (entry.phase === "invoke") {
      const { p, hr: from, action, ids } = entry;
      const fact: ChangeFact = { p, from, until: null, action, ids };
      this.changes.push(fact);
      this.#changing.set(key, fact);
      return;
    }
    const fact = this.#changing.get(key);
    if (fact === undefined) return;
    fact.until = entry.hr;
    fact.ids = entry.ids;
  }

  #run(entry: Of<"run">): void {
    const { p, hr, job, token, attempt } = entry;
    const key = `${p} ${token}`;
    if (entry.phase === "invoke") {
      const run: RunFact = { p, from: hr, until: null, job, token, attempt, under: entry.under };
      this.runs.push(run);
      this.#running.set(key, run);
      return;
    }
    const run = this.#running.get(key);
    if (run !== undefined) run.until = hr;
  }
}

/** Groups things by a name. */
export function groupBy<T>(all: readonly T[], by: (one: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const one of all) {
    const key = by(one);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [one]);
    else group.push(one);
  }
  return groups;
}

/** The tokens of starts that workers took back, since their handlers were not called. */
export function takenBack({ settles }: Digest): ReadonlySet<number> {
  return new Set(settles.flatMap(({ token, unstarted, verdict }) => (unstarted && verdict !== "stale" ? [token] : [])));
}
