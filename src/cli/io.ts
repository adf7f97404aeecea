import { styleText } from "node:util";
import { type Clock, systemClock } from "../core/clock.ts";

/** The styles that are used, few as they are. */
export type Style = "bold" | "dim" | "green" | "red" | "yellow" | "cyan";

/** Gives a text a colour, where colours are wanted. */
export type Paint = (style: Style, text: string) => string;

/** Everything that a command has to do with the world outside the database. */
export interface Io {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  /** For what goes to `out`. */
  readonly paint: Paint;
  /** For what goes to `err`. */
  readonly paintError: Paint;
  /** Is the output a terminal that can be redrawn? */
  readonly terminal: boolean;
  /** Does a person sit at both ends? */
  readonly interactive: boolean;
  /** How many columns there are; undefined: as many as it takes, for nobody looks at it in a terminal. */
  columns(): number | undefined;
  out(text: string): void;
  err(text: string): void;
  /** Aborted by Ctrl-C and its like, or when nobody reads the output any more. A second Ctrl-C ends the process. */
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
  // Whoever reads may stop reading: that is no failure, and there is no point in going on for long.
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

/** Colours are for terminals that have them, and for people who want them (no-color.org). */
export function wantsColour(isTerminal: boolean, { NO_COLOR, TERM }: Io["env"]): boolean {
  return isTerminal && TERM !== "dumb" && (NO_COLOR ?? "") === "";
}

function widthIn(text: string | undefined): number | undefined {
  return text !== undefined && /^[1-9]\d{0,3}$/.test(text) ? Number(text) : undefined;
}

/** Some releases of Node call their SQLite an experiment, on every run. Whoever runs this command cannot do anything about it. */
function hideExperimentalWarnings(): void {
  const emit = process.emitWarning.bind(process) as (...args: unknown[]) => void;
  process.emitWarning = (...args: unknown[]) => {
    if (args[1] !== "ExperimentalWarning") emit(...args);
  };
}
