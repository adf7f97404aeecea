import { Agent, get } from "node:http";
import { text } from "node:stream/consumers";
import type { ServiceRecord } from "./plan.ts";

export interface Answer {
  readonly status: number;
  /** When to come back, if the call was refused. */
  readonly retryInMs: number;
  readonly body: string;
}

/** The client of the service. */
export class ServiceClient {
  readonly #url: string;
  // Not `fetch`: it works several times as long on a call, and so its calls are less equally long under way.
  readonly #agent = new Agent({ keepAlive: true });

  constructor(url: string) {
    this.#url = url;
  }

  call(job: string): Promise<Answer> {
    return this.#ask(`/call?job=${encodeURIComponent(job)}`);
  }

  /** A call that does not count. */
  async warmUp(): Promise<void> {
    await this.#ask("/warm-up");
  }

  /** What the service saw. */
  async record(): Promise<ServiceRecord> {
    return JSON.parse((await this.#ask("/record")).body) as ServiceRecord;
  }

  close(): void {
    this.#agent.destroy();
  }

  #ask(path: string): Promise<Answer> {
    return new Promise((resolve, reject) => {
      get(this.#url + path, { agent: this.#agent }, (response) => {
        const { statusCode: status = 0, headers } = response;
        const retryInMs = Number(headers["retry-after-ms"] ?? 0);
        text(response).then((body) => resolve({ status, retryInMs, body }), reject);
      }).once("error", reject);
    });
  }
}
