import { closeSync, type FSWatcher, watch, writeSync } from "node:fs";
import type { Clock } from "../../core/clock.ts";
import { openHintFile } from "./files.ts";

/** Writes that come closer than this make one hint. */
const COALESCE_MS = 2;

/**
 * A file beside the database that is written to when other processes should look, and watched by processes that
 * listen. Only hints go this way: where files cannot be watched, they still look once a second.
 */
export class HintFile {
  readonly #path: string;
  readonly #database: string;
  readonly #clock: Clock;
  #file: number | undefined;
  #watcher: FSWatcher | undefined;
  #writtenAt = Number.NEGATIVE_INFINITY;
  #pending: (() => void) | undefined;

  constructor(database: string, clock: Clock) {
    this.#path = `${database}-hint`;
    this.#database = database;
    this.#clock = clock;
  }

  /** Notifies other processes, at once or in a moment. */
  notify(): void {
    if (this.#pending !== undefined) return;
    const wait = COALESCE_MS - (this.#clock.now() - this.#writtenAt);
    if (wait <= 0) {
      this.#write();
      return;
    }
    this.#pending = this.#clock.after(wait, () => {
      this.#pending = undefined;
      this.#write();
    });
  }

  /** Calls `look` when another process has written a hint. Watching never keeps the process alive. */
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
    this.#writtenAt = this.#clock.now();
    try {
      writeSync(this.#open(), "!", 0);
    } catch {
      // Processes that listen look within a second anyway.
    }
  }

  #open(): number {
    // Not to append: the file stays one byte long, however many hints are written.
    return (this.#file ??= openHintFile(this.#path, this.#database));
  }
}
