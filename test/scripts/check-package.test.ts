import { expect, it } from "vitest";
import { strangeIn } from "../../scripts/check-package.ts";

it.each([
  ["README.md", ""],
  ["dist/index.js", "export {};"],
  ["dist/core/clock.d.ts", "export {};"],
])("the tarball may hold %s", (path, text) => {
  expect(strangeIn(path, text)).toBeUndefined();
});

it.each([
  ["src/index.ts", "", /no place in the tarball/],
  ["dist/index.js.map", "{}", /no place in the tarball/],
  ["dist/index.d.ts.map", "{}", /no place in the tarball/],
  ["dist/gone.js", "", /has no source/],
  ["dist/index.js", "export {};\n//# sourceMappingURL=index.js.map", /names a source map/],
])("the tarball may not hold %s with %j", (path, text, problem) => {
  expect(strangeIn(path, text)).toMatch(problem);
});
