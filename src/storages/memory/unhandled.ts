import { type UnhandledType, unhandledOf, type WaitingTypes } from "../../storage/workers.ts";
import type { Book } from "./book.ts";

export function unhandled(book: Book, now: number): UnhandledType[] {
  const waiting: WaitingTypes[] = [];
  for (const queue of book.queues.values()) {
    book.promoteAll(queue, now);
    const types = [...queue.lines.values()].filter((line) => line.waiting > 0).map(({ type }) => type);
    const pauses = [...(queue.paused ? [""] : []), ...Array.from(queue.pausedTypes, (type) => `:${type}`)];
    waiting.push({ queue: queue.name, types: types.toSorted(), pauses });
  }
  return unhandledOf(
    waiting.toSorted((a, b) => (a.queue < b.queue ? -1 : 1)),
    book.workers.live(now),
  );
}
