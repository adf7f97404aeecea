import type { Command } from "./command.ts";
import { cancel, drain, promote, remove } from "./commands/change.ts";
import { clock } from "./commands/clock.ts";
import { doctor } from "./commands/doctor.ts";
import { edit } from "./commands/edit.ts";
import { explain } from "./commands/explain.ts";
import { jobs } from "./commands/jobs.ts";
import { limits } from "./commands/limits.ts";
import { migrate } from "./commands/migrate.ts";
import { pause, resume } from "./commands/pause.ts";
import { purge } from "./commands/purge.ts";
import { retry } from "./commands/retry.ts";
import { show } from "./commands/show.ts";
import { simulate } from "./commands/simulate.ts";
import { stats } from "./commands/stats.ts";
import { workers } from "./commands/workers.ts";

/** The table of commands, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  stats,
  workers,
  jobs,
  show,
  explain,
  retry,
  cancel,
  promote,
  edit,
  remove,
  drain,
  pause,
  resume,
  purge,
  limits,
  simulate,
  migrate,
  clock,
  doctor,
];
