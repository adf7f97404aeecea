import { describe, expect, it } from "vitest";
import { checkDeadCode } from "../../scripts/check-dead-code.ts";
import { house } from "./house.ts";

const DOOR = 'export { a } from "./core/a.ts";\nexport const open = () => import("./core/late.ts");\nopen();';
const HOUSE = { "index.ts": DOOR, "core/a.ts": "export const a = 1;", "core/late.ts": "" };

describe("the check for dead code", () => {
  it("the check accepts files that a door leads to, also by a dynamic import", () => {
    expect(checkDeadCode(house(HOUSE), ["index.ts"])).toMatch(/is used$/);
  });

  it("the check refuses a file that no door leads to", () => {
    const files = { ...HOUSE, "core/b.ts": 'import { a } from "./a.ts";\na;' };
    expect(() => checkDeadCode(house(files), ["index.ts"])).toThrow("core/b.ts: no door");
  });

  it("the check refuses an exported value that is mentioned in comments alone", () => {
    const files = { ...HOUSE, "core/a.ts": "export const a = 1;\n/** Not b. */\nexport async function b() {}" };
    expect(() => checkDeadCode(house(files), ["index.ts"])).toThrow("core/a.ts: b is exported and never used");
  });
});
