import type { WorkerEntry } from "../../storage/workers.ts";
import { equal } from "../expect.ts";
import type { Cases, Scene } from "./scene.ts";

const TTL_MS = 45_000;

const entry = (id: string, said: Partial<WorkerEntry> = {}): WorkerEntry => ({
  id,
  queue: "q",
  host: "machine",
  pid: 7,
  types: ["t"],
  moreTypes: 0,
  concurrency: 3,
  limits: ["api"],
  moreLimits: 0,
  upMs: 0,
  ...said,
});

const register = (s: Scene, ...entries: readonly WorkerEntry[]) => s.storage.register(entries, TTL_MS, []);
const ids = async (s: Scene, queue?: string) => (await s.storage.workers(queue)).map(({ id }) => id);
const workersOf = async (s: Scene, id: string) => (await s.storage.explain(id))?.workers;

export const workers: Cases = {
  "a worker is shown as it registered, with the time of the storage": async (s) => {
    await s.clock.advance(10_000);
    await register(s, entry("a", { upMs: 2_000 }), entry("b", { queue: "r", host: null, pid: null, types: null }));
    const now = s.clock.wall();
    const rest = {
      host: "machine",
      pid: 7,
      types: ["t"],
      moreTypes: 0,
      concurrency: 3,
      limits: ["api"],
      moreLimits: 0,
    };
    equal(
      await s.storage.workers(),
      [
        { ...rest, id: "a", queue: "q", since: now - 2_000, seenAt: now },
        { ...rest, id: "b", queue: "r", host: null, pid: null, types: null, since: now, seenAt: now },
      ],
      "all workers",
    );
    equal(await ids(s, "r"), ["b"], "of one queue");
    equal(await ids(s, "nobody"), [], "of a queue without workers");
  },

  "a heartbeat keeps a worker live, updates its entry, and leaves `since` as it was": async (s) => {
    await register(s, entry("a"));
    const began = s.clock.wall();
    await s.clock.advance(30_000);
    await register(s, entry("a", { concurrency: 9, types: ["t", "u"], upMs: 29_000 }));
    await s.clock.advance(30_000);
    const [found] = await s.storage.workers();
    equal(
      [found?.since, found?.seenAt, found?.concurrency, found?.types],
      [began, began + 30_000, 9, ["t", "u"]],
      "the worker",
    );
  },

  "a worker without a heartbeat is not shown when its time is over, and the sweep deletes it": async (s) => {
    await register(s, entry("a"));
    await s.clock.advance(TTL_MS - 1);
    equal(await ids(s), ["a"], "before that");
    equal((await s.sweep()).deleted, 0, "deleted before that");
    await s.clock.advance(1);
    equal(await ids(s), [], "then");
    equal((await s.sweep()).deleted, 1, "deleted then");
    equal((await s.sweep()).deleted, 0, "deleted again");
  },

  "a worker whose registration expired registers again": async (s) => {
    const began = s.clock.wall();
    await register(s, entry("a"));
    await s.clock.advance(2 * TTL_MS);
    await s.sweep();
    await register(s, entry("a", { upMs: 2 * TTL_MS }));
    const [found] = await s.storage.workers();
    equal([found?.id, found?.since], ["a", began], "the worker");
  },

  "a worker that stops is removed, and one that never registered may be": async (s) => {
    await register(s, entry("a"), entry("b"));
    await s.storage.register([], TTL_MS, ["a", "nobody"]);
    equal(await ids(s), ["b"], "those left");
    await s.storage.register([entry("c")], TTL_MS, ["b"]);
    equal(await ids(s), ["c"], "one in place of another");
  },

  "register() says whether the live worker that began first is among those registered": async (s) => {
    equal(await register(s, entry("b")), { first: true }, "the only one");
    await s.clock.advance(1_000);
    equal(await register(s, entry("a")), { first: false }, "a later one");
    await s.clock.advance(1_000);
    equal(await register(s, entry("b"), entry("c")), { first: true }, "the first among others");
    equal(await s.storage.register([], TTL_MS, ["b"]), { first: false }, "none of them");
    equal(await register(s, entry("a")), { first: true }, "the next");
    await s.clock.advance(TTL_MS);
    equal(await register(s, entry("d")), { first: true }, "one that outlived the others");
  },

  "an explanation counts live workers of the queue, and those that handle the type": async (s) => {
    const [t, u] = await s.add({ type: "t" }, { type: "u" });
    equal(await workersOf(s, t!), { live: 0, handling: 0 }, "without workers");
    await register(s, entry("a"), entry("b", { queue: "r", types: null }));
    equal(await workersOf(s, t!), { live: 1, handling: 1 }, "a type that is handled");
    equal(await workersOf(s, u!), { live: 1, handling: 0 }, "a type that is not");
    await register(s, entry("c", { types: null }));
    equal(await workersOf(s, u!), { live: 2, handling: 1 }, "one function for all types");
    await s.clock.advance(TTL_MS);
    equal(await workersOf(s, u!), { live: 0, handling: 0 }, "workers whose time is over");
  },

  "a worker with more types than are listed may handle any": async (s) => {
    const id = await s.addOne({ type: "u" });
    await register(s, entry("a", { moreTypes: 1 }));
    equal(await workersOf(s, id), { live: 1, handling: 1 }, "the explanation");
    equal(await s.storage.unhandled(), [], "unhandled types");
  },

  "a backlog counts the live workers that handle each type": async (s) => {
    await s.add({ type: "t" }, { type: "u" });
    await register(s, entry("a"), entry("b"));
    const { types } = await s.storage.backlog("q");
    equal(
      types.map((one) => [one.type, one.workers]),
      [
        ["t", 2],
        ["u", 0],
      ],
      "by type",
    );
  },

  "unhandled() lists the waiting types that no live worker handles": async (s) => {
    await s.add({ type: "u", group: "g" }, { type: "u" }, { type: "t" }, { queue: "r", type: "t" });
    await s.add({ type: "later", due: { inMs: 60_000 } });
    const inQ = (...types: readonly string[]) => types.map((type) => ({ queue: "q", type }));
    equal(await s.storage.unhandled(), [...inQ("t", "u"), { queue: "r", type: "t" }], "without workers");
    await register(s, entry("a"));
    equal(await s.storage.unhandled(), [...inQ("u"), { queue: "r", type: "t" }], "with one of a queue");
    await s.storage.setPaused("r", null, true);
    equal(await s.storage.unhandled(), inQ("u"), "while the queue is paused");
    await s.storage.setPaused("q", "u", true);
    equal(await s.storage.unhandled(), [], "while the type is paused");
    await s.storage.setPaused("q", "u", false);
    await s.clock.advance(60_000);
    await register(s, entry("a"));
    equal(await s.storage.unhandled(), inQ("later", "u"), "what has come due");
    await s.storage.change({
      action: "cancel",
      queue: "q",
      where: { states: ["waiting", "scheduled"], type: null, group: null, endedForMs: null },
      limit: 10,
    });
    equal(await s.storage.unhandled(), [], "when none waits");
  },

  "jobs of a type that a limit holds are not unhandled for that": async (s) => {
    const limits = [{ key: "k", max: 1, windowMs: 60_000 }];
    await s.add({ group: "g" }, { group: "g" }, { group: "h", type: "u" });
    await register(s, entry("a"));
    await s.claim({ types: ["t"], limits });
    equal(await s.storage.unhandled(), [{ queue: "q", type: "u" }], "the other type");
  },
};
