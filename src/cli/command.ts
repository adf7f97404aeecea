import type { Arguments, OptionSpecs } from "./arguments.ts";
import type { Io } from "./io.ts";
import type { Surface } from "./render/table.ts";
import { jsonText } from "./render/text.ts";

/** What a command is given. */
export interface Context {
  readonly args: Arguments;
  readonly io: Io;
  readonly json: boolean;
}

/** One row of the table of commands. */
export interface Command {
  readonly name: string;
  /** One line for the list of commands. */
  readonly summary: string;
  /** What stands behind the name, in one line for each form. */
  readonly usage: readonly string[];
  /** Further sentences for its own help. */
  readonly about?: string;
  readonly options: OptionSpecs;
  /** How many words may follow that are no options. */
  readonly words: "none" | "one" | "any";
  /** Runs the command. Returns the exit code. */
  run(context: Context): Promise<number>;
}

/** Options of every command. */
export const COMMON: OptionSpecs = {
  json: { help: "answer in JSON; errors too" },
  help: { short: "h", help: "this text" },
};

/** For commands that look into a database. */
export const DATABASE: OptionSpecs = {
  db: { value: "path|url", help: "a SQLite file, or postgres://…; else SLUICE_DB, or DATABASE_URL of Postgres" },
  "db-file": { value: "path", help: "a file that holds the address: a command line is seen by others" },
  schema: { value: "name", help: "Postgres: the schema (default: SLUICE_SCHEMA, or sluice)" },
};

/** For commands that look at a queue. */
export const QUEUE: OptionSpecs = {
  queue: { value: "name", short: "q", help: "the queue; needed where there are several" },
};

/** For commands that look at some jobs of a queue. */
export const OF_TYPE_AND_GROUP: OptionSpecs = {
  type: { value: "type", short: "t", help: "only of this type" },
  group: { value: "group", short: "g", help: "only of this group" },
};

/** Answers with one JSON document or with text, whichever was asked for. */
export function answer({ io, json }: Context, value: unknown, text: (surface: Surface) => string): void {
  io.out(json ? `${jsonText(value)}\n` : text({ paint: io.paint, columns: io.columns() }));
}
