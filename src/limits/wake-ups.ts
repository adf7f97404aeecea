/** Notifies listeners that capacity was returned. `times` lets a caller detect a wake-up that it missed before it listened. */
export class WakeUps {
  /** Replaced, never mutated: a listener may be added or removed while `notify` runs. */
  #listeners: readonly (() => void)[] = [];
  /** How often capacity was returned. Read it before a decision, and compare it before sleeping. */
  times = 0;

  /** Calls back until the returned function is called. */
  listen(listener: () => void): () => void {
    this.#listeners = [...this.#listeners, listener];
    return () => {
      this.#listeners = this.#listeners.filter((other) => other !== listener);
    };
  }

  notify(): void {
    this.times += 1;
    const listeners = this.#listeners;
    for (let i = 0; i < listeners.length; i++) listeners[i]!();
  }
}
