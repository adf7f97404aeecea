import { concurrencyWrappers } from "./concurrency-contenders.ts";

const [name, calls] = process.argv.slice(2);
const wrapper = concurrencyWrappers.find((candidate) => candidate.name === name)!;
const call = await wrapper.create(1, () => new Promise(() => {}));

const WARM_UP = 2_000;
const promises: Promise<unknown>[] = Array.from({ length: Number(calls) });
const early = Array.from({ length: WARM_UP }, () => call());
const before = await heapUsed();
for (let i = 0; i < promises.length; i++) promises[i] = call();
const bytes = ((await heapUsed()) - before) / promises.length;
process.send!(bytes, () => process.exit(early.length === WARM_UP ? 0 : 1));

/** After whatever is under way has come to rest. */
async function heapUsed(): Promise<number> {
  await new Promise((resolve) => setTimeout(resolve, 50));
  for (let i = 0; i < 4; i++) globalThis.gc!();
  return process.memoryUsage().heapUsed;
}
