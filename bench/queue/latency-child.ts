import { dataOf } from "./bench.ts";
import { sqlite } from "./contenders.ts";
import { sharedNow } from "./temporary.ts";

// Adds a job on order.
const [name = "", file = ""] = process.argv.slice(2);
const bench = await sqlite.contenders.find((contender) => contender.name === name)!.create(file, 1);
process.on("message", (n) => {
  void bench.add({ ...dataOf(n as number), at: sharedNow() });
});
process.send!("ready");
