import { type ChildProcess, spawn } from "node:child_process";
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import type { Spec } from "../child/spec.ts";
import { type FaultKind, hr } from "../history/entry.ts";
import { Recorder } from "../history/recorder.ts";

/** Everything but the name and the places, which the fleet gives. */
export type Order<S extends Spec = Spec> = S extends Spec ? Omit<S, "p" | "folder" | "database" | "plant"> : never;

export interface Exit {
  readonly hr: number;
  readonly code: number | null;
  readonly signal: string | null;
}

/** One process that the fleet started. */
export class Member {
  readonly p: string;
  readonly order: Order;
  readonly child: ChildProcess;
  readonly exited: Promise<Exit>;
  exit: Exit | undefined;
  /** It is ending, or is exempt from faults. */
  retired = false;

  constructor(p: string, order: Order, child: ChildProcess) {
    this.p = p;
    this.order = order;
    this.child = child;
    this.exited = new Promise((resolve) => {
      child.once("exit", (code, signal) => {
        this.exit = { hr: hr(), code, signal };
        resolve(this.exit);
      });
    });
  }

  get alive(): boolean {
    return this.exit === undefined;
  }
}

export interface FleetOptions {
  readonly program: string;
  readonly folder: string;
  readonly database: string;
  readonly plant: Spec["plant"];
}

/** What a process finds where it is started. */
export interface Surroundings {
  readonly heapMb?: number | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
}

/** The processes of one scenario, which are started, disturbed and ended by their own handles alone. */
export class Fleet {
  readonly members: Member[] = [];
  readonly #options: FleetOptions;
  readonly #recorder: Recorder;
  #started = 0;
  /** How often each kind of fault was injected. */
  readonly faults = new Map<string, number>();
  /** The faults: which process, what and when. */
  readonly schedule: string[] = [];
  readonly #begin = hr();

  constructor(options: FleetOptions) {
    this.#options = options;
    this.#recorder = new Recorder(options.folder, "conductor");
  }

  start(order: Order, { heapMb, env }: Surroundings = {}): Member {
    const { program, folder, database, plant } = this.#options;
    const p = `${order.role}-${(this.#started += 1)}`;
    const spec = { ...order, p, folder, database, plant } as Spec;
    const flags = ["--no-warnings", ...(heapMb === undefined ? [] : [`--max-old-space-size=${heapMb}`])];
    const child = spawn(process.execPath, [...flags, program, JSON.stringify(spec)], {
      // A process whose standard input closes has lost its conductor, and ends.
      stdio: ["pipe", "pipe", "pipe"],
      cwd: folder,
      env: { ...process.env, ...env },
    });
    child.stderr?.on("data", (text: Buffer) => appendFileSync(join(folder, `${p}.stderr`), text));
    const member = new Member(p, order, child);
    this.members.push(member);
    this.#note("spawn", p);
    return member;
  }

  kill(member: Member): void {
    this.#signal(member, "SIGKILL", "kill");
  }

  pause(member: Member): void {
    this.#signal(member, "SIGSTOP", "stop");
  }

  resume(member: Member): void {
    this.#signal(member, "SIGCONT", "cont");
  }

  terminate(member: Member): void {
    member.retired = true;
    this.#signal(member, "SIGTERM", "term");
  }

  /** It will stop itself at an unknown time: from now on it may be stopped. */
  willStop(member: Member): void {
    this.#note("stop", member.p);
    this.#count("stop");
  }

  /** Records that it killed itself at a crash point. */
  died(member: Member): void {
    this.#note("kill", member.p);
    this.#count("crash");
  }

  live(role: Spec["role"]): Member[] {
    return this.members.filter(({ alive, retired, order }) => alive && !retired && order.role === role);
  }

  get exits(): Map<string, Exit> {
    return new Map(this.members.flatMap(({ p, exit }) => (exit === undefined ? [] : [[p, exit] as const])));
  }

  /** Ends all processes that still run: by a signal to stop, and by a kill if that is ignored. */
  async dismiss(graceMs: number): Promise<void> {
    const left = this.members.filter(({ alive }) => alive);
    for (const member of left) {
      member.retired = true;
      this.#signal(member, "SIGCONT", undefined);
      this.#signal(member, "SIGTERM", "term");
    }
    await Promise.race([Promise.all(left.map(({ exited }) => exited)), wait(graceMs, undefined, { ref: false })]);
    const stubborn = left.filter(({ alive }) => alive);
    for (const member of stubborn) member.child.kill("SIGKILL");
    await Promise.all(stubborn.map(({ exited }) => exited));
    this.#recorder.close();
  }

  #signal(member: Member, signal: NodeJS.Signals, kind: FaultKind | undefined): void {
    if (!member.alive) return;
    // The fault is recorded before: a late reaction of the process can then never seem to come too late.
    if (kind !== undefined) this.#note(kind, member.p);
    member.child.kill(signal);
    if (kind !== undefined && kind !== "cont") this.#count(kind);
  }

  #count(what: string): void {
    this.faults.set(what, (this.faults.get(what) ?? 0) + 1);
  }

  #note(kind: FaultKind, target: string): void {
    if (kind !== "spawn") this.schedule.push(`${((hr() - this.#begin) / 1_000).toFixed(2)} ${kind} ${target}`);
    this.#recorder.write({ op: "fault", phase: "info", kind, target, wall: Date.now() });
  }
}

/** The first line that a process prints. */
export function firstLine({ child }: Member): Promise<string> {
  return new Promise((resolve) => {
    let text = "";
    child.stdout?.on("data", (part: Buffer) => {
      text += part.toString();
      if (text.includes("\n")) resolve(text.slice(0, text.indexOf("\n")));
    });
  });
}
