const DAY_MS = 86_400_000;

/** How long a job that ended is kept if it does not say so itself. */
export const KEPT_MS = { completed: DAY_MS, cancelled: DAY_MS, dead: 30 * DAY_MS } as const;
