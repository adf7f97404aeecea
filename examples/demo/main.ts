// Jobs in several processes call a local service with a quota, as fast as the quota allows and never faster. One process is
// killed in the middle. `npm start` runs it; `npm start -- --help` lists the options.
import { processIo } from "../../src/cli/io.ts";
import { demo } from "./command.ts";

process.exitCode = await demo(process.argv.slice(2), processIo());
