import { OFFSET_MS } from "../../storage/clock-repair.ts";
import type { JobFacts } from "../../storage/inspection.ts";
import { number, plural, printable } from "../render/text.ts";
import { duration } from "../render/time.ts";

/** One line of the doctor's report. */
export interface Finding {
  readonly check: string;
  readonly status: "ok" | "warn" | "fail";
  readonly says: string;
  /** What to do about it. */
  readonly advice?: string;
}

/** The contents of any storage, and its clock. */
export type KeptFacts = JobFacts & { readonly offsetMs: number };

/** A sweep comes every few seconds while a worker runs. */
const SWEPT_MS = 15_000;
const OVERDUE_MS = 3_600_000;

export function leases({ expired: { jobs, oldestMs } }: KeptFacts): Finding {
  const check = "leases";
  if (jobs === 0) return { check, status: "ok", says: "none has run out" };
  const says = `${plural(jobs, "lease")} ran out, the first ${duration(oldestMs)} ago`;
  if (oldestMs < SWEPT_MS) return { check, status: "ok", says: `${says}; the next sweep takes care of it` };
  return { check, status: "warn", says, advice: "start a worker, of any queue: it gives such jobs back" };
}

export function workers({ served: { workers: live, unhandled } }: KeptFacts): Finding {
  const check = "workers";
  const [first] = unhandled;
  const shown = live === 0 ? "none is live" : plural(live, "live worker");
  if (first === undefined)
    return { check, status: "ok", says: `${shown}, and no type has waited for one for a minute` };
  const { queue, type, waiting, oldestMs } = first;
  const others = unhandled.length === 1 ? "" : `; and of ${plural(unhandled.length - 1, "more type")}`;
  return {
    check,
    status: "warn",
    says: `no live worker handles type ${printable(type)} of ${printable(queue)}: ${plural(waiting, "job")} due for ${duration(oldestMs)}${others}`,
    advice: "is the name of the type right, and does its worker run? `sluice workers` lists those that live",
  };
}

/** At most so many limits are named. */
const MOST_NAMED = 5;

export function limits({ served: { limits: all, undeclared } }: KeptFacts): Finding {
  const check = "limits";
  if (all === 0) return { check, status: "ok", says: "none is shared" };
  const shared = plural(all, "shared limit");
  if (undeclared === null) return { check, status: "ok", says: `${shared}, declared outside of live workers` };
  if (undeclared.length === 0) return { check, status: "ok", says: `${shared}, all declared by live workers` };
  const named = undeclared.slice(0, MOST_NAMED).map((name) => printable(name));
  const more = undeclared.length > MOST_NAMED ? [`${number(undeclared.length - MOST_NAMED)} more`] : [];
  return {
    check,
    status: "warn",
    says: `no live worker declares ${[...named, ...more].join(", ")}`,
    advice:
      "does it still hold? `sluice limits remove <name> --yes` ends it; one that other code or the CLI declares is fine",
  };
}

export function stuck({ served: { stuck: all } }: KeptFacts): Finding {
  const check = "waiting";
  if (all.length === 0) return { check, status: "ok", says: "nothing that could start is left waiting" };
  const [first] = all;
  const { queue, type, waiting, oldestMs, lastStartMs } = first!;
  const since = lastStartMs === null ? "none was started" : `the last started ${duration(lastStartMs)} ago`;
  const others = all.length === 1 ? "" : `; and ${plural(all.length - 1, "more type")}`;
  return {
    check,
    status: "warn",
    says: `${plural(waiting, "job")} ${printable(queue)}/${printable(type)} due for ${duration(oldestMs)}, ${since}${others}`,
    advice:
      "a live worker handles it: is a limit held (sluice stats), are all its slots taken? `sluice explain` says why",
  };
}

export function clock({ offsetMs, fromTheFuture }: KeptFacts): Finding {
  const check = "clock";
  const isOff = Math.abs(offsetMs) > OFFSET_MS;
  const off = `${duration(Math.abs(offsetMs))} ${offsetMs > 0 ? "ahead of" : "behind"} the wall clock`;
  const wrong = [
    ...(isOff
      ? [`the storage is ${off}, which was wrong once: limits, leases and delays are not touched by that`]
      : []),
    ...(fromTheFuture > 0 ? [`${plural(fromTheFuture, "job")} with a stamp in the future`] : []),
  ];
  if (wrong.length === 0) return { check, status: "ok", says: "no stamp lies in the future" };
  return {
    check,
    status: "warn",
    says: wrong.join("; "),
    advice: `${isOff ? "`sluice clock --repair` takes that back; " : ""}let the computer keep its time by NTP, and set it in small steps`,
  };
}

export function keeping({ overdue: { jobs, oldestMs } }: KeptFacts): Finding {
  const check = "keeping";
  if (jobs === 0) return { check, status: "ok", says: "nothing is kept for too long" };
  const says = `${plural(jobs, "job")} kept longer than wanted, by ${duration(oldestMs)} at most`;
  if (oldestMs < OVERDUE_MS) return { check, status: "ok", says };
  return { check, status: "warn", says, advice: "start a worker, of any queue: it deletes them" };
}

export function rows({ rows: tables }: KeptFacts): Finding {
  const filled = tables.filter(({ rows: count }) => count > 0).toSorted((a, b) => b.rows - a.rows);
  const says = filled.map(({ table, rows: count }) => `${table.replace(/^sluice_/, "")} ${number(count)}`).join(", ");
  return { check: "rows", status: "ok", says: says === "" ? "none" : says };
}
