import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { type Body, hr } from "./entry.ts";

/** Appends to the file of one process. What was written is kept, however suddenly the process ends. */
export class Recorder {
  readonly p: string;
  readonly #file: number;
  #seq = 0;
  #calls = 0;

  constructor(folder: string, p: string) {
    this.p = p;
    this.#file = openSync(join(folder, `${p}.jsonl`), "a");
  }

  /** `at`: when it happened, if that is known better than by the time of writing. */
  write(body: Body, at: number = hr()): void {
    writeSync(this.#file, `${JSON.stringify({ p: this.p, seq: this.#seq++, hr: at, ...body })}\n`);
  }

  /** A number that connects a request with its answer. */
  call(): number {
    return this.#calls++;
  }

  close(): void {
    closeSync(this.#file);
  }
}
