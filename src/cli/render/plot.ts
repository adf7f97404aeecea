import { duration } from "./time.ts";
import { number } from "./text.ts";

export interface PlotStyle {
  /** How many lines the bars take. */
  readonly rows: number;
  /** Only characters that every terminal has. */
  readonly ascii: boolean;
}

const BLOCKS = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
const SIGNS = [" ", ".", ":", "#"];

/** How many bars fit. */
export const roomFor = (columns: number) => Math.max(10, columns - LABEL - 2);
const LABEL = 8;

/** Bars over time, with the greatest value and the time at the axes. Something is never shown as nothing. */
export function plot(values: readonly number[], bucketMs: number, { rows, ascii }: PlotStyle): string {
  const signs = ascii ? SIGNS : BLOCKS;
  const steps = signs.length - 1;
  const most = Math.max(...values, 0);
  const heights = values.map((value) => {
    return value <= 0 ? 0 : Math.max(1, Math.round((value / most) * rows * steps));
  });
  const [side, corner, floor] = ascii ? ["|", "+", "-"] : ["┤", "└", "─"];
  const lines = Array.from({ length: rows }, (_, i) => {
    const below = (rows - 1 - i) * steps;
    const cells = heights.map((height) => signs[Math.min(steps, Math.max(0, height - below))]!).join("");
    const label = i === 0 ? compact(most) : "";
    return `${label.padStart(LABEL)} ${side}${cells}`.trimEnd();
  });
  lines.push(`${"0".padStart(LABEL)} ${corner}${floor.repeat(values.length)}`);
  lines.push(axis(values.length, bucketMs));
  return lines.map((line) => `${line}\n`).join("");
}

/** Times below the bars: the beginning, the end and, where it fits, the middle. */
function axis(bars: number, bucketMs: number): string {
  const [middle, end] = [duration(Math.floor(bars / 2) * bucketMs), duration(bars * bucketMs)];
  const middleAt = Math.floor(bars / 2) - Math.floor(middle.length / 2);
  const endAt = Math.max(2, bars - end.length);
  const fits = middleAt > 1 && middleAt + middle.length < endAt - 1;
  const line = fits ? `${"0".padEnd(middleAt)}${middle}` : "0";
  return `${" ".repeat(LABEL + 2)}${line.padEnd(endAt)}${end}`;
}

function compact(value: number): string {
  if (value < 10 && !Number.isInteger(value)) return value.toFixed(1);
  return value < 1e6 ? number(value) : `${(value / 1e6).toFixed(1)}M`;
}
