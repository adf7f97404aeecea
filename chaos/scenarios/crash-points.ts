import { setTimeout as wait } from "node:timers/promises";
import type { LimitDefinitions } from "../../src/limits/definition.ts";
import { idempotency } from "../checkers/idempotency.ts";
import { slotsBack } from "../checkers/shared.ts";
import { Finding } from "../checkers/verdict.ts";
import type { CrashPoint } from "../child/spec.ts";
import type { Order } from "../conductor/fleet.ts";
import type { Outcome, World } from "../conductor/world.ts";
import { usual } from "./usual.ts";

const LEASE_MS = 1_000;

/** It never blocks: its slots must come and go with the leases. */
const LIMITS: LimitDefinitions = { slots: { concurrency: 100, queues: ["points"] } };

/** The process that reaches each point, and what it needs to get there. */
const POINTS: readonly { readonly step: CrashPoint["step"]; readonly by: "producer" | "bulk" | "worker" }[] = [
  { step: "add", by: "producer" },
  { step: "add", by: "bulk" },
  { step: "claim", by: "worker" },
  { step: "settle", by: "worker" },
  { step: "heartbeat", by: "worker" },
  { step: "sweep", by: "worker" },
];
/** On a slow machine it takes a while until a point is met. */
const PATIENCE_MS = 6_000;
const SIDES = ["before-commit", "after-commit"] as const;

/**
 * Processes that kill themselves right before or right after a commit, at each of the steps that write: the work of the
 * other processes goes on, acknowledged jobs are there, and others are there all or none.
 */
export async function crashPoints(world: World): Promise<Outcome> {
  const { fleet } = world;
  const reached = new Finding("reached", "points");
  const worker = (crash?: CrashPoint): Order => ({
    role: "worker",
    seed: world.seed(),
    queue: "points",
    leaseMs: LEASE_MS,
    concurrency: 16,
    graceMs: 500,
    limits: LIMITS,
    crash,
  });
  const producer = (by: "producer" | "bulk" | "worker", crash?: CrashPoint): Order => ({
    role: "producer",
    seed: world.seed(),
    queue: "points",
    // The process that is to crash adds jobs until then.
    forMs: crash !== undefined ? PATIENCE_MS : by === "worker" ? 1_000 : 400,
    perSecond: by === "bulk" ? 2_500 : 120,
    maxAttempts: 100,
    ...(by === "bulk" && { bulk: { size: 250, probability: 1 } }),
    ...(by === "producer" && { keyMs: 20 }),
    // Long enough for a heartbeat, where a worker is to crash during one.
    work: [by === "worker" ? { do: "sleep", ms: LEASE_MS / 2 } : { do: "nothing" }],
    crash,
  });
  fleet.start(worker());
  for (let round = 0; round < world.scale; round++) {
    for (const { step, by } of POINTS) {
      const members = SIDES.map((at) => {
        // Points that are reached seldom are not waited for again.
        const nth = world.chance.integer(1, step === "sweep" || step === "heartbeat" || by === "bulk" ? 1 : 3);
        const crash: CrashPoint = { step, at, nth, signal: "SIGKILL" };
        return { at, member: fleet.start(by === "worker" ? worker(crash) : producer(by, crash)) };
      });
      // A producer that survives adds under the same keys: those that crash may do so before any is acknowledged.
      if (by === "producer") fleet.start(producer("producer"));
      // Jobs for processes that wait for their point, and leases to recover for those that sweep.
      if (by === "worker") fleet.start(producer("worker"));
      if (step === "sweep") {
        const prey = fleet.start(worker());
        await wait(500);
        fleet.kill(prey);
      }
      await Promise.race([Promise.all(members.map(({ member }) => member.exited)), wait(PATIENCE_MS)]);
      for (const { at, member } of members) {
        const struck = member.exit?.signal === "SIGKILL";
        if (struck) fleet.died(member);
        else fleet.terminate(member);
        // Of several processes that wait for the same sweep only the first finds something.
        reached.check(struck || step === "sweep", () => `${by} never came to ${step}, ${at}`);
      }
    }
  }
  world.say("every point was met");
  await world.drain(15_000 * Math.max(1, world.scale));
  const { history, final } = await world.collect();
  const verdicts = [
    ...usual(history, final, { drained: true }),
    idempotency(history, final),
    slotsBack(final),
    reached.verdict,
  ];
  return world.outcome("T03 T04 T19", history, verdicts);
}
