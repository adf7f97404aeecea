import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";

/** A process of its own that runs a file. What it prints, line by line, is JSON. */
export class ChildOf {
  readonly process: ChildProcess;
  readonly lines: unknown[] = [];
  readonly #readers: (() => void)[] = [];
  readonly #closed: Promise<unknown>;

  constructor(file: URL, ...args: string[]) {
    this.process = spawn(process.execPath, [fileURLToPath(file), ...args], { stdio: ["pipe", "pipe", "inherit"] });
    this.#closed = once(this.process, "close");
    createInterface({ input: this.process.stdout! }).on("line", (line) => {
      this.lines.push(JSON.parse(line));
      for (const read of this.#readers.splice(0)) read();
    });
    this.process.on("close", () => {
      for (const read of this.#readers.splice(0)) read();
    });
    onTestFinished(() => void this.process.kill("SIGKILL"));
  }

  /** The line at this place, once it was printed. */
  async line<T>(index: number): Promise<T> {
    while (this.lines.length <= index) {
      if (this.process.exitCode !== null) throw new Error(`the child ended with ${this.process.exitCode}`);
      await new Promise<void>((resolve) => this.#readers.push(resolve));
    }
    return this.lines[index] as T;
  }

  say(text: string): void {
    this.process.stdin!.write(`${text}\n`);
  }

  /** All it printed, once it has ended. */
  async ended(): Promise<readonly unknown[]> {
    await this.#closed;
    return this.lines;
  }
}
