import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { afterAll, type Clock } from "../../src/core/clock.ts";
import type { FromWorker, ToWorker, WorkerSettings } from "./messages.ts";
import { end, firstMessage, hasEnded, startModule } from "./processes.ts";
import type { Scoreboard } from "./scoreboard.ts";

/** How long processes may take to stop by themselves. */
const GRACE_MS = 4_000;

interface Member {
  readonly child: ChildProcess;
  /** The name of its worker. */
  readonly worker: string;
}

/** The worker processes, all real ones. What they say goes to the scoreboard. */
export class Crew {
  readonly #members: readonly Member[];
  readonly #clock: Clock;
  /** Called when a message has arrived, after it was written down. */
  received: () => void = () => {};

  private constructor(members: readonly Member[], board: Scoreboard, clock: Clock) {
    this.#members = members;
    this.#clock = clock;
    for (const [player, { child }] of members.entries()) {
      board.players.push({ pid: child.pid ?? 0, done: 0, running: new Set(), killed: false });
      child.on("message", (message) => {
        note(board, player, message as FromWorker, clock.now());
        this.received();
      });
    }
  }

  /** Starts them, and waits until all of them are ready. */
  static async start(settings: WorkerSettings, board: Scoreboard, clock: Clock): Promise<Crew> {
    const children = Array.from({ length: settings.plan.processes }, () => startModule("./worker-process", settings));
    try {
      const ready = await Promise.all(
        children.map((child) => firstMessage<{ readonly ready: string }>(child, "a worker process")),
      );
      return new Crew(
        children.map((child, i) => ({ child, worker: ready[i]!.ready })),
        board,
        clock,
      );
    } catch (error) {
      await Promise.all(children.map((child) => end(child)));
      throw error;
    }
  }

  go(): void {
    this.#send("go");
  }

  /** The name of a process's worker. */
  workerOf(player: number): string {
    return this.#members[player]!.worker;
  }

  /** Stops one where it is, so that it can be looked at, or lets it go on. Not every system can do that. */
  freeze(player: number, frozen: boolean): void {
    if (process.platform !== "win32") this.#members[player]!.child.kill(frozen ? "SIGSTOP" : "SIGCONT");
  }

  /** Kills one, without any warning. */
  async kill(player: number): Promise<void> {
    await end(this.#members[player]!.child);
  }

  /** Lets them finish what they are at, and waits until they are gone. */
  async stop(): Promise<void> {
    this.#send("stop");
    const cancel = afterAll(this.#clock, GRACE_MS, () => void this.end());
    await Promise.all(this.#members.map(async ({ child }) => hasEnded(child) || once(child, "exit")));
    cancel();
  }

  /** Ends all that are left, at once. */
  async end(): Promise<void> {
    await Promise.all(this.#members.map(({ child }) => end(child)));
  }

  #send(message: ToWorker): void {
    for (const { child } of this.#members) if (child.connected) child.send(message);
  }
}

function note(board: Scoreboard, player: number, message: FromWorker, now: number): void {
  if ("started" in message) board.started(player, message.started, now);
  else if ("done" in message) board.ended(player, message.done, now);
  else if ("refused" in message) board.refusedOne(player, message.refused, now);
  else if ("failed" in message) board.failures.push(message.failed);
}
