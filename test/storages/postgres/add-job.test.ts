import { describe, expect, test } from "vitest";
import { Queue } from "../../../src/index.ts";
import type { JobRecord } from "../../../src/core/job.ts";
import { emptyStorages, rule, type EmptyStorage } from "./support.ts";

/** Calls the function as psql would, and returns the job that is stored then. */
async function addJob({ pool, storage }: EmptyStorage, ...args: readonly unknown[]): Promise<JobRecord> {
  const placeholders = args.map((_, i) => `$${i + 1}`).join(", ");
  const { rows } = await pool.query<{ id: string }>(`SELECT sluice.add_job(${placeholders}) AS id`, [...args]);
  return (await storage.find([rows[0]!.id]))[0]!;
}

/** The error message of a call that is refused. */
async function refusal(scene: EmptyStorage, ...args: readonly unknown[]): Promise<{ code: string; message: string }> {
  try {
    await addJob(scene, ...args);
  } catch (error) {
    return error as { code: string; message: string };
  }
  throw new Error("expected a refusal");
}

describe("the function add_job", () => {
  const open = emptyStorages();

  test("has the defaults of queue.add", async () => {
    const scene = await open();
    await scene.storage.setup();
    const here = await addJob(scene, "q", "t", '{"b": [1, {"a": null}], "a": "ß\\u0001"}');
    const queue = new Queue("q", { storage: scene.storage, clock: scene.clock });
    const { id } = await queue.add("t", { b: [1, { a: null }], a: "ß\u0001" });
    const [there] = await scene.storage.find([id]);
    expect(JSON.parse(here.data)).toEqual(JSON.parse(there!.data));
    expect({ ...here, id: "", data: "" }).toEqual({ ...there, id: "", data: "" });
  });

  test("reads every option as queue.add does", async () => {
    const scene = await open();
    await scene.storage.setup();
    const options = {
      priority: -3,
      delay: "2m",
      group: "g",
      weights: { tokens: 1_200 },
      maxAttempts: 2,
      backoff: { kind: "exponential", initial: "2s" },
      timeout: 1_500,
      deadline: "1d",
      keepFor: "0s",
      idempotencyKey: "k",
      idempotencyTtl: "1h",
      onDuplicate: "reject",
    } as const;
    const here = await addJob(scene, "q", "t", "[]", JSON.stringify(options));
    const queue = new Queue("q", { storage: scene.storage, clock: scene.clock });
    const { id } = await queue.add("t", [], { ...options, idempotencyKey: "l" });
    const [there] = await scene.storage.find([id]);
    expect({ ...here, id: "", idempotencyKey: "" }).toEqual({ ...there, id: "", idempotencyKey: "" });
    const runAt = new Date(scene.clock.wall() + 5_000);
    const later = await addJob(
      scene,
      "q",
      "t",
      "1",
      JSON.stringify({ runAt, deadline: runAt, backoff: { kind: "custom", name: "mine" } }),
    );
    expect([later.dueAt, later.deadline, later.state, later.backoff]).toEqual([
      runAt.getTime(),
      runAt.getTime(),
      "scheduled",
      { kind: "custom", name: "mine" },
    ]);
    const fixed = await addJob(scene, "q", "t", "1", JSON.stringify({ backoff: { kind: "fixed", delay: 0 } }));
    expect(fixed.backoff).toEqual({ kind: "fixed", delay: 0 });
  });

  test("knows the payload of a job that queue.add has added under the same key", async () => {
    const scene = await open();
    const queue = new Queue("q", { storage: scene.storage, clock: scene.clock });
    const data = { b: 1.5, a: [1e21, 1e-7, 100, "é\n\u0001\u{1f600}", true, null], c: { y: -0.001, x: {} } };
    const { id } = await queue.add("t", data, { idempotencyKey: "k" });
    const text = JSON.stringify(data);
    expect((await addJob(scene, "q", "t", text, '{"idempotencyKey": "k"}')).id).toBe(id);
    const other = await refusal(scene, "q", "t", "2", '{"idempotencyKey": "k"}');
    expect(other.code).toBe("23505");
    expect(other.message).toContain(`"k" belongs to job "${id}": its payload is another one`);
    const replaced = await addJob(scene, "q", "t", "2", '{"idempotencyKey": "k", "onDuplicate": "replace"}');
    expect((await scene.storage.find([id, replaced.id])).map((job) => job?.state)).toEqual([undefined, "waiting"]);
  });

  test("refuses what is wrong, and names it", async () => {
    const scene = await open();
    await scene.storage.setup();
    const wrong: readonly (readonly [args: readonly unknown[], words: readonly string[]])[] = [
      [
        ["", "t", "1"],
        ['"queue"', "1 to 200"],
      ],
      [
        ["q", null, "1"],
        ['"type"', "1 to 255", "NULL"],
      ],
      [
        ["q", "t", null],
        ['"data"', "a JSON value", "NULL"],
      ],
      [
        ["q", "t", JSON.stringify("x".repeat(1_048_576))],
        ['"data"', "at most 1048576 bytes"],
      ],
      [
        ["q", "t", "1", "[]"],
        ['"options"', "an object", "[]"],
      ],
      [
        ["q", "t", "1", '{"prioritty": 1}'],
        ['"prioritty"', "no such option"],
      ],
      [
        ["q", "t", "1", '{"priority": 1.5}'],
        ['"priority"', "an integer", "1.5"],
      ],
      [
        ["q", "t", "1", '{"maxAttempts": 0}'],
        ['"maxAttempts"', "an integer", "0"],
      ],
      [
        ["q", "t", "1", '{"delay": "soon"}'],
        ['"delay"', "a duration >= 0", '"soon"'],
      ],
      [
        ["q", "t", "1", '{"timeout": 0}'],
        ['"timeout"', "a duration > 0", "0"],
      ],
      [
        ["q", "t", "1", '{"runAt": "2030-01-01 12:00"}'],
        ['"runAt"', "time zone"],
      ],
      [
        ["q", "t", "1", '{"runAt": "2030-13-01T12:00:00Z"}'],
        ['"runAt"', "time zone"],
      ],
      [
        ["q", "t", "1", '{"runAt": "2030-01-01T12:00:00Z", "delay": 5}'],
        ['"runAt"', '"delay"'],
      ],
      [
        ["q", "t", "1", '{"deadline": true}'],
        ['"deadline"', "a duration > 0", "true"],
      ],
      [
        ["q", "t", "1", '{"group": ""}'],
        ['"group"', "1 to 255"],
      ],
      [
        ["q", "t", "1", '{"weights": {"tokens": 0}}'],
        ['"weights"', "integer weights"],
      ],
      [
        ["q", "t", "1", '{"backoff": {"kind": "none"}}'],
        ['"backoff"', '"exponential"'],
      ],
      [
        ["q", "t", "1", '{"backoff": {"kind": "fixed"}}'],
        ['"backoff.delay"', "a duration >= 0", "NULL"],
      ],
      [
        ["q", "t", "1", '{"backoff": {"kind": "fixed", "delay": 1, "max": 2}}'],
        ['"backoff.max"', "no such option"],
      ],
      [
        ["q", "t", "1", '{"backoff": {"kind": "exponential", "max": 5}}'],
        ['"backoff.max"', "at least initial", "5"],
      ],
      [
        ["q", "t", "1", '{"onDuplicate": "ignore"}'],
        ['"onDuplicate"', '"replace"', '"ignore"'],
      ],
    ];
    for (const [args, words] of wrong) {
      const { code, message } = await refusal(scene, ...args);
      expect([code, message]).toEqual(["22023", expect.stringMatching(/^add_job: expected /)]);
      for (const word of words) expect(message).toContain(word);
    }
    expect(await scene.storage.overview()).toEqual([]);
  });

  test("refuses a weight that can never fit under a limit", async () => {
    const scene = await open();
    const max = { max: 10, windowMs: 1_000, concurrency: null, everyMs: null };
    await scene.storage.limits.define([rule("k", max, { weight: "tokens" })]);
    const { code, message } = await refusal(scene, "q", "t", "1", '{"weights": {"tokens": 11}}');
    expect(code).toBe("22023");
    expect(message).toContain('"weights.tokens" to be at most 10, got 11');
    await addJob(scene, "q", "t", "1", '{"weights": {"tokens": 10}}');
    expect((await scene.storage.overview("q"))[0]?.counts.waiting).toBe(1);
  });

  test("a job that a trigger adds comes and goes with the transaction, and wakes up waiting workers", async () => {
    const scene = await open();
    await scene.storage.setup();
    const { pool, storage, clock } = scene;
    await pool.query(`DROP TABLE IF EXISTS public.orders;
      CREATE TABLE public.orders (id int, mail text, ship_at timestamptz);
      CREATE OR REPLACE FUNCTION public.ordered() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        PERFORM sluice.add_job('q', 'confirm', jsonb_build_object('to', NEW.mail), jsonb_build_object('group', NEW.mail));
        PERFORM sluice.add_job('q', 'ship', to_jsonb(NEW.id), jsonb_build_object('runAt', NEW.ship_at));
        RETURN NEW;
      END $$;
      CREATE TRIGGER ordered AFTER INSERT ON public.orders FOR EACH ROW EXECUTE FUNCTION public.ordered()`);
    const woken: boolean[] = [];
    storage.subscribe({ queue: "q", wake: (mayStart) => woken.push(mayStart) });
    await clock.advance(0);
    const client = await pool.connect();
    const at = new Date(clock.wall() + 60_000);
    const insert = () => client.query("INSERT INTO public.orders VALUES (7, 'a@example.com', $1)", [at]);
    try {
      // At any isolation level: it is not our transaction.
      await client.query("BEGIN ISOLATION LEVEL SERIALIZABLE");
      await insert();
      await client.query("ROLLBACK");
      expect(await storage.overview()).toEqual([]);
      await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
      await insert();
      expect(await storage.overview()).toEqual([]);
      await client.query("COMMIT");
    } finally {
      client.release();
    }
    const { jobs } = await storage.list({
      queue: "q",
      states: null,
      type: null,
      group: null,
      since: null,
      until: null,
      limit: 10,
      cursor: null,
    });
    expect(
      jobs.map(({ type, group, data, state, dueAt }) => ({ type, group, data: JSON.parse(data), state, dueAt })),
    ).toEqual([
      { type: "ship", group: null, data: 7, state: "scheduled", dueAt: at.getTime() },
      { type: "confirm", group: "a@example.com", data: { to: "a@example.com" }, state: "waiting", dueAt: clock.wall() },
    ]);
    for (let i = 0; i < 20 && woken.length === 0; i++) await clock.advance(100);
    expect(woken.length).toBeGreaterThan(0);
  });
});
