import { recordError } from "../../core/error-record.ts";
import type { SqliteConnection } from "../../storages/sqlite/driver.ts";
import { answer, type Command, DATABASE } from "../command.ts";
import { databasePath, openExisting } from "../database.ts";
import { type Examination, factsOf } from "../doctor/facts.ts";
import { findings, unreadable } from "../doctor/findings.ts";
import { findingsText } from "../render/findings.ts";

const STUCK_MS = 600_000;

export const doctor: Command = {
  name: "doctor",
  summary: "looks for what is wrong with a database, and says what to do",
  usage: ["[--stuck 10m] [--full]"],
  about: "Exit code 1 if something has failed; warnings alone are 0.",
  options: {
    ...DATABASE,
    stuck: { value: "10m", help: "jobs that wait for longer, while none of their type starts, are worth a word" },
    full: { help: "looks at every index too, which takes longer" },
  },
  words: "none",
  async run(context) {
    const { args, io } = context;
    const stuckMs = args.duration("stuck") ?? STUCK_MS;
    const path = databasePath(context);
    const connection = openExisting(path);
    try {
      const { found, facts } = examine(connection, {
        path,
        wall: io.clock.wall(),
        stuckMs,
        full: args.flag("full"),
      });
      const failed = found.some(({ status }) => status === "fail");
      answer(context, { ok: !failed, findings: found, facts }, () =>
        findingsText(found, { paint: io.paint, columns: io.columns() }),
      );
      return failed ? 1 : 0;
    } finally {
      connection.close();
    }
  },
};

/** A file that is no database, or too broken to be asked, is a finding as well. */
function examine(connection: SqliteConnection, examination: Examination) {
  try {
    const facts = factsOf(connection, examination);
    return { facts, found: findings(facts) };
  } catch (error) {
    return { facts: null, found: [unreadable(recordError(error).message)] };
  }
}
