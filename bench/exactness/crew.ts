import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { sharedNow, sleep } from "../queue/temporary.ts";
import type { Order, Report, Word } from "./order.ts";

export interface Timing {
  readonly warmMs: number;
  readonly measureMs: number;
}

/** The reports of all processes of a cell. */
export interface CrewReport extends Report {
  /** When they were taken to be warm. */
  readonly warmAt: number;
}

/** So many processes under one limit, beside so many that burn processors. */
export async function run(
  order: Order,
  { processes, burners }: { readonly processes: number; readonly burners: number },
  { warmMs, measureMs }: Timing,
): Promise<CrewReport> {
  const children = Array.from({ length: processes }, () => start("child.ts", JSON.stringify(order)));
  const burning: ChildProcess[] = [];
  try {
    await Promise.all(children.map((child) => messageOf(child)));
    for (let i = 0; i < burners; i++) burning.push(start("burner.ts"));
    send(children, "begin");
    await sleep(warmMs);
    const warmAt = sharedNow();
    send(children, "warm");
    await sleep(measureMs);
    const answers = children.map((child) => messageOf<Report>(child));
    send(children, "end");
    const reports = await Promise.all(answers);
    return {
      calls: reports.flatMap(({ calls }) => calls),
      asked: reports.reduce((sum, { asked }) => sum + asked, 0),
      made: reports.reduce((sum, { made }) => sum + made, 0),
      warmAt,
    };
  } finally {
    await Promise.all([...children, ...burning].map(end));
  }
}

function start(script: string, ...args: readonly string[]): ChildProcess {
  const path = fileURLToPath(new URL(script, import.meta.url));
  return spawn(process.execPath, [path, ...args], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
}

function send(children: readonly ChildProcess[], word: Word): void {
  for (const child of children) child.send(word);
}

function messageOf<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    child.once("message", (message) => resolve(message as T));
    child.once("exit", (code) => reject(new Error(`a process ended with ${code}`)));
  });
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, "exit");
  child.kill("SIGKILL");
  await gone;
}
