import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { sharedNow, sleep } from "../queue/temporary.ts";
import type { Bench, PostgresContender } from "./bench.ts";
import type { Order, Word } from "./worker-child.ts";

const GIVE_UP_MS = 60_000;

/** A process that works for a contender. */
class Worker {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<Word["kind"], (word: Word) => void>();
  #failed: (error: Error) => void = () => {};
  readonly failure = new Promise<never>((_, reject) => (this.#failed = reject));
  handled = 0;
  /** When it had started, or when it handled its first job if that was before. */
  beganAt = Infinity;

  constructor({ name }: PostgresContender, url: string, concurrency: number) {
    const script = fileURLToPath(new URL("worker-child.ts", import.meta.url));
    const args = [script, name, url, String(concurrency)];
    this.#child = spawn(process.execPath, args, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
    this.#child.on("message", (word) => this.#receive(word as Word));
    this.#child.once("exit", (code) => this.#failed(new Error(`a worker of ${name} ended with ${code}`)));
    this.failure.catch(() => {});
  }

  async answer<Kind extends Word["kind"]>(kind: Kind, order?: Order): Promise<Extract<Word, { kind: Kind }>> {
    const word = new Promise<Word>((resolve) => this.#waiting.set(kind, resolve));
    if (order === "start") {
      this.handled = 0;
      this.beganAt = Infinity;
    }
    if (order !== undefined) this.#child.send(order);
    return (await Promise.race([word, this.failure])) as Extract<Word, { kind: Kind }>;
  }

  #receive(word: Word): void {
    if (word.kind === "handled") {
      this.handled = word.jobs;
      this.beganAt = Math.min(this.beganAt, word.firstAt);
    }
    if (word.kind === "started") this.beganAt = Math.min(this.beganAt, word.at);
    this.#waiting.get(word.kind)?.(word);
  }
}

/** The processes that work for a contender. They stay for as long as this process. */
export class Crew {
  readonly #workers: readonly Worker[];

  private constructor(workers: readonly Worker[]) {
    this.#workers = workers;
  }

  static async of(contender: PostgresContender, url: string, concurrency: number, processes: number): Promise<Crew> {
    const workers = Array.from({ length: processes }, () => new Worker(contender, url, concurrency));
    await Promise.all(workers.map((worker) => worker.answer("ready")));
    return new Crew(workers);
  }

  /** The first so many of them work off the jobs that wait. Resolves with how many that were per second. */
  async drain(bench: Bench, jobs: number, processes: number): Promise<number> {
    const workers = this.#workers.slice(0, processes);
    await Promise.all(workers.map((worker) => worker.answer("started", "start")));
    const giveUp = sharedNow() + GIVE_UP_MS;
    const handled = () => workers.reduce((sum, worker) => sum + worker.handled, 0);
    while (handled() < jobs || (await bench.left()) > 0) {
      if (sharedNow() > giveUp) throw new Error(`${handled()} of ${jobs} jobs were handled`);
      await Promise.race([sleep(1), ...workers.map(({ failure }) => failure)]);
    }
    const endedAt = sharedNow();
    await Promise.all(workers.map((worker) => worker.answer("stopped", "stop")));
    return (jobs / (endedAt - Math.min(...workers.map(({ beganAt }) => beganAt)))) * 1_000;
  }

  /** The first of them works while `use` runs. Resolves with how long jobs took to start. */
  async serve(use: (handled: () => number) => Promise<void>): Promise<readonly number[]> {
    const [worker] = this.#workers;
    await worker!.answer("started", "start");
    await Promise.race([use(() => worker!.handled), worker!.failure]);
    return (await worker!.answer("stopped", "stop")).latencies;
  }
}
