import { styleText } from "node:util";
import { mostInAnyWindow } from "../common/windows.ts";
import { mean, quantile, quotaGaps, useOfAllowance } from "./arithmetic.ts";
import type { Flags } from "./flags.ts";
import { type ServiceRecord, WORK_MS } from "./quota.ts";

/** The closing report. Every figure comes from what the service recorded. */
export function report({ arrivals, refused, mostAtOnce }: ServiceRecord, flags: Flags): string {
  const { quota, windowMs, concurrency, calls } = flags;
  const first = arrivals[0] ?? 0;
  const took = (arrivals.at(-1) ?? first) - first;
  const rows = [
    ["calls", `${arrivals.length}${arrivals.length < calls ? ` of ${calls}` : ""} in ${seconds(took)} s`],
    ["429s", refused === 0 ? styleText("green", "0") : styleText("red", String(refused))],
    ["worst window", `${mostInAnyWindow(arrivals, windowMs)} calls in ${seconds(windowMs)} s; the quota is ${quota}`],
    ["at the same time", `${mostAtOnce} at most; the service allows ${concurrency}`],
    ...(flags.unlimited ? [] : pace(arrivals, flags)),
  ];
  return rows.map(([label = "", text = ""]) => `  ${styleText("dim", label.padEnd(22))}${text}`).join("\n");
}

/** How near the calls came to the quota. */
function pace(arrivals: readonly number[], flags: Flags): string[][] {
  const { quota, windowMs, concurrency, guard } = flags;
  const use = useOfAllowance(arrivals, flags);
  if (use === undefined) return [["use of the allowance", "– (that takes more calls than the quota)"]];
  const gaps = quotaGaps(arrivals, quota);
  const late = gaps.map((gap) => gap - windowMs - guard);
  const ms = (part: number) => `${quantile(late, part).toFixed(1)} ms`;
  const rows = [
    [
      "use of the allowance",
      `${(use * 100).toFixed(1)} % (a quota's worth of calls every ${mean(gaps).toFixed(0)} ms)`,
    ],
    ["lateness", `median ${ms(0.5)}, worst ${ms(1)} behind quota and guard`],
  ];
  if (concurrency / WORK_MS < quota / windowMs) {
    rows.push(["", `So few calls at the same time (${concurrency}, ${WORK_MS} ms each) cannot use up the quota.`]);
  }
  return rows;
}

export const seconds = (ms: number): string => String(Number((ms / 1000).toFixed(2)));
