import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import type { Plant } from "../child/spec.ts";
import { together, type Verdict } from "../checkers/verdict.ts";
import { type Digest, digest } from "../history/digest.ts";
import { type Entry, hr } from "../history/entry.ts";
import type { Final } from "../history/final.ts";
import { readHistory } from "../history/read.ts";
import type { PostgresServer } from "../../scripts/postgres-server.ts";
import type { JobStorage } from "../../src/storage/job-storage.ts";
import { type Ground, groundOf } from "../grounds/index.ts";
import { Fleet, type Member } from "./fleet.ts";
import { inspect } from "./inspect.ts";
import { Seeded } from "./seeded.ts";

const TICK_MS = 10;
/** So many faults are printed; the file of the conductor has them all. */
const LONGEST_SCHEDULE = 60;
/** How long processes may take to end when they are asked to. */
const GRACE_MS = 5_000;

export interface WorldOptions {
  readonly program: string;
  readonly folder: string;
  /** Where its jobs are kept. Default: in a file in its folder. */
  readonly database?: string | undefined;
  /** The server that keeps it, if one does. */
  readonly server?: PostgresServer | undefined;
  readonly seed: number;
  /** How much longer everything takes than in the quick run. */
  readonly scale: number;
  readonly plant?: Plant | undefined;
  readonly say: (line: string) => void;
}

/** The result of a scenario. */
export interface Outcome {
  readonly name: string;
  readonly tests: string;
  readonly faults: string;
  readonly operations: number;
  readonly verdicts: readonly Verdict[];
  readonly seconds: number;
}

/** What one scenario has to itself: a folder, a database, processes, chance. */
export class World {
  readonly name: string;
  readonly folder: string;
  readonly database: string;
  readonly ground: Ground;
  readonly server: PostgresServer | undefined;
  readonly fleet: Fleet;
  readonly chance: Seeded;
  readonly scale: number;
  readonly planted: boolean;
  readonly #say: (line: string) => void;
  readonly #begin = hr();
  /** The longest delay of the conductor itself: bounds on time are extended by the delays of the machine. */
  stallMs = 0;
  readonly #watch: NodeJS.Timeout;
  /** The jobs that the conductor itself added. */
  readonly #added: Entry[] = [];
  /** Things that are not signals, for the table. */
  readonly #others = new Map<string, number>();

  constructor(name: string, { program, folder, database, server, seed, scale, plant, say }: WorldOptions) {
    this.name = name;
    this.folder = join(folder, name.replaceAll(/\W+/g, "-"));
    mkdirSync(this.folder, { recursive: true });
    this.database = database ?? join(this.folder, "jobs.db");
    this.ground = groundOf(this.database);
    this.server = server;
    this.chance = new Seeded(seed).fork(name);
    this.scale = scale;
    this.planted = plant !== undefined;
    this.#say = say;
    this.fleet = new Fleet({ program, folder: this.folder, database: this.database, plant });
    let before = hr();
    this.#watch = setInterval(() => {
      const now = hr();
      this.stallMs = Math.max(this.stallMs, now - before - TICK_MS);
      before = now;
    }, TICK_MS);
  }

  say(text: string): void {
    this.#say(`  ${this.name} +${((hr() - this.#begin) / 1_000).toFixed(1)} s: ${text}`);
  }

  seed(): number {
    return this.chance.integer(1, 2 ** 31);
  }

  count(fault: string, n = 1): void {
    this.#others.set(fault, (this.#others.get(fault) ?? 0) + n);
  }

  /** Processes that do nothing but keep processors busy, until they or all are ended. */
  burn(count = 2): Member[] {
    this.count("burners", count);
    return Array.from({ length: count }, () => this.fleet.start({ role: "burner", seed: 0 }));
  }

  /** Jobs that the conductor added itself belong to the history too. */
  recorded(jobs: readonly { readonly id: string; readonly queue: string; readonly created: boolean }[]): void {
    const call = this.#added.length;
    const at = { p: "conductor-adds", hr: hr(), seq: call, call };
    const added = jobs.map(({ id, queue }) => ({ id, queue, key: null, group: null, priority: 0, inMs: 0 }));
    this.#added.push({ ...at, op: "add", phase: "invoke", jobs: added });
    this.#added.push({ ...at, op: "add", phase: "ok", answers: jobs.map(({ id, created }) => ({ id, created })) });
  }

  /** The storage, for the conductor itself. */
  open(): JobStorage {
    return this.ground.open({ database: this.database });
  }

  /** How many jobs have not ended. */
  unfinished(queue?: string): Promise<number> {
    return this.ground.unfinished(this.database, queue);
  }

  /** Waits until every job has ended, for so long at most. */
  async drain(withinMs: number, queue?: string): Promise<boolean> {
    // Jobs may never end because of a planted bug; that is seen soon.
    const end = hr() + (this.planted ? Math.min(withinMs, 4_000) : withinMs);
    while (hr() < end) {
      if ((await this.unfinished(queue)) === 0) return true;
      await wait(50);
    }
    this.say(`${await this.unfinished(queue)} jobs have not ended`);
    return false;
  }

  /** Ends all processes, reads what they wrote and what the storage holds. */
  async collect(): Promise<{ readonly history: Digest; readonly final: Final }> {
    const history = await this.end();
    return { history, final: await inspect(this.database) };
  }

  /** Ends all processes and reads what they wrote. */
  async end(): Promise<Digest> {
    await this.fleet.dismiss(GRACE_MS);
    clearInterval(this.#watch);
    const all = [...this.#added, ...readHistory(this.folder)];
    return digest(all.toSorted((x, y) => x.hr - y.hr || x.seq - y.seq));
  }

  /** Whatever happened, no process and no timer is left. */
  async abandon(): Promise<void> {
    clearInterval(this.#watch);
    await this.fleet.dismiss(0);
  }

  /** Nothing was played: the scenario needs something that is not on this machine. */
  async skipped(tests: string, why: string): Promise<Outcome> {
    this.say(`skipped: ${why}`);
    await this.end();
    const nothing = { faults: "none", operations: 0, verdicts: [], seconds: 0 };
    return { name: this.name, tests: `${tests}, skipped: ${why}`, ...nothing };
  }

  outcome(tests: string, history: Digest, verdicts: readonly Verdict[]): Outcome {
    clearInterval(this.#watch);
    const { schedule } = this.fleet;
    const more = schedule.length > LONGEST_SCHEDULE ? `, and ${schedule.length - LONGEST_SCHEDULE} more` : "";
    this.say(`faults, in seconds: ${schedule.slice(0, LONGEST_SCHEDULE).join(", ")}${more}`);
    this.say(`done; the machine stood still for ${Math.round(this.stallMs)} ms at most`);
    const faults = [...this.fleet.faults, ...this.#others].map(([kind, n]) => `${n} ${kind}`);
    return {
      name: this.name,
      tests,
      faults: faults.join(", ") || "none",
      operations: history.operations,
      verdicts: together(verdicts),
      seconds: (hr() - this.#begin) / 1_000,
    };
  }
}
