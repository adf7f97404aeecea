import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { schemaName } from "../storages/postgres/target.ts";
import { quoted } from "./arguments.ts";
import type { Context } from "./command.ts";
import { UsageError } from "./failures.ts";
import { mayBeAddress, shownWord } from "./redact.ts";

/** Where a database is. */
export type DatabaseAddress = SqliteAddress | PostgresAddress;

export interface SqliteAddress {
  readonly kind: "sqlite";
  readonly path: string;
}

export interface PostgresAddress {
  readonly kind: "postgres";
  /** It may hold a password, and is never shown. */
  readonly url: string;
  readonly schema: string;
  /** What may be shown of it: the host, the port and the name of the database. */
  readonly shown: string;
}

const DEFAULT_SCHEMA = "sluice";

/**
 * The address of the database, from the command line or the environment. Other users of the computer can see a command
 * line, so an address with a password belongs in the environment, or in a file.
 */
export function addressOf(context: Context): DatabaseAddress {
  const given = givenPlace(context).trim();
  if (isPostgres(given)) return postgresAddress(given, schemaOf(context));
  if (mayBeAddress(given)) {
    throw new UsageError(
      "the database must be a SQLite file or postgres://…, without quotes, and this is another address (not shown here)",
    );
  }
  if (given === ":memory:") throw new UsageError("a database in memory is seen by its own process alone");
  if (context.args.flag("schema")) throw new UsageError("--schema is for Postgres; a SQLite file has none");
  return { kind: "sqlite", path: resolve(given) };
}

/** The same for commands for Postgres alone; the address may also be an argument of the command. */
export function postgresAddressOf(context: Context): PostgresAddress {
  const [word] = context.args.words;
  if (word !== undefined && !isPostgres(word)) throw new UsageError("the address must begin with postgres://");
  const address = word === undefined ? addressOf(context) : postgresAddress(word, schemaOf(context));
  if (address.kind === "postgres") return address;
  throw new UsageError(`${address.path} is a SQLite file, and this is for Postgres: workers look after its tables`);
}

export function isPostgres(text: string): boolean {
  return /^postgres(?:ql)?:\/\//i.test(text);
}

/** The schema that is meant, on whatever server. */
export function schemaOf({ args, io }: Context): string {
  const schema = args.text("schema") ?? io.env["SLUICE_SCHEMA"] ?? DEFAULT_SCHEMA;
  if (schemaName.read(schema) !== undefined) return schema;
  throw new UsageError(`expected --schema to be ${schemaName.expected}, got ${quoted(schema)}`);
}

export function postgresAddress(url: string, schema: string = DEFAULT_SCHEMA): PostgresAddress {
  if (!URL.canParse(url)) throw new UsageError("the address of the database cannot be read (it is not shown here)");
  const { hostname, port, pathname, search, hash, username } = new URL(url);
  // Half of a password was then read as the host, the port or the database, and would be shown.
  if (`${pathname}${hash}${username === "" ? search : ""}`.includes("@")) {
    throw new UsageError(
      "the address of the database cannot be read (it is not shown here): in a password, write / ? # @ as %2F %3F %23 %40",
    );
  }
  const name = pathname.slice(1);
  const shown = `${hostname || "localhost"}:${port || "5432"}${name === "" ? "" : `/${name}`}`;
  return { kind: "postgres", url, schema, shown };
}

function givenPlace({ args, io: { env } }: Context): string {
  const [said, file] = [args.text("db"), args.text("db-file")];
  if (said !== undefined && file !== undefined) throw new UsageError("say --db or --db-file, not both");
  if (said !== undefined) return said;
  if (file !== undefined) return inFile(file);
  if (isSet(env["SLUICE_DB"])) return env["SLUICE_DB"];
  if (isSet(env["SLUICE_DB_FILE"])) return inFile(env["SLUICE_DB_FILE"]);
  // `DATABASE_URL` is shared with other programs: only a Postgres address is used from it.
  if (isSet(env["DATABASE_URL"]) && isPostgres(env["DATABASE_URL"])) return env["DATABASE_URL"];
  throw new UsageError("which database? Say --db path/to/file.db or --db postgres://…, or set SLUICE_DB");
}

function isSet(text: string | undefined): text is string {
  return text !== undefined && text !== "";
}

function inFile(path: string): string {
  let text: string;
  try {
    text = readFileSync(path, "utf8").trim();
  } catch (error) {
    const code = error instanceof Error && "code" in error ? ` (${String(error.code)})` : "";
    throw new UsageError(`the file that holds the address of the database cannot be read: ${shownWord(path)}${code}`);
  }
  if (text === "" || /\s/.test(text))
    throw new UsageError(`${shownWord(path)} must hold the address of a database, in one line`);
  return text;
}
