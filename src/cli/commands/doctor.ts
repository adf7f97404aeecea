import { recordError } from "../../core/error-record.ts";
import type { SqliteConnection } from "../../storages/sqlite/driver.ts";
import { answer, type Command, type Context, DATABASE } from "../command.ts";
import { type Examination, factsOf } from "../doctor/sqlite-facts.ts";
import type { Finding } from "../doctor/common-findings.ts";
import { findings, unreadable } from "../doctor/sqlite-findings.ts";
import { postgresFacts } from "../doctor/postgres-facts.ts";
import { postgresFindings, unreachable } from "../doctor/postgres-findings.ts";
import { addressOf, type PostgresAddress } from "../address.ts";
import { connected, notificationTime } from "../postgres/database.ts";
import { findingsText } from "../render/findings.ts";
import { openExisting } from "../sqlite/database.ts";

const STUCK_MS = 600_000;
/** A transaction that is open for longer keeps the tables from being cleaned up. */
const LONG_MS = 300_000;

export const doctor: Command = {
  name: "doctor",
  summary: "looks for what is wrong with a database, and says what to do",
  usage: ["[--stuck 10m] [--full]"],
  about: "Exit code 1 if something has failed; warnings alone are 0.",
  options: {
    ...DATABASE,
    stuck: { value: "10m", help: "jobs that wait for longer, while none of their type starts, are worth a word" },
    full: { help: "SQLite: looks at every index too, which takes longer" },
  },
  words: "none",
  async run(context) {
    const address = addressOf(context);
    const { found, facts } = await (address.kind === "sqlite"
      ? ofFile(context, address.path)
      : ofServer(context, address));
    const failed = found.some(({ status }) => status === "fail");
    answer(context, { ok: !failed, findings: found, facts }, (surface) => findingsText(found, surface));
    return failed ? 1 : 0;
  },
};

interface Examined {
  readonly found: readonly Finding[];
  readonly facts: unknown;
}

async function ofFile({ args, io }: Context, path: string): Promise<Examined> {
  const stuckMs = args.duration("stuck") ?? STUCK_MS;
  const connection = openExisting(path);
  try {
    return examine(connection, { path, wall: io.clock.wall(), stuckMs, full: args.flag("full") });
  } finally {
    connection.close();
  }
}

/** A file that is no database, or too broken to be asked, is a finding as well. */
function examine(connection: SqliteConnection, examination: Examination): Examined {
  try {
    const facts = factsOf(connection, examination);
    return { facts, found: findings(facts) };
  } catch (error) {
    return { facts: null, found: [unreadable(error)] };
  }
}

/** So is a server that cannot be reached. */
async function ofServer({ args, io }: Context, address: PostgresAddress): Promise<Examined> {
  const stuckMs = args.duration("stuck") ?? STUCK_MS;
  try {
    const facts = await connected(address, io.clock, (pool) =>
      postgresFacts(
        { executor: pool, schema: address.schema },
        {
          place: address,
          wall: io.clock.wall(),
          stuckMs,
          longMs: LONG_MS,
          listen: () => notificationTime(pool, io.clock),
        },
      ),
    );
    return { facts, found: postgresFindings(facts) };
  } catch (error) {
    return { facts: null, found: [unreachable(recordError(error).message)] };
  }
}
