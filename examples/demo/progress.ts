import { stripVTControlCharacters } from "node:util";
import { afterAll } from "../../src/core/clock.ts";
import type { Io, Paint } from "../../src/cli/io.ts";
import { fit, plural, printable, widthOf } from "../../src/cli/render/text.ts";
import { duration } from "../../src/cli/render/time.ts";
import type { Player, Scoreboard } from "./scoreboard.ts";

const REDRAW_MS = 80;
const PLAIN_MS = 2_000;
const BAR_WIDTH = 40;
const HIDE_CURSOR = "\u001b[?25l";
const SHOW_CURSOR = "\u001b[?25h";
const CLEAR_BELOW = "\u001b[J";

/** Shows the board until the returned function is called: redrawn in place in a terminal, else as a line now and then. */
export function showProgress(board: Scoreboard, io: Io): () => void {
  return io.terminal ? redraw(board, io) : writeLines(board, io);
}

function redraw(board: Scoreboard, io: Io): () => void {
  let drawn = "";
  const draw = () => {
    const lines = picture(board, io.clock.now(), io.columns() ?? 80, io.paint);
    io.out(`${drawn}${CLEAR_BELOW}${lines.join("\n")}\n`);
    drawn = `\u001b[${lines.length}A\r`;
  };
  io.out(HIDE_CURSOR);
  const stop = repeat(io, REDRAW_MS, draw);
  draw();
  return () => {
    if (stop()) draw();
    io.out(SHOW_CURSOR);
  };
}

function writeLines(board: Scoreboard, io: Io): () => void {
  const write = () =>
    io.out(`  ${[`${board.done.size}/${board.plan.jobs} done`, ...figures(board, io.clock.now())].join(", ")}\n`);
  const stop = repeat(io, PLAIN_MS, write);
  return () => {
    if (stop()) write();
  };
}

/** Calls again and again until the returned function is called; that one answers false from the second time on. */
function repeat({ clock }: Io, everyMs: number, action: () => void): () => boolean {
  let stopped = false;
  let cancel = () => {};
  const next = () => {
    cancel = afterAll(clock, everyMs, () => {
      action();
      next();
    });
  };
  next();
  return () => {
    cancel();
    const first = !stopped;
    stopped = true;
    return first;
  };
}

/** A few lines, none longer than the terminal is wide: a line that it breaks could not be redrawn. */
export function picture(board: Scoreboard, now: number, columns: number, paint: Paint): string[] {
  const room = columns - 1;
  const { plan, done } = board;
  const count = ` ${done.size}/${plan.jobs}`;
  const width = Math.max(0, Math.min(BAR_WIDTH, room - 2 - count.length));
  const full = Math.round((width * done.size) / plan.jobs);
  const bar = paint("green", "█".repeat(full)) + paint("dim", "░".repeat(width - full));
  return [
    `  ${bar}${count}`,
    ...wrap(figures(board, now), room),
    ...board.players.map((player, i) => playerLine(board, player, i, room, paint)),
  ];
}

function figures(board: Scoreboard, now: number): string[] {
  const { waiting, running, use, refused, blocked } = board;
  const held = blocked !== undefined && blocked.until > now && waiting > 0;
  return [
    `running ${running}`,
    `waiting ${waiting}`,
    ...(held ? [`on ${printable(blocked.by)} for ${duration(blocked.until - now)}`] : []),
    `use of the allowance ${use === undefined ? "–" : `${(use * 100).toFixed(1)} %`}`,
    `429s ${refused}`,
  ];
}

function playerLine({ killing }: Scoreboard, player: Player, i: number, room: number, paint: Paint): string {
  const label = `  process ${i + 1}  pid ${String(player.pid).padEnd(8)} ${String(player.done).padStart(4)} done  `;
  if (!player.killed || killing === undefined) {
    return fit(`${label}${player.running.size === 0 ? "" : `${player.running.size} running`}`, room);
  }
  const { inHand, backAt, againAt, at } = killing;
  const then =
    againAt !== undefined
      ? `again in ${duration(againAt - at)}`
      : backAt !== undefined
        ? `back in ${duration(backAt - at)}`
        : "still leased";
  const text = `killed with ${plural(inHand.size, "job")}, ${then}`;
  return fit(label, room) + paint("yellow", fit(text, Math.max(0, room - widthOf(label))));
}

/** As few lines as hold all items. */
function wrap(items: readonly string[], room: number): string[] {
  const lines: string[] = [];
  for (const item of items) {
    const longer = `${lines.at(-1) ?? ""}   ${item}`;
    if (lines.length > 0 && stripVTControlCharacters(longer).length <= room) lines[lines.length - 1] = longer;
    else lines.push(fit(`  ${item}`, room));
  }
  return lines;
}
