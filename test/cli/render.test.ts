import { describe, expect, it } from "vitest";
import { plain } from "../../src/cli/io.ts";
import { jobsTable } from "../../src/cli/render/jobs.ts";
import { outlineOf, outlineText, payloadLines } from "../../src/cli/render/payload.ts";
import { type Stats, statsJson, statsText } from "../../src/cli/render/stats.ts";
import { listing, table } from "../../src/cli/render/table.ts";
import { bytes, fit, jsonText, number, plural, printable, printableLines, widthOf } from "../../src/cli/render/text.ts";
import { distance, duration, instant, shortDuration } from "../../src/cli/render/time.ts";
import type { JobCounts, JobRecord } from "../../src/core/job.ts";

const surface = (columns?: number) => ({ paint: plain, columns });

describe("untrusted text", () => {
  it("untrusted text cannot move the cursor, change colours, or turn the line around", () => {
    expect(printable("a\u001b[2Jb\u0007\u009b31m\u202ec\u2028d")).toBe("a\\u001b[2Jb\\u0007\\u009b31m\\u202ec\\u2028d");
    expect(printable("one\ntwo\tthree\r")).toBe("one⏎two three\\u000d");
    expect(printableLines("a\r\nb\u001b\n\tc")).toEqual(["a", "b\\u001b", "  c"]);
    expect(printable("\ud800")).toBe("\ufffd");
  });

  it("untrusted text cannot move the cursor in JSON either, which stays the same value", () => {
    const value = { a: "\u001b[2J\u009b\u202e\u007f\u2028" };
    expect(jsonText(value)).toBe('{"a":"\\u001b[2J\\u009b\\u202e\\u007f\\u2028"}');
    expect(JSON.parse(jsonText(value))).toEqual(value);
  });

  it("untrusted text takes as many columns as a terminal gives it", () => {
    expect(widthOf("abc")).toBe(3);
    expect(widthOf("日本")).toBe(4);
    expect(widthOf("e\u0301")).toBe(1);
    expect(fit("abcdef", 4)).toBe("abc…");
    expect(fit("日本語", 4)).toBe("日…");
    expect(fit("abc", 3)).toBe("abc");
    expect(fit("abc", 0)).toBe("");
  });

  it("untrusted text has a width that is counted in columns", () => {
    expect([plural(1, "job"), plural(2, "job"), plural(1_234, "process", "processes")]).toEqual([
      "1 job",
      "2 jobs",
      "1,234 processes",
    ]);
    expect([0, 999, 1_000, 1_234_567].map((n) => number(n))).toEqual(["0", "999", "1,000", "1,234,567"]);
    expect([0, 1, 999, 1_000, 12_345_678].map((n) => bytes(n))).toEqual([
      "0 bytes",
      "1 byte",
      "999 bytes",
      "1.00 kB",
      "12.3 MB",
    ]);
  });
});

describe("time", () => {
  it.each([
    [0, "0 ms", "0ms"],
    [412.4, "412 ms", "412ms"],
    [4_210, "4.2 s", "4s"],
    [59_940, "59.9 s", "59s"],
    [59_960, "1 m", "59s"],
    [200_000, "3 m 20 s", "3m"],
    [3_600_000, "1 h", "1h"],
    [18_720_000, "5 h 12 m", "5h"],
    [270_000_000, "3 d 3 h", "3d"],
  ])("%d ms is %s, or %s", (ms, long, short) => {
    expect(duration(ms)).toBe(long);
    expect(shortDuration(ms)).toBe(short);
  });

  it("instants are shown, even those that no date can hold", () => {
    expect(instant(0)).toBe("1970-01-01T00:00:00.000Z");
    expect(instant(1e20)).toBe("100000000000000000000");
    expect(distance(1_000, 5_000)).toBe("4 s ago");
    expect(distance(5_000, 1_000)).toBe("in 4 s");
  });
});

describe("a table", () => {
  const columns = [
    { title: "name", atLeast: 4 },
    { title: "count", align: "right" as const },
  ];

  it("a table is aligned", () => {
    expect(
      table(
        columns,
        [
          ["a", "1"],
          ["long name", "22"],
        ],
        surface(),
      ),
    ).toBe("name       count\na              1\nlong name     22\n");
  });

  it("a table is narrowed and cut where there are too few columns", () => {
    expect(table(columns, [["long name", "22"]], surface(15))).toBe("name      count\nlong name    22\n");
    expect(table(columns, [["long name", "22"]], surface(12))).toBe("name   count\nlong …    22\n");
    expect(table(columns, [["long name", "22"]], surface(1))).toBe("name count\nlon…    22\n");
  });

  it("a table becomes a list of labels where lines have to stand below each other", () => {
    expect(
      listing(
        [
          ["a", "1"],
          ["long", ["x", "y"]],
        ],
        surface(),
      ),
    ).toBe("a     1\nlong  x\n      y\n");
  });
});

describe("a payload", () => {
  it("a payload is outlined by its size and first keys", () => {
    expect(outlineOf('{"a":"secret","b":1}')).toEqual({ bytes: 20, kind: "object", keys: ["a", "b"], more: 0 });
    expect(outlineText('{"a":"secret","b":1}')).toBe("{ a, b } 20 bytes");
    expect(outlineText("[1,2,3]")).toBe("[ 3 ] 7 bytes");
    expect(outlineText('"secret"')).toBe("string 8 bytes");
    expect(outlineText("null")).toBe("null 4 bytes");
    expect(outlineText("{}")).toBe("{} 2 bytes");
    expect(outlineText("no json")).toBe("not JSON 7 bytes");
    const many = JSON.stringify(Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`k${i}`, i])));
    expect(outlineOf(many)).toMatchObject({ keys: Array.from({ length: 8 }, (_, i) => `k${i}`), more: 2 });
    expect(outlineText(many)).toContain("k7, … }");
  });

  it("a payload is shown over several lines", () => {
    expect(payloadLines('{"a":"\u009b"}')).toEqual(["{", '  "a": "\\u009b"', "}"]);
    expect(payloadLines("no json")).toEqual(["no json"]);
  });
});

const COUNTS: JobCounts = { waiting: 0, scheduled: 0, active: 0, completed: 0, dead: 0, cancelled: 0, awaiting: 0 };

describe("stats", () => {
  const stats: Stats = {
    queues: [
      {
        queue: "mail",
        counts: { ...COUNTS, waiting: 120, completed: 1_234_567, dead: 2 },
        paused: false,
        pausedTypes: ["send_email"],
        oldestWaitingMs: 4_000,
      },
      { queue: "other", counts: COUNTS, paused: true, pausedTypes: [], oldestWaitingMs: null },
    ],
    workers: new Map([["mail", 3]]),
    limits: [{ name: "queue:mail", starts: 40, windowMs: 2_150, heldForMs: 12_000 }],
  };

  it("stats are a table, what is paused, and the limits in use", () => {
    expect(statsText(stats, surface(80))).toBe(
      [
        "queue  waiting  scheduled  active  completed  dead  oldest  workers",
        "mail       120          0       0      1.23M     2      4s        3",
        "other        0          0       0          0     0                0",
        "mail: type send_email is paused.",
        "other is paused.",
        "",
        "limit       starts  in the last  held for",
        "queue:mail      40        2.1 s      12 s",
        "",
      ].join("\n"),
    );
  });

  it("stats fit into 80 columns, whatever the names and numbers", () => {
    const most = Object.fromEntries(Object.keys(COUNTS).map((state) => [state, 99_999])) as JobCounts;
    const name = "a queue with a rather long name";
    const queues = [{ queue: name, counts: most, paused: false, pausedTypes: [], oldestWaitingMs: 86_400_000 }];
    const limits = [{ name: "limit ".repeat(30), starts: 1e6, windowMs: 86_399_000, heldForMs: 86_399_000 }];
    for (const line of statsText({ ...stats, queues, limits }, surface(80)).split("\n")) {
      expect(line.length).toBeLessThanOrEqual(80);
    }
  });

  it("stats say so where there is nothing", () => {
    expect(statsText({ queues: [], workers: new Map(), limits: [] }, surface())).toMatch(/no queues/);
  });

  it("stats have a form for machines", () => {
    expect(JSON.parse(jsonText(statsJson(stats)))).toMatchObject({
      queues: [
        { queue: "mail", workers: 3, pausedTypes: ["send_email"] },
        { queue: "other", workers: 0 },
      ],
      limits: [{ name: "queue:mail" }],
    });
  });
});

describe("a list of jobs", () => {
  const job = (more: Partial<JobRecord>): JobRecord => ({
    id: "01a1ddb3-7810-70db-8629-4345c198eb06",
    queue: "mail",
    type: "send_a_rather_long_email_with_pictures",
    data: "{}",
    state: "waiting",
    priority: 0,
    group: null,
    weights: null,
    attempt: 1,
    maxAttempts: 5,
    backoff: { kind: "fixed", delay: 1 },
    timeout: null,
    deadline: null,
    keepFor: null,
    holds: 0,
    createdAt: 0,
    dueAt: 0,
    startedAt: null,
    finishedAt: null,
    worker: null,
    leaseUntil: null,
    token: 0,
    cancelRequested: false,
    progress: null,
    result: null,
    error: null,
    idempotencyKey: null,
    ...more,
  });
  const jobs = [
    job({ state: "scheduled", dueAt: 7_200_000 }),
    job({ state: "active", cancelRequested: true, group: "acme", error: { name: "Error", message: "broke\u001b[2J" } }),
  ];

  it("a list of jobs fits into 80 columns", () => {
    const text = jobsTable(jobs, 60_000, surface(80));
    expect(text).toBe(
      [
        "id                                   state     tries added   due type",
        "01a1ddb3-7810-70db-8629-4345c198eb06 scheduled   1/5    1m in 1h send_a_rather_…",
        "01a1ddb3-7810-70db-8629-4345c198eb06 active*     1/5    1m       send_a_rather_…",
        "",
      ].join("\n"),
    );
  });

  it("a list of jobs shows more columns where they fit, and cuts nothing where the width is unknown", () => {
    const text = jobsTable(jobs, 60_000, surface());
    expect(text).toContain("send_a_rather_long_email_with_pictures  acme   Error: broke\\u001b[2J");
    expect(jobsTable([job({})], 0, surface())).not.toMatch(/due|group|error/);
  });
});
