import { setTimeout as wait } from "node:timers/promises";
import type { Clock } from "../../src/core/clock.ts";
import type { JobStorage } from "../../src/storage/job-storage.ts";
import { Seeded } from "../conductor/seeded.ts";
import { groundOf } from "../grounds/index.ts";
import { hr } from "../history/entry.ts";
import { Recorder } from "../history/recorder.ts";
import { clockOf } from "./clocks.ts";
import { planted } from "./plants.ts";
import { RecordedStorage } from "./recorded-storage.ts";
import { asleep } from "./sleep.ts";
import type { Spec } from "./spec.ts";

/** What every process of the harness needs. */
export interface House {
  readonly storage: JobStorage;
  readonly recorder: Recorder;
  readonly chance: Seeded;
  readonly clock: Clock;
  /** Closes the storage and reports what would still keep the process alive. */
  readonly leave: () => Promise<void>;
}

const TICK_MS = 10;
/** A tick that comes so late was delayed by a pause, or by a blocked event loop. */
const PAUSE_MS = 400;
const MEMORY_EVERY_MS = 1_000;
/** Timers that end so soon after the storage was closed are not left open: limiters listen, and confirm, for a moment more. */
const LINGER_MS = 3_000;

export function openHouse(spec: Spec): House {
  const recorder = new Recorder(spec.folder, spec.p);
  const note = (kind: "error" | "unhandled", error: unknown) =>
    recorder.write({ op: "process", phase: "info", kind, text: textOf(error), value: 0 });
  process.on("unhandledRejection", (error) => note("unhandled", error));
  process.on("uncaughtException", (error) => note("unhandled", error));
  const stopTicking = tick(recorder);
  const { database, seed, plant, duplicate = 0 } = spec;
  const real = groundOf(database).open(spec);
  const storage = plant === undefined ? real : planted(real, plant, database, seed);
  return {
    storage: new RecordedStorage(storage, recorder, { seed, duplicate }),
    recorder,
    chance: new Seeded(seed),
    clock: clockOf(spec),
    leave: async () => {
      stopTicking();
      await real.close();
      for (const end = hr() + LINGER_MS; leftOpen().length > asleep() && hr() < end;) await wait(TICK_MS);
      const open = leftOpen();
      // The timers of a handler that ignores its signal do not count.
      const value = Math.max(0, open.length - asleep());
      recorder.write({ op: "process", phase: "info", kind: "left", text: open.join(" "), value });
    },
  };
}

/** What would keep the process alive. */
const leftOpen = (): string[] =>
  process.getActiveResourcesInfo().filter((kind) => kind === "Timeout" || kind.startsWith("FSEvent"));

export function textOf(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}

/** Records pauses, and the memory of the process. */
function tick(recorder: Recorder): () => void {
  let before = hr();
  let measured = before;
  const timer = setInterval(() => {
    const now = hr();
    const gap = now - before - TICK_MS;
    before = now;
    if (gap > PAUSE_MS) recorder.write({ op: "process", phase: "info", kind: "paused", text: "", value: gap });
    if (now - measured < MEMORY_EVERY_MS) return;
    measured = now;
    recorder.write({ op: "process", phase: "info", kind: "memory", text: "", value: process.memoryUsage.rss() });
  }, TICK_MS);
  return () => clearInterval(timer);
}
