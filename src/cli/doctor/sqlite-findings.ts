import { recordError } from "../../core/error-record.ts";
import { otherVersion } from "../opened.ts";
import { bytes, plural, printable } from "../render/text.ts";
import { AS_WORKERS, isForbidden } from "../sqlite/database.ts";
import type { Facts } from "./sqlite-facts.ts";
import { clock, type Finding, keeping, leases, limits, rows, stuck, workers } from "./common-findings.ts";

const MEGABYTE = 1e6;
/** A log this large is not being written back into the database. */
const LARGE_WAL = 64 * MEGABYTE;
const LARGE_HINT = MEGABYTE;
/** From so much free space in the file on, a vacuum is advised. */
const MUCH_FREE = 100 * MEGABYTE;
const SOUND_SQLITE = [3, 51, 3] as const;

/** When the file cannot even be read: it is broken, or another user's. */
export function unreadable(error: unknown): Finding {
  const advice = isForbidden(error) ? AS_WORKERS : RESTORE;
  return { check: "file", status: "fail", says: printable(recordError(error).message), advice };
}

/** The findings and the advice, from facts alone. */
export function findings(facts: Facts): readonly Finding[] {
  const { kept } = facts;
  return [
    file(facts),
    sqlite(facts),
    journal(facts),
    integrity(facts),
    schema(facts),
    ...(kept === undefined
      ? []
      : [leases(kept), workers(kept), stuck(kept), limits(kept), lanes(kept), clock(kept), keeping(kept), rows(kept)]),
    size(facts),
    hint(facts),
  ];
}

const RESTORE =
  "stop all workers, keep a copy of the file and its -wal, then restore a backup or try `sqlite3 file .recover`";

type Kept = NonNullable<Facts["kept"]>;

function file({ path, writable }: Facts): Finding {
  if (writable) return { check: "file", status: "ok", says: path };
  return {
    check: "file",
    status: "warn",
    says: `${path} is read-only for this user`,
    advice: "workers must be able to write it",
  };
}

function sqlite({ sqlite: version }: Facts): Finding {
  const check = "sqlite";
  if (!isOlder(version)) return { check, status: "ok", says: `version ${version}` };
  return {
    check,
    status: "warn",
    says: `version ${version} can corrupt a database in WAL mode that several processes use`,
    advice: `use a Node whose SQLite is ${SOUND_SQLITE.join(".")} or later (process.versions.sqlite)`,
  };
}

function isOlder(version: string): boolean {
  const parts = version.split(".").map(Number);
  const place = SOUND_SQLITE.findIndex((least, i) => (parts[i] ?? 0) !== least);
  return place !== -1 && (parts[place] ?? 0) < SOUND_SQLITE[place]!;
}

function journal({ journal: mode }: Facts): Finding {
  if (mode === "wal") return { check: "journal", status: "ok", says: "wal" };
  return {
    check: "journal",
    status: "warn",
    says: `${printable(mode)}: readers and writers wait for each other`,
    advice: "PRAGMA journal_mode = WAL, once, while nothing uses the file",
  };
}

function integrity({ broken }: Facts): Finding {
  if (broken.length === 0) return { check: "integrity", status: "ok", says: "nothing is broken" };
  return {
    check: "integrity",
    status: "fail",
    says: broken
      .slice(0, 3)
      .map((line) => printable(line))
      .join("; "),
    advice: RESTORE,
  };
}

function schema({ schema: { found, known } }: Facts): Finding {
  if (found === known) return { check: "schema", status: "ok", says: `version ${found}` };
  if (found === 0) {
    return {
      check: "schema",
      status: "fail",
      says: "none of Sluice's tables are here",
      advice: "is it the right file? A worker or queue creates them on first use",
    };
  }
  return { check: "schema", status: found > known ? "fail" : "warn", says: otherVersion({ found, known }) };
}

function lanes({ wrongLanes }: Kept): Finding {
  if (wrongLanes === 0) return { check: "lanes", status: "ok", says: "their counts are right" };
  return {
    check: "lanes",
    status: "fail",
    says: `${plural(wrongLanes, "lane")} with a wrong count: jobs may be passed over`,
    advice: "was the database edited by hand? Please report it otherwise",
  };
}

function size({ bytes: fileBytes, walBytes, freePages, pageBytes }: Facts): Finding {
  const check = "size";
  const free = freePages * pageBytes;
  const says = `${bytes(fileBytes)}, ${bytes(free)} of it free; log ${bytes(walBytes)}`;
  if (walBytes > LARGE_WAL) {
    return {
      check,
      status: "warn",
      says,
      advice: "some reader keeps the log from being written back: look for long transactions",
    };
  }
  if (free > MUCH_FREE && free > fileBytes / 2) {
    return { check, status: "warn", says, advice: "VACUUM, while nothing uses the file, makes it smaller" };
  }
  return { check, status: "ok", says };
}

function hint({ hintBytes }: Facts): Finding {
  const check = "hint file";
  if (hintBytes === undefined) return { check, status: "ok", says: "none: no process has listened yet" };
  if (hintBytes <= LARGE_HINT) return { check, status: "ok", says: bytes(hintBytes) };
  return { check, status: "warn", says: bytes(hintBytes), advice: "it holds nothing and may be emptied at any time" };
}
