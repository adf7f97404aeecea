import type { JobStorage } from "../storage/job-storage.ts";
import type { FakeClock } from "./fake-clock.ts";
import { adding } from "./suite/adding.ts";
import { adopting } from "./suite/adopting.ts";
import { backlog } from "./suite/backlog.ts";
import { breaking } from "./suite/breaking.ts";
import { changing } from "./suite/changing.ts";
import { claiming } from "./suite/claiming.ts";
import { clocks } from "./suite/clocks.ts";
import { confirming } from "./suite/confirming.ts";
import { declaring } from "./suite/declaring.ts";
import { explaining } from "./suite/explaining.ts";
import { groups } from "./suite/groups.ts";
import { heavyHeads } from "./suite/heavy.ts";
import { holding } from "./suite/holding.ts";
import { keys } from "./suite/keys.ts";
import { leases } from "./suite/leases.ts";
import { limiting } from "./suite/limiting.ts";
import { names } from "./suite/names.ts";
import { notifying } from "./suite/notifying.ts";
import { order } from "./suite/order.ts";
import { othersWait } from "./suite/others-wait.ts";
import { permits } from "./suite/permits.ts";
import { reading } from "./suite/reading.ts";
import { releasing } from "./suite/releasing.ts";
import { reservations } from "./suite/reservations.ts";
import { rules } from "./suite/rules.ts";
import { type Cases, Scene } from "./suite/scene.ts";
import { settling } from "./suite/settling.ts";
import { sizes } from "./suite/sizes.ts";
import { underLimits } from "./suite/under-limits.ts";
import { updating } from "./suite/updating.ts";
import { wakeUps } from "./suite/wake-ups.ts";
import { weights } from "./suite/weights.ts";
import { workers } from "./suite/workers.ts";

/** An empty storage for one case, and its clock. */
export interface OpenedStorage {
  readonly storage: JobStorage;
  readonly clock: FakeClock;
  /** Deletes the data of the case. The storage itself is closed before. */
  readonly close?: (() => Promise<void>) | undefined;
}

/** One requirement on every storage. `run` throws an Error that says what differed. */
export interface StorageCase {
  readonly name: string;
  readonly run: () => Promise<void>;
}

export interface StorageSuiteOptions {
  /** Subjects that the storage does not have, each with the reason: `{ keys: "there is one group for each job" }`. Default: none. */
  readonly leaveOut?: Readonly<Record<string, string>> | undefined;
}

const SUBJECTS: Readonly<Record<string, Cases>> = {
  adding,
  order,
  claiming,
  sizes,
  leases,
  settling,
  limits: limiting,
  confirming,
  changing,
  updating,
  clocks,
  reading,
  notifying,
  names,
  rules,
  declaring,
  "under limits": underLimits,
  groups,
  keys,
  releasing,
  weights,
  "heavy heads": heavyHeads,
  reservations,
  adopting,
  holding,
  breaking,
  permits,
  explaining,
  backlog,
  "wake-ups": wakeUps,
  "others that wait": othersWait,
  workers,
};

/**
 * The contract of `JobStorage`, as cases for any test runner:
 *
 * ```ts
 * for (const { name, run } of storageSuite(open)) test(name, run);
 * ```
 *
 * Every case opens a storage of its own. The storage must use the clock that `open` returns.
 */
export function storageSuite(
  open: () => Promise<OpenedStorage>,
  { leaveOut = {} }: StorageSuiteOptions = {},
): readonly StorageCase[] {
  const subjects = Object.entries(SUBJECTS).filter(([subject]) => !Object.hasOwn(leaveOut, subject));
  return subjects.flatMap(([subject, cases]) =>
    Object.entries(cases).map(([name, play]) => ({
      name: `${subject}: ${name}`,
      run: async () => {
        const { storage, clock, close } = await open();
        try {
          await storage.setup();
          await play(new Scene(storage, clock));
        } finally {
          await storage.close();
          await close?.();
        }
      },
    })),
  );
}
