import "./require-node.ts";
import { checkArchitecture } from "./check-architecture.ts";
import { checkBundle } from "./check-bundle.ts";
import { checkDeadCode } from "./check-dead-code.ts";
import { checkPackage } from "./check-package.ts";
import { checkTypes } from "./check-types.ts";

/** Each says what it looked at, or throws with a list of what is wrong. */
const checks = {
  types: checkTypes,
  architecture: checkArchitecture,
  "dead code": checkDeadCode,
  package: checkPackage,
  bundle: checkBundle,
};

let failed = false;
for (const [name, check] of Object.entries(checks)) {
  try {
    console.log(`check ${name}: ${await check()}`);
  } catch (error) {
    failed = true;
    console.error(`check ${name}: FAILED\n${error instanceof Error ? error.message : String(error)}`);
  }
}
if (failed) process.exit(1);
