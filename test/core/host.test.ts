import { hostname } from "node:os";
import { expect, it } from "vitest";
import { hostOf } from "../../src/core/host.ts";

it("where a process runs is known on a server", () => {
  expect(hostOf()).toEqual({ host: hostname(), pid: process.pid });
});

it.each<[string, object]>([
  ["a browser", {}],
  ["a bundler's imitation of a process", { process: { env: {} } }],
  ["a server without such a module", { process: { pid: "7", getBuiltinModule: () => undefined } }],
  [
    "a server that refuses it",
    {
      process: {
        pid: 1.5,
        getBuiltinModule: () => {
          throw new Error("not permitted");
        },
      },
    },
  ],
])("where a process runs is not known in %s", (_, globals) => {
  expect(hostOf(globals)).toEqual({ host: null, pid: null });
});

it("the name of a machine is kept within what every storage can hold", () => {
  const named = (name: string) => hostOf({ process: { getBuiltinModule: () => ({ hostname: () => name }) } }).host;
  expect(named(`a\u0000b\ud800${"c".repeat(400)}`)).toBe(`ab\ufffd${"c".repeat(252)}`);
  expect(named("")).toBe(null);
});
