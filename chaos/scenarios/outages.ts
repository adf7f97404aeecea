import { setTimeout as wait } from "node:timers/promises";
import pg from "pg";
import { Proxy } from "../conductor/proxy.ts";
import { liveness } from "../checkers/liveness.ts";
import { Finding, type Verdict } from "../checkers/verdict.ts";
import type { Work } from "../child/spec.ts";
import type { Outcome, World } from "../conductor/world.ts";
import type { Digest } from "../history/digest.ts";
import { hr } from "../history/entry.ts";
import type { Final } from "../history/final.ts";
import { slotsOf, usual } from "./usual.ts";

const LEASE_MS = 3_000;

interface Moment {
  readonly what: string;
  /** On the clock that all processes share: when the server was there again. */
  readonly at: number;
}

/**
 * The server is restarted, crashes, and loses our connections, under load. Workers resume by themselves within two seconds
 * of its being back, and nothing is lost.
 */
export async function restarts(world: World): Promise<Outcome> {
  const { chance } = world;
  const server = world.server!;
  const rounds = 3 * world.scale;
  staff(world, "restarts", undefined, { forMs: 6_000 + rounds * 4_500 });
  // Start-up without a server is not tested here: every process has connected before the outage.
  await wait(4_000);
  const back: Moment[] = [];
  for (let round = 0; round < rounds; round++) {
    const what = chance.pick(["fast", "immediate", "terminate"] as const)!;
    if (what === "terminate") {
      await terminateAll(world.database);
    } else {
      await server.halt(what);
      await wait(chance.integer(0, 600));
      await server.resume();
    }
    back.push({ what, at: hr() });
    world.count(what);
    await wait(chance.integer(2_200, 3_000));
  }
  return finish(world, "restarts", "T10", (history) => [resumed(history, back, 2_000 + 2 * world.stallMs)]);
}

/** Every connection is reset every second or so. */
export async function resets(world: World): Promise<Outcome> {
  const { chance } = world;
  const proxy = await Proxy.open(world.server!.port, () => chance.next());
  staff(world, "resets", throughProxy(world, proxy));
  const end = hr() + 8_000 * world.scale;
  while (hr() < end) {
    await wait(chance.integer(500, 2_000));
    world.count("resets", proxy.passages.size);
    proxy.resetAll();
  }
  return finish(world, "resets", "T12", () => [], proxy);
}

/** A connection of a high and changing latency, and of a low bandwidth. */
export async function slowStorage(world: World): Promise<Outcome> {
  const { chance } = world;
  const proxy = await Proxy.open(world.server!.port, () => chance.next());
  proxy.way = { latencyMs: 50, jitterMs: 150, bandwidth: 64 * 1_024 };
  staff(world, "slow", throughProxy(world, proxy));
  await wait(8_000 * world.scale);
  proxy.way = {};
  return finish(world, "slow", "T15", (history) => [noLeaseLost(history)], proxy);
}

/** The connection that workers listen on is open and silent: jobs that are added start all the same. */
export async function halfOpen(world: World): Promise<Outcome> {
  const proxy = await Proxy.open(world.server!.port);
  staff(world, "half-open", throughProxy(world, proxy), { perSecond: 2 });
  await wait(2_000);
  const end = hr() + 8_000 * world.scale;
  while (hr() < end) {
    for (const passage of proxy.passages) {
      if (!/\bLISTEN\b/.test(passage.said)) continue;
      passage.blackhole();
      world.count("listeners cut off");
    }
    await wait(4_000);
  }
  const longestMs = 5_500 + 2 * world.stallMs;
  return finish(
    world,
    "half-open",
    "T11",
    (history) => [liveness(history, { queue: "half-open", workers: slotsOf(history), longestMs })],
    proxy,
  );
}

/** The address of the server behind a proxy. */
/**
 * Commits wait for a synchronous standby that does not answer, and connections stall: answers come late, or never, and what was
 * sent may arrive when it was repeated long since. Jobs have one attempt, so none may be dead that was never called.
 */
export async function unknownOutcomes(world: World): Promise<Outcome> {
  const { chance } = world;
  const proxy = await Proxy.open(world.server!.port, () => chance.next());
  const rounds = world.scale;
  const forMs = 3_000 + rounds * 13_000;
  staff(world, "unknown", throughProxy(world, proxy), { perSecond: 20, forMs, leaseMs: 30_000, maxAttempts: 1 });
  await wait(3_000);
  for (let round = 0; round < rounds; round++) {
    await setStandby(world.database, "missing");
    await wait(5_000);
    await setStandby(world.database, "");
    world.count("standbys that hung");
    await wait(chance.integer(500, 1_500));
    const stalled = [...proxy.passages];
    for (const passage of stalled) passage.stall();
    await wait(4_000);
    for (const passage of stalled) passage.resume();
    world.count("connections that stood still", stalled.length);
    await wait(chance.integer(1_000, 2_000));
  }
  return finish(world, "unknown", "T50", (_, final) => [noneDead(final)], proxy);
}

/** Commits wait for this standby from now on; '': for none. */
async function setStandby(database: string, name: string): Promise<void> {
  const client = new pg.Client({ connectionString: database });
  await client.connect();
  await client.query(`ALTER SYSTEM SET synchronous_standby_names = '${name}'`);
  await client.query("SELECT pg_reload_conf()");
  await client.end();
}

/** No handler of these jobs fails, and no worker dies: an attempt that was spent without a call is the only way to end so. */
function noneDead({ rows }: Final): Verdict {
  const found = new Finding("attempts not burned", "queues");
  for (const [queue, { dead = 0 }] of rows) {
    found.check(dead === 0, () => `${dead} jobs of ${queue} are dead, and had one attempt that cannot have failed`);
  }
  return found.verdict;
}

export function throughProxy({ server }: World, { port }: Proxy): string {
  return server!.url.replace(`:${server!.port}/`, `:${port}/`);
}

/** Four workers and two producers, which go by this address. */
function staff(
  world: World,
  queue: string,
  database?: string,
  { perSecond = 40, forMs = 8_000 * world.scale, leaseMs = LEASE_MS, maxAttempts = 100 } = {},
): void {
  const { fleet } = world;
  const via = database === undefined ? {} : { via: database };
  for (let i = 0; i < 4; i++) {
    fleet.start({ role: "worker", seed: world.seed(), queue, leaseMs, concurrency: 5, graceMs: 500, ...via });
  }
  const work: Work[] = [{ do: "nothing" }, { do: "sleep", ms: 20 }, { do: "sleep", ms: 200 }];
  const order = { role: "producer", queue, forMs, perSecond, work, maxAttempts } as const;
  for (let i = 0; i < 2; i++) fleet.start({ ...order, seed: world.seed(), ...via });
}

async function finish(
  world: World,
  queue: string,
  tests: string,
  more: (history: Digest, final: Final) => readonly Verdict[],
  proxy?: Proxy,
): Promise<Outcome> {
  world.say("no more faults");
  await wait(300);
  // While a producer adds, there is always a job that has not ended.
  await Promise.all(world.fleet.live("producer").map(({ exited }) => exited));
  await world.drain(30_000, queue);
  const { history, final } = await world.collect();
  await proxy?.close();
  return world.outcome(tests, history, [
    ...usual(history, final, { drained: true, outages: true }),
    ...more(history, final),
  ]);
}

async function terminateAll(database: string): Promise<void> {
  const client = new pg.Client({ connectionString: database });
  client.on("error", () => {});
  await client.connect();
  await client.query(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'",
  );
  await client.end();
}

/** After each outage a worker claims within so long. */
function resumed({ claims }: Digest, back: readonly Moment[], withinMs: number): Verdict {
  const found = new Finding("I13", "outages");
  let longest = 0;
  for (const { what, at } of back) {
    const next = claims.reduce((least, { until }) => (until > at ? Math.min(least, until - at) : least), Infinity);
    longest = Math.max(longest, next);
    found.check(next <= withinMs, () => `after "${what}" nothing was claimed for ${Math.round(next)} ms`);
  }
  found.note = `work resumed within ${Math.round(longest)} ms`;
  return found.verdict;
}

/** No lease of a live worker expired. */
function noLeaseLost({ sweeps }: Digest): Verdict {
  const found = new Finding("leases kept", "sweeps");
  found.n = Math.max(1, sweeps.length);
  for (const { stalled } of sweeps)
    found.check(stalled === 0, () => `${stalled} jobs were taken from workers that lived`);
  return found.verdict;
}
