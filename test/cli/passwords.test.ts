import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ADDRESSES, WITHOUT_SCHEME } from "./addresses.ts";
import { type Ended, fill, folderFor, inProcess, SECRET } from "./support.ts";

const folder = folderFor("passwords");
const database = join(folder.path, "jobs.db");
afterAll(folder.remove);
beforeAll(() => fill(database));

/** Everywhere an address can be put, rightly or wrongly. */
const PLACES: readonly ((address: string) => readonly [args: string[], env?: Record<string, string>])[] = [
  (address) => [["stats", "--db", address]],
  (address) => [["stats", `--db=${address}`]],
  (address) => [["doctor", "--db", address]],
  (address) => [["stats", "--db-file", address]],
  (address) => [["stats", "--db-file", file(address)]],
  (address) => [["stats"], { SLUICE_DB: address }],
  (address) => [["stats"], { SLUICE_DB_FILE: address }],
  (address) => [["stats"], { SLUICE_DB_FILE: file(address) }],
  (address) => [["doctor"], { DATABASE_URL: address }],
  (address) => [["migrate", address]],
  (address) => [["migrate", "--db", address]],
  (address) => [["simulate", address]],
  (address) => [["stats", "--db", database, address]],
  (address) => [[address]],
  (address) => [["help", address]],
  (address) => [[`--${address}`, "stats"]],
  (address) => [["show", address, "--db", database]],
  (address) => [["explain", address, "--db", database]],
  (address) => [["cancel", address, "--db", database]],
  (address) => [["limits", "show", address, "--db", database]],
  (address) => [["limits", address, "--db", database]],
  (address) => [["stats", "-q", address, "--db", database]],
  (address) => [["jobs", "--state", address, "--db", database]],
  (address) => [["jobs", "--limit", address, "--db", database]],
  (address) => [["purge", "--older-than", address, "--db", database]],
  (address) => [["stats", "--db", "postgres://127.0.0.1:1/x", "--schema", address]],
  (address) => [["stats"], { SLUICE_DB: "postgres://127.0.0.1:1/x", SLUICE_SCHEMA: address }],
];

const OF_DATABASES = 12;

function file(address: string): string {
  const path = join(folder.path, "address");
  writeFileSync(path, `${address}\n`);
  return path;
}

describe("passwords in addresses", () => {
  it.each([...ADDRESSES, ...WITHOUT_SCHEME])("are never printed: %s", async (address) => {
    const leaks: string[] = [];
    const places = WITHOUT_SCHEME.includes(address) ? PLACES.slice(0, OF_DATABASES) : PLACES;
    for (const [index, place] of places.entries()) {
      for (const json of [[], ["--json"]]) {
        const [args, env = {}] = place(address);
        const { out, err, code }: Ended = await inProcess([...args, ...json], { env });
        if ((out + err).includes(SECRET)) leaks.push(`${index} ${args.join(" ")}: ${out}${err}`);
        expect(code, args.join(" ")).not.toBe(0);
      }
    }
    expect(leaks).toEqual([]);
  });

  it("passwords in addresses do not keep a file from being named in a message", async () => {
    const { err } = await inProcess(["stats", "--db", "there/is@none:here.db"]);
    expect(err).toContain("there/is@none:here.db");
    expect((await inProcess(["stats", "--db-file", "there/is.none"])).err).toContain("there/is.none");
    expect((await inProcess(["show", "no-such-job", "--db", database])).err).toContain('"no-such-job"');
  });

  it("passwords in addresses do not matter where the address has space around it", async () => {
    const { err } = await inProcess(["stats", "--json", "--db", ` postgres://ann:${SECRET}@127.0.0.1:1/x\n`]);
    expect(JSON.parse(err)).toMatchObject({ error: { code: "SLUICE_UNREACHABLE" } });
  });
});
