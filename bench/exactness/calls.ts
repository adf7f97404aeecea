import pg from "pg";
import { load } from "../postgres/peers.ts";

/** What is measured in one process: when calls were made, and how often the storage was asked. */
export class Calls {
  readonly #at: bigint[] = [];
  /** Of a storage of ours, its members; else commands and queries that are sent to the server. */
  readonly asked = { count: 0 };
  #warmFrom = 0;

  /** What is called under the limit. */
  readonly call = async (): Promise<void> => {
    const at = process.hrtime.bigint();
    this.#at.push(at);
  };

  warm(): void {
    this.asked.count = 0;
    this.#warmFrom = this.#at.length;
  }

  get report(): { calls: number[]; asked: number; made: number } {
    const calls = this.#at.map((at) => Number(at) / 1e6);
    return { calls, asked: this.asked.count, made: calls.length - this.#warmFrom };
  }

  /** Every query of a peer that keeps its state in Postgres. */
  countQueries(): void {
    this.#count(pg.Client.prototype, "query");
  }

  /** Every command of a peer that keeps its state in Redis. */
  async countCommands(): Promise<void> {
    const { default: Redis } = await load("ioredis");
    this.#count(Redis.prototype, "sendCommand");
  }

  #count<Name extends string>(object: { [name in Name]: unknown }, name: Name): void {
    const { asked } = this;
    const real = object[name] as (...given: unknown[]) => unknown;
    object[name] = function (this: unknown, ...given: unknown[]): unknown {
      asked.count += 1;
      return Reflect.apply(real, this, given);
    };
  }
}
