import { type JobStorage, Queue } from "../../dist/index.js";
import { dataOf } from "../queue/bench.ts";

const AT_ONCE = 5_000;

/** So many jobs wait. */
export async function fill(storage: JobStorage, jobs: number): Promise<void> {
  await storage.setup();
  const queue = new Queue("bench", { storage });
  for (let n = 0; n < jobs; n += AT_ONCE) {
    const length = Math.min(AT_ONCE, jobs - n);
    await queue.addBulk(Array.from({ length }, (_, i) => ({ type: "bench", data: dataOf(n + i) })));
  }
}
