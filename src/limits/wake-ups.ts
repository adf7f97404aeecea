/** Tells those who wait that something was given back, and those about to wait that they have just missed it. */
export class WakeUps {
  /** Replaced, never changed: whoever is being told may leave or join meanwhile. */
  #listeners: readonly (() => void)[] = [];
  /** How often something was given back. Read it before asking, compare it before going to sleep. */
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
