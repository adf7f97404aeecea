let sleeping = 0;

/** How many wait at the moment. */
export const asleep = (): number => sleeping;

/** Waits, for so long or until the signal says otherwise. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    sleeping += 1;
    let over = false;
    const wake = () => {
      if (over) return;
      over = true;
      sleeping -= 1;
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(wake, ms);
    signal?.addEventListener("abort", wake);
  });
}
