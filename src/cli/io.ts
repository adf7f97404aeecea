import { styleText } from "node:util";
import { type Clock, systemClock } from "../core/clock.ts";

/** The styles that are used. */
export type Style = "bold" | "dim" | "green" | "red" | "yellow" | "cyan";

/** Gives a text a colour, where colours are wanted. */
export type Paint = (style: Style, text: string) => string;

/** All input and output of a command other than the database. */
export interface Io {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  /** For what goes to `out`. */
  readonly paint: Paint;
  /** For what goes to `err`. */
  readonly paintError: Paint;
  /** Is the output a terminal that can be redrawn? */
  readonly terminal: boolean;
  /** Are both input and output a terminal? */
  readonly interactive: boolean;
  /** The number of columns; undefined: no bound, because the output is not a terminal. */
  columns(): number | undefined;
  out(text: string): void;
  err(text: string): void;
  /** Aborted by Ctrl-C and similar signals, or when the output is closed. A second Ctrl-C ends the process. */
  interrupted(): AbortSignal;
}

export const plain: Paint = (_, text) => text;
const coloured: Paint = (style, text) => styleText(style, text, { validateStream: false });

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** The terminal or pipes of this process. */
export function processIo(): Io {
  const { env, stdin, stdout, stderr } = process;
  const stop = new AbortController();
  let listening = false;
  // The reader of a pipe may close it: that is no failure, and the command ends soon.
  for (const stream of [stdout, stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "EPIPE") throw error;
      stop.abort("EPIPE");
    });
  }
  hideExperimentalWarnings();
  const terminal = stdout.isTTY && env["TERM"] !== "dumb";
  const paintFor = (isTerminal: boolean) => (wantsColour(isTerminal, env) ? coloured : plain);
  return {
    env,
    clock: systemClock,
    paint: paintFor(stdout.isTTY),
    paintError: paintFor(stderr.isTTY),
    terminal,
    interactive: stdin.isTTY && stdout.isTTY,
    columns: () => (stdout.isTTY ? stdout.columns : widthIn(env["COLUMNS"])),
    out: (text) => void (stop.signal.reason !== "EPIPE" && stdout.write(text)),
    err: (text) => void stderr.write(text),
    interrupted() {
      if (!listening) for (const signal of SIGNALS) process.once(signal, () => stop.abort(signal));
      listening = true;
      return stop.signal;
    },
  };
}

/** Colours need a terminal that has them, and no `NO_COLOR` (no-color.org). */
export function wantsColour(isTerminal: boolean, { NO_COLOR, TERM }: Io["env"]): boolean {
  return isTerminal && TERM !== "dumb" && (NO_COLOR ?? "") === "";
}

function widthIn(text: string | undefined): number | undefined {
  return text !== undefined && /^[1-9]\d{0,3}$/.test(text) ? Number(text) : undefined;
}

/** Some releases of Node warn at every run that SQLite is experimental. The user of this command cannot change that. */
function hideExperimentalWarnings(): void {
  const emit = process.emitWarning.bind(process) as (...args: unknown[]) => void;
  process.emitWarning = (...args: unknown[]) => {
    if (args[1] !== "ExperimentalWarning") emit(...args);
  };
}
