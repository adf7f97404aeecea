import type { Socket } from "node:net";
import { burn } from "./burner.ts";
import { call } from "./caller.ts";
import { command } from "./commander.ts";
import { echo } from "./echo.ts";
import { openHouse } from "./house.ts";
import { produce } from "./producer.ts";
import type { Spec } from "./spec.ts";
import { work } from "./worker.ts";

/** Every process of the harness except the conductor begins here. Its one argument holds its orders. */
const spec = JSON.parse(process.argv[2] ?? "") as Spec;
// The conductor is gone, and nothing else would end this process.
process.stdin.on("close", () => process.exit(3)).resume();
(process.stdin as Socket).unref();
const house = openHouse(spec);
switch (spec.role) {
  case "worker":
    await work(house, spec);
    break;
  case "producer":
    await produce(house, spec);
    break;
  case "caller":
    await call(house, spec);
    break;
  case "commander":
    await command(house, spec);
    break;
  case "echo":
    await echo(house);
    break;
  case "burner":
    burn();
    break;
}
