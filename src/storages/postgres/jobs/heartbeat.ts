import type { Heartbeat, Lease, Report } from "../../../storage/job-storage.ts";
import type { Database } from "../database.ts";
import { storable } from "./text.ts";

/** Keeps leases that have not run out. */
export async function heartbeat(database: Database, leases: readonly Lease[], leaseMs: number): Promise<Heartbeat> {
  if (leases.length === 0) return { lost: [], cancelled: [] };
  // One that is named twice is kept once.
  const numbers = new Map<string, number>();
  const list: object[] = [];
  const places = leases.map(({ id, token }) => {
    const lease = `${token} ${id}`;
    let n = numbers.get(lease);
    if (n === undefined) {
      numbers.set(lease, (n = list.length));
      list.push({ n, id, token });
    }
    return n;
  });
  const { lost, cancelled } = await database.call<{
    readonly lost: readonly number[];
    readonly cancelled: readonly number[];
  }>("heartbeat", JSON.stringify(list), leaseMs);
  const among = (these: ReadonlySet<number>) => leases.filter((_, i) => these.has(places[i]!)).map(({ id }) => id);
  return { lost: among(new Set(lost)), cancelled: among(new Set(cancelled)) };
}

/** Writes progress, log lines and weights, and answers with the jobs whose lease was lost. */
export async function report(database: Database, reports: readonly Report[]): Promise<string[]> {
  if (reports.length === 0) return [];
  const list = reports.map(({ id, token, progress, log, warnings, weights }, n) => ({
    n,
    id,
    token,
    progress: progress === undefined ? undefined : JSON.stringify(progress),
    log: log?.map(storable),
    warnings: warnings?.map(({ about, message }) => ({ about, message: storable(message) })),
    weights,
  }));
  const { lost } = await database.once<{ readonly lost: readonly number[] }>("report", [JSON.stringify(list)]);
  return lost.map((n) => reports[n]!.id);
}
