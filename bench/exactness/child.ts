import { Calls } from "./calls.ts";
import type { Order, Report, Word } from "./order.ts";
import { STARTERS } from "./starters.ts";

// One of several processes under one limit. It makes calls until it receives the order to end, and then reports their times.
const order = JSON.parse(process.argv[2] ?? "") as Order;
const calls = new Calls();
const begin = await STARTERS[order.kind](order, calls);

process.on("message", (word: Word) => {
  if (word === "begin") void begin();
  else if (word === "warm") calls.warm();
  else process.send!(calls.report satisfies Report, () => process.exit());
});
process.on("disconnect", () => process.exit());
process.send!("ready");
