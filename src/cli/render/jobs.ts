import type { JobRecord } from "../../core/job.ts";
import { type Column, type Surface, table } from "./table.ts";
import { keysText, printable } from "./text.ts";
import { shortDuration } from "./time.ts";

/** From this width on further columns are shown. */
const ROOMY = 100;

interface JobColumn extends Column {
  readonly of: (job: JobRecord, now: number) => string;
  /** Shown only where it has content; `roomy`: and only on a wide terminal. */
  readonly only?: "filled" | "roomy";
}

const COLUMNS: readonly JobColumn[] = [
  { title: "id", of: ({ id }) => printable(id) },
  { title: "state", of: ({ state, cancelRequested }) => (cancelRequested ? `${state}*` : state) },
  { title: "tries", align: "right", of: ({ attempt, maxAttempts }) => `${attempt}/${maxAttempts}` },
  { title: "added", align: "right", of: ({ createdAt }, now) => shortDuration(Math.max(0, now - createdAt)) },
  { title: "due", align: "right", of: due, only: "filled" },
  { title: "type", atLeast: 8, of: ({ type }) => printable(type) },
  { title: "group", atLeast: 6, of: ({ group }) => printable(group ?? ""), only: "roomy" },
  { title: "keys", atLeast: 6, of: ({ keys = {} }) => keysText(keys), only: "roomy" },
  { title: "error", atLeast: 12, of: errorText, only: "roomy" },
];

/** Jobs as a table. A star behind the state: a cancellation of the job was requested. */
export function jobsTable(jobs: readonly JobRecord[], now: number, surface: Surface): string {
  const roomy = surface.columns === undefined || surface.columns >= ROOMY;
  const columns = COLUMNS.filter(
    ({ only, of }) => only === undefined || ((roomy || only === "filled") && jobs.some((job) => of(job, now) !== "")),
  );
  return table(
    columns,
    jobs.map((job) => columns.map(({ of }) => of(job, now))),
    surface,
  );
}

function errorText({ error }: JobRecord): string {
  return error === null ? "" : printable(`${error.name}: ${error.message}`);
}

function due({ state, dueAt }: JobRecord, now: number): string {
  return state === "scheduled" ? `in ${shortDuration(Math.max(0, dueAt - now))}` : "";
}
