import { closeSync, type FSWatcher, watch, writeSync } from "node:fs";
import type { Clock } from "../../core/clock.ts";
import { openHintFile } from "./files.ts";

/** Writes that come closer than this are told as one. */
const COALESCE_MS = 2;

/**
 * A file beside the database that is written to when other processes should look, and watched by those who listen. Only
 * hints go this way: where files cannot be watched, everybody still looks once a second.
 */
export class HintFile {
  readonly #path: string;
  readonly #database: string;
  readonly #clock: Clock;
  #file: number | undefined;
  #watcher: FSWatcher | undefined;
  #toldAt = Number.NEGATIVE_INFINITY;
  #pending: (() => void) | undefined;

  constructor(database: string, clock: Clock) {
    this.#path = `${database}-hint`;
    this.#database = database;
    this.#clock = clock;
  }

  /** Tells other processes, at once or in a moment. */
  tell(): void {
    if (this.#pending !== undefined) return;
    const wait = COALESCE_MS - (this.#clock.now() - this.#toldAt);
    if (wait <= 0) {
      this.#write();
      return;
    }
    this.#pending = this.#clock.after(wait, () => {
      this.#pending = undefined;
      this.#write();
    });
  }

  /** Calls `look` when somebody has told something. Watching never keeps the process alive. */
  watch(look: () => void): void {
    if (this.#watcher !== undefined) return;
    try {
      this.#open();
      this.#watcher = watch(this.#path, { persistent: false }, look);
      this.#watcher.on("error", () => this.unwatch());
    } catch {
      // Not every file system can do this.
    }
  }

  unwatch(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  close(): void {
    this.unwatch();
    if (this.#pending !== undefined) {
      this.#pending();
      this.#pending = undefined;
      this.#write();
    }
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }

  #write(): void {
    this.#toldAt = this.#clock.now();
    try {
      writeSync(this.#open(), "!", 0);
    } catch {
      // Nobody hears of it at once; everybody hears of it within a second.
    }
  }

  #open(): number {
    // Not to append: the file stays one byte long, however much is told.
    return (this.#file ??= openHintFile(this.#path, this.#database));
  }
}
