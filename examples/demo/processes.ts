import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

const SETTINGS = "SLUICE_DEMO_SETTINGS";

/** What this process was started with by `startModule`. */
export function settingsOf(): unknown {
  return JSON.parse(process.env[SETTINGS] ?? "");
}

/** Starts a module of this folder in a Node of its own. */
export function startModule(name: string, settings: unknown): ChildProcess {
  // Not on its command line, which others can see: there may be a password in it.
  const env = { ...process.env, [SETTINGS]: JSON.stringify(settings) };
  const file = fileURLToPath(new URL(`${name}.ts`, import.meta.url));
  return fork(file, [], { env, stdio: ["ignore", "ignore", "inherit", "ipc"] });
}

/** The first message of a process that was just started. */
export async function firstMessage<T>(child: ChildProcess, what: string): Promise<T> {
  return await new Promise((resolve, reject) => {
    child.once("message", (message) => resolve(message as T));
    child.once("error", reject);
    child.once("exit", () => reject(new Error(`${what} could not be started`)));
  });
}

/** Ends a process at once, and waits until it is gone. */
export async function end(child: ChildProcess): Promise<void> {
  if (hasEnded(child)) return;
  const gone = once(child, "exit");
  child.kill("SIGKILL");
  await gone;
}

export function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}
