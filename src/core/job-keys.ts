import type { JobKeys } from "./job.ts";
import { nameText } from "./names.ts";
import { type Check, isPlain } from "./options.ts";

/** So many keys a job has at the most: each set of keys is a lane of its own, and is kept with every job. */
const MOST_KEYS = 16;
/** All of them together, as JSON: a storage finds lanes and limit states by them, in indexes whose entries are bounded. */
const MOST_BYTES = 512;
/** `by: "group"` is by the group of the job, so no key can have this name. */
export const GROUP = "group";

/** The name of a key. */
const keyName = (name: string): boolean => name !== GROUP && nameText.read(name) !== undefined;

/**
 * The keys of a job, copied and frozen: a storage in this process keeps the object itself. Names such as `__proto__` are own
 * properties of the copy.
 */
export const jobKeys: Check<JobKeys> = {
  expected:
    `a plain object of at most ${MOST_KEYS} names and values, such as { tenant: "acme" }, ` +
    `each ${nameText.expected}, ${MOST_BYTES} bytes as JSON in all, and no name "${GROUP}"`,
  read: (value) => {
    if (!isPlain(value)) return undefined;
    const entries = Object.entries(value);
    const right = entries.every(([name, one]) => keyName(name) && nameText.read(one) !== undefined);
    return right && entries.length <= MOST_KEYS && new TextEncoder().encode(JSON.stringify(value)).length <= MOST_BYTES
      ? Object.freeze(Object.fromEntries(entries as [string, string][]))
      : undefined;
  },
};

/** No keys at all are the same as an empty object of them. */
export function someKeys(keys: JobKeys | null | undefined): JobKeys | undefined {
  return keys === undefined || keys === null || Object.keys(keys).length === 0 ? undefined : keys;
}
