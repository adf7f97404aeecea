import { sharedNow } from "../queue/temporary.ts";
import { named } from "./contenders.ts";

/** The orders of a worker. */
export type Order = "start" | "stop";

/** What it says: when it had started, how many jobs it has handled and when the first, and how long they took to start. */
export type Word =
  | { readonly kind: "ready" }
  | { readonly kind: "started"; readonly at: number }
  | { readonly kind: "handled"; readonly jobs: number; readonly firstAt: number }
  | { readonly kind: "stopped"; readonly latencies: readonly number[] };

// A process that works on order. It keeps its connections.
const [name = "", url = "", concurrency = ""] = process.argv.slice(2);
const TELL_MS = 5;
const bench = await named(name).open(url, Number(concurrency));
let stop: () => Promise<void> = async () => {};
let teller: NodeJS.Timeout | undefined;
let jobs = 0;
let firstAt = 0;
let latencies: number[] = [];

function say(word: Word): void {
  process.send!(word);
}

async function start(): Promise<void> {
  jobs = 0;
  latencies = [];
  let reported = 0;
  teller = setInterval(() => {
    if (jobs > reported) say({ kind: "handled", jobs: (reported = jobs), firstAt });
  }, TELL_MS);
  stop = await bench.work(({ at }) => {
    if (at !== undefined) latencies.push(sharedNow() - at);
    if (jobs++ === 0) firstAt = sharedNow();
  });
  say({ kind: "started", at: sharedNow() });
}

async function end(): Promise<void> {
  await stop();
  clearInterval(teller);
  say({ kind: "stopped", latencies });
}

process.on("message", (order: Order) => void (order === "start" ? start() : end()));
process.on("disconnect", () => process.exit());
say({ kind: "ready" });
