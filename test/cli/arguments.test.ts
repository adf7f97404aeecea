import { describe, expect, it } from "vitest";
import { type OptionSpecs, readArguments } from "../../src/cli/arguments.ts";
import { didYouMean, UsageError } from "../../src/cli/failures.ts";
import { nearest } from "../../src/core/nearest.ts";

const SPECS: OptionSpecs = {
  limit: { value: "n", short: "n", help: "" },
  since: { value: "1h", help: "" },
  state: { value: "s,…", help: "" },
  all: { help: "" },
};
const read = (...args: string[]) => readArguments(args, SPECS);
const range = { least: 1, most: 10, fallback: 5 };

describe("arguments", () => {
  it("arguments come as options, with or without an equals sign, and as words in between", () => {
    const args = read("a", "--limit", "3", "b", "--since=90m", "--all", "--", "--limit");
    expect(args.words).toEqual(["a", "b", "--limit"]);
    expect(args.integer("limit", range)).toBe(3);
    expect(args.duration("since")).toBe(5_400_000);
    expect(args.flag("all")).toBe(true);
    expect(read("-n", "4").integer("limit", range)).toBe(4);
  });

  it("arguments have defaults", () => {
    expect(read().integer("limit", range)).toBe(5);
    expect(read().duration("since")).toBeUndefined();
    expect(read().states("state")).toBeUndefined();
    expect(read().flag("all")).toBe(false);
  });

  it("arguments give states with commas between them", () => {
    expect(read("--state", "dead,waiting").states("state")).toEqual(["dead", "waiting"]);
    expect(() => read("--state", "dead,waitin").states("state")).toThrow(/"waitin"; did you mean waiting\?/);
    expect(() => read("--state", "constructor").states("state")).toThrow(UsageError);
  });

  it.each([
    [["--limt", "3"], /no option "--limt"; did you mean --limit\?/],
    [["--zzz"], /no option "--zzz"; options: limit, since, state, all/],
    [["--constructor"], /no option/],
    [["--__proto__=x"], /no option/],
    [["-x"], /no option "-x"/],
    [["--limit"], /--limit needs a value: --limit <n>/],
    [["--limit", "--all"], /--limit needs a value/],
    [["--limit="], /--limit needs a value/],
    [["--all=yes"], /--all is a flag/],
  ])("arguments refuse %j", (args, message) => {
    expect(() => read(...args)).toThrow(message);
    expect(() => read(...args)).toThrow(UsageError);
  });

  it.each(["0", "11", "1.5", "-1", "1e1", "ten", "9999999999999999999"])(
    "arguments refuse %s where 1 to 10 is meant",
    (text) => {
      expect(() => read(`--limit=${text}`).integer("limit", range)).toThrow(/an integer from 1 to 10/);
    },
  );

  it.each(["5", "1w", "-1s", "1 h", "s", "99999999999999d"])("arguments refuse %s as a duration", (text) => {
    expect(() => read(`--since=${text}`).duration("since")).toThrow(/a duration such as/);
  });

  it("arguments take 0 for a duration, whatever its unit", () => {
    expect(read("--since", "0").duration("since")).toBe(0);
  });
});

describe("did you mean", () => {
  const commands = ["stats", "jobs", "show", "retry", "cancel", "resume", "remove"];

  it.each([
    ["stast", "stats"],
    ["job", "jobs"],
    ["cancle", "cancel"],
    ["RETRY", "retry"],
    ["can", "cancel"],
    ["xyz", undefined],
    ["", undefined],
    ["s".repeat(100), undefined],
  ])("%s: %s", (word, meant) => {
    expect(nearest(word, commands)).toBe(meant);
  });

  it("the hint for an unknown word names all words where none is near", () => {
    expect(didYouMean("xyz", ["a-queue"], "queues")).toBe("queues: a-queue");
    expect(didYouMean("xyz", [], "queues")).toBe("there are no queues");
  });
});
