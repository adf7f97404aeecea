import type { WriteStream } from "node:tty";
import { stripVTControlCharacters, styleText } from "node:util";

/** How far the run is at this moment. */
export interface Progress {
  readonly done: number;
  readonly total: number;
  readonly inFlight: number;
  readonly waiting: number;
  /** Milliseconds until the next call can start; undefined: none is to come. */
  readonly nextIn: number | undefined;
  /** Use of the allowance so far, 0 to 1; undefined: too early to say. */
  readonly use: number | undefined;
  readonly refused: number;
}

const REDRAW_MS = 80;
const PLAIN_MS = 2_000;
const BAR_WIDTH = 44;
const HIDE_CURSOR = "\u001b[?25l";
const SHOW_CURSOR = "\u001b[?25h";
const CLEAR_BELOW = "\u001b[J";

/** Shows `progress()` until the returned function is called: redrawn in place in a terminal, else as a line now and then. */
export function showProgress(progress: () => Progress, out: WriteStream): () => void {
  return isTerminal(out) ? redraw(progress, out) : writeLines(progress, out);
}

function isTerminal(out: WriteStream): boolean {
  const { CI = "", TERM } = process.env;
  return out.isTTY && TERM !== "dumb" && (CI === "" || CI === "false");
}

function redraw(progress: () => Progress, out: WriteStream): () => void {
  let drawn = "";
  const draw = () => {
    const lines = picture(progress(), out);
    out.write(`${drawn}${CLEAR_BELOW}${lines.join("\n")}\n`);
    drawn = `\u001b[${lines.length}A\r`;
  };
  out.write(HIDE_CURSOR);
  draw();
  const timer = setInterval(draw, REDRAW_MS);
  return once(() => {
    clearInterval(timer);
    draw();
    out.write(SHOW_CURSOR);
  });
}

function writeLines(progress: () => Progress, out: WriteStream): () => void {
  const write = () => {
    const now = progress();
    out.write(`  ${now.done}/${now.total} calls done, ${figures(now).join(", ")}\n`);
  };
  const timer = setInterval(write, PLAIN_MS);
  return once(() => {
    clearInterval(timer);
    write();
  });
}

function picture(now: Progress, out: WriteStream): string[] {
  const room = out.columns - 1;
  const count = ` ${now.done}/${now.total}`;
  const next = (now.nextIn ?? 0) < 100 ? "" : `  next in ${((now.nextIn ?? 0) / 1000).toFixed(1)} s`;
  const width = Math.max(0, Math.min(BAR_WIDTH, room - 2 - count.length - next.length));
  const full = Math.round((width * now.done) / now.total);
  const bar = styleText("green", "█".repeat(full)) + styleText("dim", "░".repeat(width - full));
  return [`  ${bar}${count}${styleText("dim", next)}`, ...wrap(figures(now), room)];
}

function figures({ inFlight, waiting, use, refused }: Progress): string[] {
  const refusals = `429s ${refused}`;
  return [
    `in flight ${inFlight}`,
    `waiting ${waiting}`,
    `use of the allowance ${use === undefined ? "–" : `${(use * 100).toFixed(1)} %`}`,
    refused > 0 ? styleText("red", refusals) : refusals,
  ];
}

/** As few lines as hold all items: a line that the terminal breaks could not be redrawn. */
function wrap(items: readonly string[], room: number): string[] {
  const lines: string[] = [];
  for (const item of items) {
    const longer = `${lines.at(-1) ?? ""}   ${item}`;
    if (lines.length > 0 && stripVTControlCharacters(longer).length <= room) lines[lines.length - 1] = longer;
    else lines.push(`  ${item}`.slice(0, Math.max(1, room)));
  }
  return lines;
}

function once(action: () => void): () => void {
  let called = false;
  return () => {
    if (!called) action();
    called = true;
  };
}
