import { describe, expect, it } from "vitest";
import { demo } from "../../examples/demo/command.ts";
import { ADDRESSES, WITHOUT_SCHEME } from "../cli/addresses.ts";
import { intoTexts, SECRET } from "../cli/support.ts";

const run = (...args: string[]) => intoTexts((io) => demo(args, io));

describe("the command line of the demo", () => {
  it("has a help that fits into 80 columns", async () => {
    const { code, out, err } = await run("--help");
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toContain("--unlimited");
    for (const line of out.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  });

  it.each<[string[], RegExp]>([
    [["postgres://host/db"], /an address needs --postgres/],
    [["--postgres", "host"], /must begin with postgres/],
    [["--postgres", "--keep"], /the server goes with the demo/],
    [["--postgres", "--db", "jobs.db"], /--db names a SQLite file/],
    [["--window", "1"], /a duration/],
    [["--kill", "--no-kill"], /not both/],
    [["--jops", "3"], /no option "--jops"; did you mean --jobs\?/],
    [["one", "two"], /"two" is more than the demo takes/],
  ])("refuses %j with exit code 2", async (args, message) => {
    const [people, machines] = await Promise.all([run(...args), run(...args, "--json")]);
    expect(people).toMatchObject({ code: 2, out: "" });
    expect(people.err).toMatch(message);
    expect(people.err).toMatch(/^See `npm start -- --help`/m);
    expect(machines).toMatchObject({ code: 2, out: "" });
    expect(JSON.parse(machines.err)).toMatchObject({
      error: { code: "SLUICE_USAGE", message: expect.stringMatching(message) },
    });
  });

  it.each([...ADDRESSES, ...WITHOUT_SCHEME])("never shows the password of an address: %s", async (address) => {
    for (const place of [
      ["--postgres", address],
      ["--db", address, "--jobs", "x"],
    ]) {
      for (const json of [[], ["--json"]]) {
        const { code, out, err } = await run(...place, ...json);
        expect(out + err).not.toContain(SECRET);
        expect(code).not.toBe(0);
      }
    }
  });
});
