import { MemoryStorage } from "../../src/index.ts";
import type { JobStorage, NewJob } from "../../src/storage/job-storage.ts";
import { SqliteStorage } from "../../src/storages/sqlite/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { emptyStorages } from "../storages/postgres/support.ts";

/** A storage with nothing in it, on a clock that is moved by hand. */
interface Opened {
  readonly storage: JobStorage;
  readonly clock: FakeClock;
}

function onClock(make: (clock: FakeClock) => JobStorage): () => Promise<Opened> {
  return async () => {
    const clock = new FakeClock();
    return { storage: make(clock), clock };
  };
}

/** `SLUICE_LIVES=40 vitest run test/reliability --testTimeout 900000` gives the slowest so many times the runs. */
const LIVES = Number(process.env["SLUICE_LIVES"] ?? 1);

/** How many runs each is given: some take longer for one. */
export const STORAGES: readonly {
  readonly name: string;
  readonly runs: number;
  readonly open: () => Promise<Opened>;
}[] = [
  { name: "memory", runs: 10_000, open: onClock((clock) => new MemoryStorage({ clock })) },
  { name: "sqlite", runs: 300, open: onClock((clock) => new SqliteStorage(":memory:", { clock })) },
  { name: "postgres", runs: 25 * LIVES, open: emptyStorages() },
];

/** Starts by the rule: at most `max` in any `windowMs`, what was taken back left out. */
export class Reference {
  readonly #max: number;
  readonly #windowMs: number;
  readonly #starts = new Map<unknown, number>();

  constructor(max: number, windowMs: number) {
    this.#max = max;
    this.#windowMs = windowMs;
  }

  /** How many more fit now. */
  available(now: number): number {
    let used = 0;
    for (const at of this.#starts.values()) if (now - at < this.#windowMs) used += 1;
    return this.#max - used;
  }

  start(name: unknown, now: number): void {
    this.#starts.set(name, now);
  }

  undo(name: unknown): void {
    this.#starts.delete(name);
  }
}

export function jobOf(id: string): NewJob {
  return {
    id,
    queue: "q",
    type: "work",
    data: "null",
    due: { inMs: 0 },
    priority: 0,
    group: null,
    weights: null,
    maxAttempts: 3,
    backoff: { kind: "fixed", delay: 0 },
    timeout: null,
    deadline: null,
    keepFor: null,
    idempotency: null,
  };
}
