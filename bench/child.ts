import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

/** Runs a script in a process of its own, with the garbage collector at its call, and waits for the message it sends. */
export function answerOf<Answer>(script: URL, args: readonly string[]): Promise<Answer> {
  const child = spawn(process.execPath, ["--expose-gc", fileURLToPath(script), ...args], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  return new Promise((resolve, reject) => {
    child.once("message", (answer) => resolve(answer as Answer));
    child.once("error", reject);
    child.once("close", (code, signal) =>
      reject(new Error(`${[fileURLToPath(script), ...args].join(" ")} ended with ${signal ?? code} and no answer`)),
    );
  });
}
