import { DatabaseSync } from "node:sqlite";
import { SqliteStorage } from "../../../src/storages/sqlite/index.ts";
import { migrate } from "../../../src/storages/sqlite/migrations.ts";

// Migrates a file on request, and reports it; or, with `uncommitted`, stops before the end.
const [path = "", uncommitted] = process.argv.slice(2);
const say = (word: string) => process.stdout.write(`${JSON.stringify(word)}\n`);
say("ready");
process.stdin.once("data", () => {
  if (uncommitted === undefined) {
    const storage = new SqliteStorage(path);
    void storage
      .setup()
      .then(() => say("done"))
      .then(() => process.exit());
  } else {
    const database = new DatabaseSync(path);
    database.exec("BEGIN IMMEDIATE");
    migrate(database);
    say("migrated");
  }
});
