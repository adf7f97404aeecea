import { COMMON, type Command } from "./command.ts";
import type { OptionSpecs } from "./arguments.ts";
import type { Paint } from "./io.ts";
import { wrap } from "./render/text.ts";

/** The list of commands. */
export function overallHelp(commands: readonly Command[], paint: Paint): string {
  const width = Math.max(...commands.map(({ name }) => name.length)) + 2;
  return [
    "Looks after the jobs of Sluice in SQLite or Postgres.",
    "",
    paint("bold", "Usage: sluice <command> [options]"),
    "",
    ...commands.map(({ name, summary }) => `  ${name.padEnd(width)}${summary}`),
    `  ${"help".padEnd(width)}this text, or that of a command: sluice help jobs`,
    "",
    "The database is what --db or SLUICE_DB names: a SQLite file, or postgres://… It",
    "is never created, and migrated by `migrate` and workers alone. An address with a",
    "password is for SLUICE_DB, or for the file that --db-file or SLUICE_DB_FILE",
    "names: others see a command line. With --json every command answers in JSON.",
    "Exit codes: 0 done, 1 failed or not found, 2 wrong usage.",
    "",
  ].join("\n");
}

/** All about one command. */
export function commandHelp(command: Command, paint: Paint): string {
  const usage = command.usage.map((form) => `sluice ${command.name} ${form}`.trimEnd());
  return [
    `${command.summary[0]!.toUpperCase()}${command.summary.slice(1)}.`,
    "",
    ...usage.map((form, i) => paint("bold", `${i === 0 ? "Usage: " : "       "}${form}`)),
    "",
    ...optionLines({ ...command.options, ...COMMON }),
    ...(command.about === undefined ? [] : ["", command.about]),
    "",
  ].join("\n");
}

/** A line or more for each option, in two columns. */
export function optionLines(specs: OptionSpecs): string[] {
  const rows = Object.entries(specs).map(([name, { value, short, help }]) => ({
    left: `${short === undefined ? "" : `-${short}, `}--${name}${value === undefined ? "" : ` <${value}>`}`,
    help,
  }));
  const width = Math.max(...rows.map(({ left }) => left.length)) + 2;
  return rows.flatMap(({ left, help }) =>
    wrap(help, 78 - width).map((line, i) => `  ${(i === 0 ? left : "").padEnd(width)}${line}`),
  );
}
