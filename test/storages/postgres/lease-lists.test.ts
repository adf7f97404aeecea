import { describe, expect, test } from "vitest";
import { anything } from "../jobs.ts";
import { type EmptyStorage, emptyStorages, newJob } from "./support.ts";

interface ListedLease {
  readonly id: string;
  readonly token: number;
}

/** These jobs are active; by id, the leases they have. */
async function leased({ storage }: EmptyStorage, ids: readonly string[]): Promise<Record<string, ListedLease>> {
  await storage.add(ids.map((id) => newJob({ id })));
  const { jobs } = await storage.claim(anything({ max: ids.length }));
  return Object.fromEntries(jobs.map(({ id, token }) => [id, { id, token }]));
}

const numbered = (leases: readonly object[]) => JSON.stringify(leases.map((lease, n) => ({ n, ...lease })));

async function answer({ pool }: EmptyStorage, call: string, values: unknown[]): Promise<unknown> {
  const { rows } = await pool.query<{ answer: string }>(`SELECT sluice.${call} AS answer`, values);
  return JSON.parse(rows[0]!.answer);
}

describe("lists of leases, in any order", () => {
  const open = emptyStorages();

  test("a heartbeat extends each lease by itself: one that is named twice, a token that stands for two jobs, an unknown job", async () => {
    const scene = await open();
    const { a, b, c, d } = (await leased(scene, ["a", "b", "c", "d"])) as Record<"a" | "b" | "c" | "d", ListedLease>;
    await scene.storage.change({ action: "cancel", queue: "q", ids: ["c"] });
    const leases = [
      d,
      a,
      a,
      { id: "b", token: a.token },
      b,
      { id: "missing", token: 1 },
      c,
      { id: "x", token: d.token },
      c,
    ];
    expect(await answer(scene, "heartbeat_2($1, 60000)", [numbered(leases)])).toEqual({
      lost: [3, 5, 7],
      cancelled: [6, 8],
    });
    expect(await answer(scene, "heartbeat_2($1, 60000)", [numbered([b, a])])).toEqual({ lost: [], cancelled: [] });
    expect(await answer(scene, "heartbeat_2($1, 60000)", ["[]"])).toEqual({ lost: [], cancelled: [] });
    expect(await answer(scene, "heartbeat_2($1, 60000)", [numbered([{ id: "a" }, {}])])).toMatchObject({
      lost: [0, 1],
    });
  });

  test("a heartbeat extends leases in the order in which the caller names them", async () => {
    const scene = await open();
    const { a, b } = (await leased(scene, ["a", "b"])) as Record<"a" | "b", ListedLease>;
    const leases = [b, { id: "a", token: b.token }, a, b, { id: "missing", token: a.token }];
    expect(await scene.storage.heartbeat(leases, 60_000)).toEqual({ lost: ["a", "missing"], cancelled: [] });
  });

  test("a settlement ends leases, and answers the same when it is repeated", async () => {
    const scene = await open();
    const ids = Array.from({ length: 40 }, (_, i) => `j${i}`);
    const leases = Object.values(await leased(scene, ids)).toReversed();
    const error = '{"name":"Error","message":"no"}';
    const outcomes = leases.map((lease, i) =>
      Object.assign({}, lease, {
        to: "dead",
        error,
        kinds: [],
        token: i % 10 === 3 ? leases[i - 1]!.token : lease.token,
      }),
    );
    const wrong = [3, 13, 23, 33];
    expect(await answer(scene, "settle_2($1, true)", [numbered(outcomes)])).toMatchObject({ stale: wrong });
    const states = await scene.storage.find(leases.map(({ id }) => id));
    expect(states.flatMap((job, i) => (job?.state === "active" ? [i] : []))).toEqual(wrong);
    expect(await answer(scene, "settle_2($1, true)", [numbered(outcomes)])).toMatchObject({ stale: wrong });
    expect(await answer(scene, "settle_2($1)", [numbered(outcomes)])).toMatchObject({
      stale: outcomes.map((_, i) => i),
    });
  });
});
