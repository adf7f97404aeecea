import { grantSql, migrationSql } from "../../storages/postgres/migrations.ts";
import { schemaOf as versionOf } from "../../storages/postgres/inspect.ts";
import { PostgresStorage } from "../../storages/postgres/storage.ts";
import { answer, type Command, type Context, DATABASE } from "../command.ts";
import { UsageError } from "../failures.ts";
import { postgresAddressOf, schemaOf } from "../address.ts";
import { connected } from "../postgres/database.ts";

export const migrate: Command = {
  name: "migrate",
  summary: "Postgres: creates or updates the tables, or prints the SQL for that",
  usage: ["[postgres://…] [--schema name] [--role name]", "--print [--schema name] [--role name]"],
  about: [
    "Storages do it themselves on first use, unless they are opened with",
    "`migrate: false`: then a role that may create tables does it, by this command",
    "or with what --print prints, and the others need what --role grants.",
    "It may be run again, and by several at the same time.",
  ].join("\n"),
  options: {
    ...DATABASE,
    print: { help: "only print the SQL; no database is needed" },
    role: { value: "name", help: "let this role use the tables: for workers and producers that do not own them" },
  },
  words: "one",
  run: (context) => (context.args.flag("print") ? print(context) : apply(context)),
};

async function print(context: Context): Promise<number> {
  const { args, io, json } = context;
  if (args.words.length > 0) throw new UsageError("--print needs no address: it prints what a new database needs");
  const schema = schemaOf(context);
  const sql = [migrationSql(schema), ...grants(context, schema)].join("\n");
  if (json) answer(context, { schema, sql }, () => sql);
  else io.out(sql.endsWith("\n") ? sql : `${sql}\n`);
  return 0;
}

async function apply(context: Context): Promise<number> {
  const address = postgresAddressOf(context);
  const { schema, shown } = address;
  return connected(address, context.io.clock, async (pool) => {
    const inspected = { executor: pool, schema };
    const before = (await versionOf(inspected)).found;
    const storage = new PostgresStorage(pool, { schema });
    try {
      await storage.setup();
    } finally {
      await storage.close();
    }
    for (const grant of grants(context, schema)) await pool.query(grant);
    const { found: after } = await versionOf(inspected);
    answer(context, { schema, before, after }, () => `${migratedText(schema, shown, before, after)}\n`);
    return 0;
  });
}

function migratedText(schema: string, shown: string, before: number, after: number): string {
  const of = `the schema ${schema} of ${shown}`;
  if (before === after) return `${of} has version ${after} already`;
  return before === 0 ? `created ${of}, version ${after}` : `updated ${of} from version ${before} to ${after}`;
}

function grants({ args }: Context, schema: string): readonly string[] {
  const role = args.text("role");
  return role === undefined ? [] : [grantSql(schema, role)];
}
