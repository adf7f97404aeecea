import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { Agent, get } from "node:http";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import type { Quota, ServiceRecord } from "./quota.ts";

/** The running service, seen from the caller's side. */
export interface Service {
  /** Makes a call; the answer is the status of the response. */
  call(): Promise<number>;
  /** Opens the connections, and lets both sides run what they will run. None of it counts. */
  warmUp(connections: number): Promise<void>;
  /** What the service saw. */
  record(): Promise<ServiceRecord>;
  stop(): Promise<void>;
}

export async function startService(quota: Quota): Promise<Service> {
  const child = fork(fileURLToPath(import.meta.resolve("./quota-service.ts")), [JSON.stringify(quota)]);
  const url = `http://127.0.0.1:${await portOf(child)}`;
  // Not `fetch`: it works several times as long on a call, and so its calls are less equally long under way.
  const agent = new Agent({ keepAlive: true });
  const ask = (path: string) =>
    new Promise<{ status: number; body: string }>((resolve, reject) => {
      get(url + path, { agent }, (response) => {
        text(response).then((body) => resolve({ status: response.statusCode ?? 0, body }), reject);
      }).once("error", reject);
    });
  return {
    async call() {
      return (await ask("/call")).status;
    },
    async warmUp(connections) {
      for (let round = 0; round < 4; round++) {
        await Promise.all(Array.from({ length: connections }, () => ask("/warm-up")));
      }
    },
    async record() {
      return JSON.parse((await ask("/record")).body) as ServiceRecord;
    },
    async stop() {
      agent.destroy();
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGKILL");
      await once(child, "exit");
    },
  };
}

async function portOf(child: ChildProcess): Promise<number> {
  return await new Promise((resolve, reject) => {
    child.once("message", (port) => resolve(port as number));
    child.once("error", reject);
    child.once("exit", () => reject(new Error("the quota service could not be started")));
  });
}
