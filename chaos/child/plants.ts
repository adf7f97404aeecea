import { DatabaseSync } from "node:sqlite";
import { setTimeout as wait } from "node:timers/promises";
import type { Claim, ClaimRequest, JobStorage, NewJob, Outcome } from "../../src/storage/job-storage.ts";
import { Seeded } from "../conductor/seeded.ts";
import { hr } from "../history/entry.ts";
import type { Plant } from "./spec.ts";

/** Puts a bug between the product and its storage. The product itself has no switch for any of this. */
export function planted(storage: JobStorage, plant: Plant, database: string, seed: number): JobStorage {
  const soil: Soil = {
    storage,
    db: new DatabaseSync(database, { timeout: 10_000 }),
    chance: new Seeded(seed).fork(plant),
  };
  return PLANTED[plant](soil);
}

interface Soil {
  readonly storage: JobStorage;
  readonly db: DatabaseSync;
  readonly chance: Seeded;
}

/** The storage, or a part of it, with some of its members replaced. */
function instead<T extends object>(storage: T, members: Partial<T>): T {
  return new Proxy(storage, {
    get(target, name) {
      const own = (members as Record<string | symbol, unknown>)[name];
      if (own !== undefined) return own;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value as (...given: unknown[]) => unknown).bind(target) : value;
    },
  });
}

const PLANTED: Readonly<Record<Plant, (soil: Soil) => JobStorage>> = {
  /** A settle is accepted whatever its token is, as long as the job runs somewhere. */
  "no-token-check": ({ storage, db }) => {
    const current = (outcomes: readonly Outcome[]): Outcome[] =>
      outcomes.map((outcome) => {
        const row = db.prepare("SELECT token FROM sluice_jobs WHERE id = ? AND state = 'active'").get(outcome.id);
        return row === undefined ? outcome : { ...outcome, token: row["token"] as number };
      });
    return instead(storage, {
      settle: (outcomes) => storage.settle(current(outcomes)),
      claim: (request) => storage.claim({ ...request, settle: current(request.settle) }),
    });
  },

  /** Counts first and writes later: other claims come in between. */
  "two-step-limiter": (soil) => limitedBy(soil, { skew: 0, steps: 2 }),
  "two-step-limiter, in one step": (soil) => limitedBy(soil, { skew: 0, steps: 1 }),

  /** The clock of each process stamps and compares, and the clocks differ. */
  "client-clock": (soil) => limitedBy(soil, { skew: soil.chance.integer(-1_500, 1_500), steps: 1 }),
  "client-clock, all right": (soil) => limitedBy(soil, { skew: 0, steps: 1 }),

  /** Releases are counted, not named: a second release returns the slot of another job. */
  "double-release": (soil) => releasing(soil, { again: true }),
  "double-release, once": (soil) => releasing(soil, { again: false }),

  /** The mistake of a starting worker: it takes every active job for that of a dead worker. */
  "rescue-without-predicate": ({ storage, db }) =>
    instead(storage, {
      sweep: () => {
        db.exec("UPDATE sluice_jobs SET lease_until = 1 WHERE state = 'active'");
        return storage.sweep();
      },
    }),

  /** No wake-ups, and no later look. */
  "lost-wake-up": ({ storage }) =>
    instead(storage, {
      subscribe: (subscriber) => storage.subscribe({ ...subscriber, wake: undefined }),
      claim: async (request) => ({ ...(await storage.claim(request)), nextInMs: null, more: false }),
    }),

  /** A worker that a limit blocks claims a while later than it could. */
  "late-wake-up": ({ storage }) =>
    instead(storage, {
      claim: async (request) => {
        const claim = await storage.claim(request);
        return { ...claim, nextInMs: claim.nextInMs === null ? null : claim.nextInMs + SLEEPY_MS };
      },
    }),

  /** Reads the waiting jobs, and starts them a moment later without checking again. */
  "claim-not-atomic": ({ storage, db }) =>
    instead(storage, {
      claim: async (request) => {
        const stale = request.settle.length > 0 ? await storage.settle(request.settle) : [];
        const ids = db
          .prepare("SELECT id FROM sluice_jobs WHERE queue = ? AND state = 'waiting' ORDER BY due_at, seq LIMIT ?")
          .all(request.queue, request.max)
          .map((row) => row["id"] as string);
        await wait(4);
        const jobs = ids.length === 0 ? [] : await take(storage, db, ids, request);
        return { jobs, stale, more: false, nextInMs: 10, blockedBy: null };
      },
    }),

  /** Answers before anything is written. */
  "early-acknowledgement": ({ storage }) =>
    instead(storage, {
      add: async (jobs) => {
        setTimeout(() => void storage.add(jobs), 60);
        return jobs.map(({ id }) => ({ id, created: true }));
      },
    }),

  /** Checks whether the key is taken, and adds the job a moment later. */
  "key-check-then-insert": ({ storage, db }) => {
    db.exec("CREATE TABLE IF NOT EXISTS chaos_keys (key TEXT, job TEXT)");
    const one = async (job: NewJob) => {
      const key = job.idempotency?.key ?? null;
      if (key === null) return (await storage.add([job]))[0]!;
      const row = db.prepare("SELECT job FROM chaos_keys WHERE key = ? LIMIT 1").get(key);
      if (row !== undefined) return { id: row["job"] as string, created: false };
      await wait(3);
      const [added] = await storage.add([{ ...job, idempotency: null }]);
      db.prepare("UPDATE sluice_jobs SET idempotency_key = ? WHERE id = ?").run(key, job.id);
      db.prepare("INSERT INTO chaos_keys VALUES (?, ?)").run(key, job.id);
      return added!;
    };
    return instead(storage, { add: (jobs) => Promise.all(jobs.map(one)) });
  },

  /** Adds the jobs of a bulk one by one. */
  "bulk-in-pieces": ({ storage }) =>
    instead(storage, {
      add: async (jobs) => {
        const answers = [];
        for (const job of jobs) answers.push((await storage.add([job]))[0]!);
        return answers;
      },
    }),

  /** Every tenth end of a job is acknowledged, and not written. */
  "forgotten-settle": ({ storage, chance }) => {
    const kept = (outcomes: readonly Outcome[]) => outcomes.filter(() => !chance.chance(0.1));
    return instead(storage, {
      settle: (outcomes) => storage.settle(kept(outcomes)),
      claim: (request) => storage.claim({ ...request, settle: kept(request.settle) }),
    });
  },

  /** A crash gives the attempt back: a job that kills its worker does so for ever. */
  "attempts-not-counted": ({ storage, db }) =>
    instead(storage, {
      sweep: () => {
        db.exec(
          "UPDATE sluice_jobs SET attempt = attempt - 1 WHERE state = 'active' AND lease_until < 1000 * unixepoch('subsec')",
        );
        return storage.sweep();
      },
    }),

  /** Starts are deleted while they still count. */
  "pruned-too-early": ({ storage, chance }) =>
    instead(storage, {
      claim: async (request) => {
        if (chance.chance(0.1)) {
          for (const { rule } of await storage.limits.read({ name: null, group: null })) {
            await storage.limits.change(rule.name, { reset: true, group: null });
          }
        }
        return storage.claim(request);
      },
    }),

  /** Now and then a job ends, and its slot stays in use. */
  "slot-leak": ({ storage, chance }) =>
    instead(storage, {
      claim: async (request) => {
        const claim = await storage.claim(request);
        if (request.settle.length > 0 && chance.chance(0.02)) {
          await storage.limits.take({ name: "gpu", group: null, weight: null, ttlMs: 3_600_000 });
        }
        return claim;
      },
    }),

  /** Starts count from the grant, whenever their calls are made. */
  "stamped-at-the-grant": ({ storage }) => {
    const { limits, rates } = storage;
    return instead(storage, {
      claim: (request) => storage.claim({ ...request, grantTtlMs: undefined }),
      limits: instead(limits, { take: (asked) => limits.take({ ...asked, grantTtlMs: undefined }) }),
      rates: instead(rates, {
        tryRecordExecution: (name, { maxExecutions, windowMs, weight = 1 }) =>
          rates.tryRecordExecution(name, { maxExecutions, windowMs, weight }),
      }),
    });
  },

  /** Confirms that calls were made at once, whenever they were. */
  "confirmed-too-low": ({ storage }) => {
    const { rates } = storage;
    return instead(storage, {
      claim: ({ confirm = [], ...request }) => storage.claim({ ...request, confirm: atOnce(confirm) }),
      confirm: (confirmations) => storage.confirm(atOnce(confirmations)),
      rates: instead(rates, { confirmExecution: (name, calls) => rates.confirmExecution(name, atOnce(calls)) }),
    });
  },

  /** Confirms a claim as soon as it is answered, before its calls are made. */
  "confirmed-before-the-last-call": (soil) => confirmedOnAnswer(soil, { early: true }),
  "confirmed-before-the-last-call, after it": (soil) => confirmedOnAnswer(soil, { early: false }),
};

const atOnce = <T extends { readonly calledInMs: number }>(calls: readonly T[]): T[] =>
  calls.map((call) => ({ ...call, calledInMs: 0 }));

/** A claim is followed by a confirmation: of what was claimed, or of nothing. */
function confirmedOnAnswer({ storage }: Soil, { early }: { readonly early: boolean }): JobStorage {
  return instead(storage, {
    claim: async (request) => {
      const asked = hr();
      const claim = await storage.claim(request);
      const { grant } = claim;
      if (grant !== undefined) {
        await storage.confirm(early ? [{ grant: grant.id, calledInMs: hr() - asked }] : []);
      }
      return claim;
    },
  });
}

async function take(storage: JobStorage, db: DatabaseSync, ids: readonly string[], request: ClaimRequest) {
  const now = Date.now();
  for (const id of ids) {
    db.exec("BEGIN IMMEDIATE");
    const row = db.prepare("UPDATE sluice_meta SET sequence = sequence + 1 RETURNING sequence").get()!;
    db.prepare(
      `UPDATE sluice_lanes SET waiting = max(0, waiting - 1)
         WHERE id = (SELECT lane FROM sluice_jobs WHERE id = ? AND state = 'waiting')`,
    ).run(id);
    db.prepare(
      `UPDATE sluice_jobs SET state = 'active', attempt = attempt + 1, token = ?, worker = ?, started_at = ?, lease_until = ?
         WHERE id = ? AND state IN ('waiting', 'active')`,
    ).run(row["sequence"] as number, request.worker, now, now + request.leaseMs, id);
    db.exec("COMMIT");
  }
  const found = await storage.find(ids);
  return found.filter(
    (job) => job !== undefined && job.state === "active" && job.worker === request.worker,
  ) as Claim["jobs"];
}

/** Claims under a window that the process keeps itself. */
function limitedBy({ storage, db, chance }: Soil, { skew, steps }: { skew: number; steps: 1 | 2 }): JobStorage {
  const limiter = new OwnWindow(db, () => Date.now() + skew);
  return instead(storage, {
    claim: async (request) => {
      let available = 0;
      if (steps === 1) available = limiter.transaction(() => limiter.take(request, limiter.available(request)));
      else {
        const seen = limiter.available(request);
        await wait(chance.integer(1, 5));
        available = limiter.take(request, seen);
      }
      const claim = await storage.claim({ ...request, max: available, limits: [] });
      limiter.giveBack(request, available - claim.jobs.length);
      return available === 0 ? { ...claim, more: false, nextInMs: 10 } : claim;
    },
  });
}

/** A window in a table of its own. */
class OwnWindow {
  readonly #db: DatabaseSync;
  readonly #now: () => number;

  constructor(db: DatabaseSync, now: () => number) {
    this.#db = db;
    this.#now = now;
    db.exec("CREATE TABLE IF NOT EXISTS chaos_starts (key TEXT, at REAL)");
  }

  transaction<T>(work: () => T): T {
    this.#db.exec("BEGIN IMMEDIATE");
    const answer = work();
    this.#db.exec("COMMIT");
    return answer;
  }

  /** The window is longer than it needs to be: starts are stamped before they are claimed, and that takes a moment. */
  available({ limits }: ClaimRequest): number {
    return limits.reduce((least, { key, max, windowMs }) => {
      const row = this.#db
        .prepare("SELECT count(*) AS n FROM chaos_starts WHERE key = ? AND at > ?")
        .get(key, this.#now() - windowMs - LATE_MS);
      return Math.min(least, max - (row!["n"] as number));
    }, Number.POSITIVE_INFINITY);
  }

  take({ limits, max }: ClaimRequest, available: number): number {
    const count = Math.max(0, Math.min(max, available));
    const insert = this.#db.prepare("INSERT INTO chaos_starts VALUES (?, ?)");
    for (const { key } of limits) for (let i = 0; i < count; i++) insert.run(key, this.#now());
    return count;
  }

  giveBack({ limits }: ClaimRequest, count: number): void {
    const remove = this.#db.prepare(
      "DELETE FROM chaos_starts WHERE rowid = (SELECT max(rowid) FROM chaos_starts WHERE key = ?)",
    );
    for (const { key } of limits) for (let i = 0; i < count; i++) remove.run(key);
  }
}

const LATE_MS = 400;
const SLEEPY_MS = 150;

/** The first time a start is returned it is its own; `again`: every further time, the latest of any job. */
function releasing({ storage, db }: Soil, { again }: { readonly again: boolean }): JobStorage {
  const { rates } = storage;
  const given = new Set<string>();
  const cancelExecution = async (name: string, token: string): Promise<void> => {
    if (!given.has(token)) {
      given.add(token);
      return rates.cancelExecution(name, token);
    }
    if (!again) return;
    db.exec("BEGIN IMMEDIATE");
    const latest = db
      .prepare(
        `SELECT seq, n, limit_id FROM sluice_starts
           WHERE limit_id = (SELECT id FROM sluice_limits WHERE name = ?) AND n > 0 ORDER BY at DESC LIMIT 1`,
      )
      .get(name) as { seq: number; n: number; limit_id: number } | undefined;
    if (latest !== undefined) {
      db.prepare("UPDATE sluice_starts SET n = 0 WHERE seq = ?").run(latest.seq);
      db.prepare("UPDATE sluice_limits SET used = max(0, used - ?) WHERE id = ?").run(latest.n, latest.limit_id);
    }
    db.exec("COMMIT");
  };
  return instead(storage, { rates: instead(rates, { cancelExecution }) });
}
