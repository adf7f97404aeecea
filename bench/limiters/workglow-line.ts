import type { Work, WorkglowLimiter } from "./peers.ts";

/**
 * Workglow's limiters can only be asked; waiting is left to the caller. This is the waiting: the first in line asks,
 * and after a refusal asks again when something was completed or, under a rate, at the time the limiter names.
 */
export function lineBefore(limiter: WorkglowLimiter, fn: Work, retry: "on completion" | "in time"): Work {
  let line: ((token: unknown) => void)[] = [];
  let served = 0;
  let asking = false;
  let completed = false;

  async function advance(): Promise<void> {
    if (asking) return;
    asking = true;
    while (served < line.length) {
      completed = false;
      const token = await limiter.tryAcquire();
      if (token !== null) line[served++]!(token);
      else if (retry === "in time") await sleepUntil(await limiter.getNextAvailableTime());
      else if (!completed) break;
    }
    if (served === line.length) {
      line = [];
      served = 0;
    }
    asking = false;
  }

  return async () => {
    const token = await new Promise<unknown>((resolve) => {
      line.push(resolve);
      void advance();
    });
    try {
      return await fn();
    } finally {
      await limiter.complete(token);
      completed = true;
      void advance();
    }
  };
}

function sleepUntil(date: Date): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(1, date.getTime() - Date.now())));
}
