import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { sharedNow, sleep } from "../queue/temporary.ts";
import type { Order, Told, Word } from "./order.ts";

export interface Timing {
  readonly warmMs: number;
  readonly measureMs: number;
}

/** The reports of all processes of a cell. */
export interface Heard extends Told {
  /** When they were taken to be warm. */
  readonly warmAt: number;
}

/** So many processes under one limit, beside so many that burn processors. */
export async function run(
  order: Order,
  { processes, burners }: { readonly processes: number; readonly burners: number },
  { warmMs, measureMs }: Timing,
): Promise<Heard> {
  const children = Array.from({ length: processes }, () => start("child.ts", JSON.stringify(order)));
  const burning: ChildProcess[] = [];
  try {
    await Promise.all(children.map((child) => heard(child)));
    for (let i = 0; i < burners; i++) burning.push(start("burner.ts"));
    tell(children, "begin");
    await sleep(warmMs);
    const warmAt = sharedNow();
    tell(children, "warm");
    await sleep(measureMs);
    const answers = children.map((child) => heard<Told>(child));
    tell(children, "end");
    const told = await Promise.all(answers);
    return {
      calls: told.flatMap(({ calls }) => calls),
      asked: told.reduce((sum, { asked }) => sum + asked, 0),
      made: told.reduce((sum, { made }) => sum + made, 0),
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

function tell(children: readonly ChildProcess[], word: Word): void {
  for (const child of children) child.send(word);
}

function heard<T>(child: ChildProcess): Promise<T> {
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
