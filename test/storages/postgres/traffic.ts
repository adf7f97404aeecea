import pg from "pg";

type Query = (...args: unknown[]) => unknown;

/**
 * What is on its way between a storage and its database: connections that are being made, statements that are not answered,
 * notifications. Hand `Client` to a pool and all of its connections are watched.
 */
export class Traffic {
  /** Nothing is sent before this is done. */
  gate: () => Promise<void> | undefined = () => undefined;
  readonly Client: new (config?: pg.ClientConfig) => pg.Client;
  #started = 0;
  #underWay = 0;
  readonly #listening = new Set<() => Promise<unknown>>();
  readonly #idle: (() => void)[] = [];

  constructor() {
    const watch = (client: pg.Client) => this.#watch(client);
    this.Client = class extends pg.Client {
      constructor(config?: pg.ClientConfig) {
        super(config);
        watch(this);
      }
    };
  }

  /** Until nothing is on its way any more, and nothing that arrived has sent something else. */
  async quiet(): Promise<void> {
    for (;;) {
      await turn();
      const before = this.#started;
      while (this.#underWay > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
      // A server sends pending notifications before it answers the next statement on the same connection.
      await Promise.all([...this.#listening].map((ping) => ping()));
      await turn();
      if (this.#started === before && this.#underWay === 0) return;
    }
  }

  #watch(client: pg.Client): void {
    const connect = client.connect.bind(client) as Query;
    const query = client.query.bind(client) as Query;
    const ping = () => (query("SELECT 1") as Promise<unknown>).catch(() => {});
    client.once("end", () => this.#listening.delete(ping));
    client.connect = ((...args: unknown[]) => this.#watched(connect, args)) as typeof client.connect;
    client.query = ((...args: unknown[]) => {
      if (isListen(args[0])) this.#listening.add(ping);
      const gate = this.gate();
      const said = [patiently(args[0]), ...args.slice(1)];
      return this.#watched(gate === undefined ? query : (...all) => gate.then(() => query(...all)), said);
    }) as typeof client.query;
  }

  /** A call that ends with a promise, or with the callback that is its last argument. */
  #watched(call: Query, args: readonly unknown[]): unknown {
    this.#started += 1;
    this.#underWay += 1;
    const done = () => {
      this.#underWay -= 1;
      if (this.#underWay === 0) for (const resolve of this.#idle.splice(0)) resolve();
    };
    const callback = args.at(-1);
    if (typeof callback === "function") {
      const finished: Query = (...answer) => {
        done();
        return (callback as Query)(...answer);
      };
      return call(...args.slice(0, -1), finished);
    }
    return (call(...args) as Promise<unknown>).finally(done);
  }
}

function isListen(query: unknown): boolean {
  const text = typeof query === "string" ? query : ((query as { readonly text?: unknown } | undefined)?.text ?? "");
  return typeof text === "string" && /^\s*LISTEN\b/i.test(text);
}

/**
 * A statement that waits for locks for minutes, and not for the two seconds that a busy machine may take: what fails for a lock is
 * tried again after a pause, and time stands still here.
 */
function patiently(query: unknown): unknown {
  if (typeof query === "string") return query.replace(/(?<='lock_timeout', ')\d+/, "600000");
  const { text } = (query ?? {}) as { readonly text?: unknown };
  return typeof text === "string" ? { ...(query as object), text: patiently(text) } : query;
}

/** One turn of the event loop: what has arrived is read, and promises can settle. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
