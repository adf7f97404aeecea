import { getOrMake } from "../core/get-or-make.ts";
import { JOB_DEFAULTS, readDefaults } from "../core/job-defaults.ts";
import type { JobRecord } from "../core/job.ts";
import { type Check, readOptions } from "../core/options.ts";

/** Gives a job that was added without a timeout the one of its type, if there is one. */
export type WithTimeout = (job: JobRecord) => JobRecord;

const OWNER = "Worker";

/** The timeouts in the defaults of a queue. A worker needs nothing else of them: all other defaults are stored with a job when it is added. */
export const timeouts: Check<WithTimeout> = {
  expected: "an object of options, and of options by type",
  read: (value) => {
    const defaults = readDefaults(OWNER, value);
    const known = new Map<string, number | null>();
    const of = (type: string): number | null =>
      getOrMake(known, type, () => readOptions(OWNER, JOB_DEFAULTS, defaults.of(type)).timeout ?? null);
    return (job) => {
      const timeout = job.timeout === null ? of(job.type) : null;
      return timeout === null ? job : { ...job, timeout };
    };
  },
};
