import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, describe, expect, it } from "vitest";
import { mostInAnyWindow } from "../../examples/common/windows.ts";
import { margin, useOfAllowance } from "../../examples/demo/arithmetic.ts";
import type { Plan } from "../../examples/demo/plan.ts";
import { picture } from "../../examples/demo/progress.ts";
import { makeReport, type Report, reportText } from "../../examples/demo/report.ts";
import { Scoreboard } from "../../examples/demo/scoreboard.ts";
import { plain } from "../../src/cli/io.ts";
import { folderFor, program, sluice } from "../cli/support.ts";

const MAIN = resolve("examples/demo/main.ts");
const demo = (args: readonly string[], env?: Record<string, string>) => program(MAIN, args, env);

const PLAN: Plan = {
  jobs: 4,
  processes: 2,
  concurrency: 2,
  quota: 2,
  windowMs: 1_000,
  guardMs: 100,
  leaseMs: 2_000,
  kill: true,
  unlimited: false,
};
const COUNTS = { waiting: 0, scheduled: 0, active: 0, completed: 4, dead: 0, cancelled: 0, awaiting: 0 };
const surface = { paint: plain, columns: 80 };

/** Two processes; the second is killed with job b in hand, which the first does again. */
function played(): Scoreboard {
  const board = new Scoreboard(PLAN, 0);
  for (const pid of [11, 12]) board.players.push({ pid, done: 0, running: new Set(), killed: false });
  board.started(0, "a", 0);
  board.started(1, "b", 0);
  board.ended(0, "a", 150);
  board.killed(1, ["b"], 100);
  board.stalled("b", 2_200);
  board.started(0, "b", 2_300);
  return board;
}

describe("arithmetic", () => {
  it("finds the fullest window, its end not included", () => {
    expect(mostInAnyWindow([0, 1, 999, 1_000, 1_001], 1_000)).toBe(3);
    expect(mostInAnyWindow([0, 1, 998, 999.9], 1_000)).toBe(4);
    expect(mostInAnyWindow([], 1_000)).toBe(0);
  });

  it("says how much of the allowance was used", () => {
    expect(useOfAllowance([0, 0, 1_000, 1_000], PLAN)).toBe(1);
    expect(useOfAllowance([0, 0, 2_000, 2_000], PLAN)).toBe(0.5);
    expect(useOfAllowance([0, 0], PLAN)).toBeUndefined();
  });
});

describe("the margin", () => {
  it("is how late the call was that came soonest", () => {
    expect(margin([0, 10, 1_100, 1_030], PLAN)).toBe(20);
    expect(margin([0, 10, 990], PLAN)).toBe(-10);
    expect(margin([0, 10], PLAN)).toBeUndefined();
  });
});

describe("the report", () => {
  const calls = [
    { at: 0, job: "a", status: 200 },
    { at: 0, job: "b", status: 200 },
    { at: 1_100, job: "c", status: 200 },
    { at: 1_100, job: "d", status: 200 },
    { at: 2_200, job: "b", status: 200 },
  ];

  it("is good when nothing was refused and all is done", () => {
    const report = makeReport(played(), { calls }, COUNTS);
    expect(report).toMatchObject({
      ok: true,
      service: { calls: 5, refused: 0, worstWindow: 2 },
      jobs: { completed: 4, lost: 0, unfinished: 0, ranAgain: 1, ranAgainUnexplained: 0 },
      kill: { process: 2, afterMs: 100, inHand: 1, backMs: 2_100, againMs: 2_200 },
    });
    expect(report.service.use).toBeCloseTo(1_000 / 1_100, 5);
    expect(report.service.useWithinGuard).toBeCloseTo(1, 5);
    const lines = reportText(report, surface);
    expect(lines).toContain("back in line after 2.1 s (the lease is 2 s),");
    for (const line of lines.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  });

  it("is not when a call was refused, or a job is missing", () => {
    const refused = makeReport(played(), { calls: [...calls, { at: 2_201, job: "e", status: 429 }] }, COUNTS);
    expect(refused).toMatchObject({ ok: false, service: { refused: 1 } });
    expect(reportText(refused, surface)).toContain("Failed: 1 call refused.");
    const lost = makeReport(played(), { calls }, { ...COUNTS, completed: 3 });
    expect(lost).toMatchObject({ ok: false, jobs: { lost: 1 } });
    expect(reportText(lost, surface)).toContain("Failed: 1 job not done.");
  });

  it("names jobs that ran twice without a killed process", () => {
    const twice = makeReport(played(), { calls: [...calls, { at: 3_300, job: "a", status: 200 }] }, COUNTS);
    expect(twice.jobs).toMatchObject({ ranAgain: 2, ranAgainUnexplained: 1 });
  });
});

describe("the scoreboard", () => {
  it("does not count the in-flight jobs of a killed process, whenever it reported them", () => {
    const board = new Scoreboard(PLAN, 0);
    for (const pid of [11, 12]) board.players.push({ pid, done: 0, running: new Set(), killed: false });
    for (const id of ["a", "b", "c"]) board.started(1, id, 0);
    board.ended(1, "a", 100);
    board.killed(1, ["a", "b"], 101);
    board.ended(1, "b", 102);
    board.ended(1, "c", 103);
    expect([...board.done]).toEqual(["c"]);
    expect(board.players[1]).toMatchObject({ done: 1, killed: true });
    for (const id of ["a", "b"]) {
      board.started(0, id, 2_000);
      board.ended(0, id, 2_100);
    }
    expect([...board.done].toSorted()).toEqual(["a", "b", "c"]);
    expect(board.killing).toMatchObject({ againAt: 2_000 });
  });
});

describe("the picture", () => {
  it.each([20, 40, 80, 200])("fits into %d columns", (columns) => {
    const board = played();
    board.blocked = { by: "queue:demo", until: 5_000 };
    for (const line of picture(board, 2_300, columns, plain)) expect(line.length).toBeLessThan(columns);
  });

  it("shows what each process does, and what blocks it", () => {
    const board = played();
    board.blocked = { by: "queue:demo", until: 5_000 };
    const lines = picture(board, 2_300, 120, plain).join("\n");
    expect(lines).toContain(" 1/4");
    expect(lines).toContain("running 1   waiting 2   on queue:demo for 2.7 s");
    expect(lines).toContain("killed with 1 job, again in 2.2 s");
  });
});

describe("demo", () => {
  const folder = folderFor("demo");
  afterAll(folder.remove);

  it("runs from beginning to end: no 429, every job done, one process killed, nothing left behind", async () => {
    const temporary = join(folder.path, "temporary");
    mkdirSync(temporary);
    const flags = ["--jobs", "60", "--quota", "20", "--window", "1s", "--guard", "500ms", "--lease", "1s"];
    const { code, out, err } = await demo(["--processes", "3", ...flags, "--json"], { TMPDIR: temporary });
    expect(err).toBe("");
    const report = JSON.parse(out) as Report;
    expect(report).toMatchObject({
      ok: true,
      service: { refused: 0 },
      jobs: { completed: 60, lost: 0, dead: 0, ranAgainUnexplained: 0 },
      failures: [],
    });
    expect(report.service.worstWindow).toBeLessThanOrEqual(20);
    expect(report.kill!.inHand).toBeGreaterThan(0);
    expect(report.kill!.againMs).not.toBeNull();
    expect(report.processes.filter(({ killed }) => killed)).toHaveLength(1);
    expect(code).toBe(0);
    expect(readdirSync(temporary)).toEqual([]);
    for (const { pid } of report.processes) expect(() => process.kill(pid, 0)).toThrow();
  });

  it("makes its own database, and never uses one that is there", async () => {
    const db = join(folder.path, "own.db");
    const small = ["--jobs", "3", "--processes", "1", "--window", "100ms", "--quota", "3"];
    const first = await demo([...small, "--db", db], { SLUICE_DB: join(folder.path, "precious.db") });
    expect(first).toMatchObject({ code: 0, err: "" });
    expect(first.out).toContain("completed        3 of 3");
    expect(first.out).toContain(`sluice stats --db ${db}`);
    expect(existsSync(join(folder.path, "precious.db"))).toBe(false);
    expect(await demo([...small, "--db", db])).toMatchObject({ code: 2 });
    expect((await sluice(["stats", "--db", db])).out).toMatch(/^demo +0 +0 +0 +3 +0 +0$/m);
  });

  it("shows what happens without a limiter", async () => {
    const flags = ["--jobs", "12", "--processes", "1", "--concurrency", "12", "--quota", "3", "--window", "200ms"];
    const { code, out } = await demo(["--unlimited", "--no-kill", ...flags, "--json"]);
    const report = JSON.parse(out) as Report;
    expect(report.service.refused).toBeGreaterThan(0);
    expect(report.jobs.completed).toBe(12);
    expect(code).toBe(0);
  });

  it("stops at Ctrl-C, reports, and leaves nothing behind", async () => {
    const temporary = join(folder.path, "stopped");
    mkdirSync(temporary);
    const args = [MAIN, "--jobs", "500", "--processes", "2", "--quota", "5", "--window", "10s"];
    const env = { PATH: process.env["PATH"], TMPDIR: temporary };
    const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "inherit"] });
    let interrupted = false;
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
      if (!interrupted && chunk.includes("done")) interrupted = child.kill("SIGINT");
    });
    const [out, [code]] = await Promise.all([text(child.stdout), once(child, "exit")]);
    expect(code).toBe(130);
    expect(out).toContain("What the service saw");
    expect(readdirSync(temporary)).toEqual([]);
  });
});
