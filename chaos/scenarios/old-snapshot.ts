import { setTimeout as wait } from "node:timers/promises";
import pg from "pg";
import { Queue } from "../../src/queue/queue.ts";
import { Finding, type Verdict } from "../checkers/verdict.ts";
import type { Work } from "../child/spec.ts";
import type { Outcome, World } from "../conductor/world.ts";
import { hr } from "../history/entry.ts";
import { usual } from "./usual.ts";

const QUEUE = "old";
const BULK = 500;
const PROBES = 9;
/** What a claim may cost beside an old snapshot, of what it costs without one. */
const WITHIN = 2;
/**
 * So long it may take until one is seen that costs no more: now and then a claim looks through all again, and where the workers
 * have nothing to do just then every claim of the conductor does so, since it is rolled back.
 */
const SEEN_MS = 20_000;
/** So long after the snapshot has ended it may take until claims cost what they did. */
const RECOVERY_MS = 120_000;

type Jobs = Record<string, { data: Work; result: unknown }>;

/** Pages that one claim of ten jobs touches, whichever of them were in memory; and how long it took. */
interface Cost {
  readonly pages: number;
  readonly ms: number;
}

/**
 * A transaction with an old snapshot stays open while jobs are processed: the server may clean up nothing that
 * it could still see. As many jobs are processed first without it. The cost of a claim is counted in pages, which does not
 * depend on what else the machine does; and when the transaction has ended it costs what it did before.
 */
export async function oldSnapshot(world: World): Promise<Outcome> {
  const { fleet, database } = world;
  const through = 30_000 * world.scale;
  const storage = world.open();
  const queue = new Queue<Jobs>(QUEUE, { storage });
  const add = async () => {
    const all = Array.from({ length: BULK }, () => ({ type: "work", data: { do: "nothing" } as const }));
    world.recorded(await queue.addBulk(all));
  };
  const prober = await connected(database);
  const holder = await connected(database);
  try {
    // So many jobs wait all the time that every claim finds as many as it asks for.
    for (let i = 0; i < 4; i++) await add();
    const fresh = await costOf(prober);
    const order = { role: "worker", queue: QUEUE, leaseMs: 5_000, concurrency: 20, graceMs: 1_000 } as const;
    for (let i = 0; i < 2; i++) fleet.start({ ...order, seed: world.seed() });
    const pass = async (count: number) => {
      for (let added = 0; added < count; added += BULK) {
        while ((await world.unfinished(QUEUE)) > 3 * BULK) await wait(5);
        await add();
      }
    };
    await pass(through);
    const calm = await costOf(prober);
    world.say(`calm: ${shown(fresh)}, after ${through} jobs ${shown(calm)}`);

    await holder.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await holder.query("SELECT count(*) FROM sluice.jobs");
    world.count("open snapshot");
    await pass(through);
    const cheapest = async (withinMs: number) => {
      const begin = hr();
      let cost = await costOf(prober);
      while (cost.pages > WITHIN * calm.pages && hr() - begin < withinMs) {
        await pass(BULK);
        cost = await costOf(prober);
      }
      return cost;
    };
    const held = await cheapest(SEEN_MS);
    world.say(`beside an open snapshot, after as many jobs: ${shown(held)}`);

    await holder.query("COMMIT");
    const ended = hr();
    await pass(BULK);
    const after = await cheapest(RECOVERY_MS);
    const recovered = hr() - ended;
    world.say(`${Math.round(recovered)} ms after it ended: ${shown(after)}`);

    await world.drain(30_000);
    const { history, final } = await world.collect();
    const note = `${shown(calm)} without, ${shown(held)} after ${through} jobs beside an open snapshot, ${shown(after)} ${Math.round(recovered)} ms after it ended`;
    return world.outcome("T36", history, [
      ...usual(history, final, { drained: true }),
      bounded({ calm, held, after }, note),
    ]);
  } finally {
    await Promise.all([prober.end(), holder.end(), storage.close()]);
  }
}

const shown = ({ pages, ms }: Cost): string => `${pages} pages, ${ms.toFixed(1)} ms`;

function bounded({ calm, held, after }: Readonly<Record<"calm" | "held" | "after", Cost>>, note: string): Verdict {
  const found = new Finding("claim", "costs");
  for (const [when, { pages }] of Object.entries({ "beside an open snapshot": held, "after it": after })) {
    found.check(
      pages <= WITHIN * calm.pages,
      () => `a claim touched ${pages} pages ${when}, ${calm.pages} without: ${WITHIN} times that is allowed`,
    );
  }
  found.note = note;
  return found.verdict;
}

/** The median of some claims that are rolled back. Workers go on meanwhile. */
async function costOf(client: pg.Client): Promise<Cost> {
  const request = { claim: 1, queue: QUEUE, worker: "probe", max: 10, types: null, lease_ms: 1_000, limits: [] };
  const costs: Cost[] = [];
  for (let i = 0; i < PROBES; i++) {
    await client.query("BEGIN");
    const { rows } = await client.query<{ "QUERY PLAN": [Explained] }>(
      `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT sluice.claim_2('${JSON.stringify(request)}')`,
    );
    await client.query("ROLLBACK");
    const [{ Plan: plan, "Execution Time": ms }] = rows[0]!["QUERY PLAN"];
    costs.push({ pages: plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], ms });
  }
  return costs.toSorted((a, b) => a.pages - b.pages)[Math.floor(PROBES / 2)]!;
}

interface Explained {
  readonly Plan: { readonly "Shared Hit Blocks": number; readonly "Shared Read Blocks": number };
  readonly "Execution Time": number;
}

async function connected(database: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database });
  client.on("error", () => {});
  await client.connect();
  return client;
}
