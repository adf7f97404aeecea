import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { freePort } from "./port.ts";

export interface RedisServer {
  readonly url: string;
  readonly about: string;
  stop(): Promise<void>;
}

/** As durable as it gets: what was written is in its file, and on the disk, before it is answered. */
const DURABLE = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""];

/** A server on this computer alone; undefined if there is no `redis-server`. */
export async function startRedis(): Promise<RedisServer | undefined> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-redis-"));
  const port = await freePort();
  const args = ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder, ...DURABLE];
  const server = spawn("redis-server", args, { stdio: ["ignore", "pipe", "ignore"] });
  const end = () => server.kill("SIGKILL");
  process.once("exit", end);
  const ready = await new Promise<boolean>((resolve) => {
    server.once("error", () => resolve(false));
    server.once("exit", () => resolve(false));
    createInterface({ input: server.stdout }).on("line", (line) => {
      if (line.includes("Ready to accept connections")) resolve(true);
    });
  });
  const clean = () => {
    process.off("exit", end);
    rmSync(folder, { recursive: true, force: true });
  };
  if (!ready) {
    clean();
    return undefined;
  }
  return {
    url: `redis://127.0.0.1:${port}`,
    about: "Redis with `appendonly yes`, `appendfsync always`",
    async stop() {
      const gone = once(server, "exit");
      server.kill();
      await gone;
      clean();
    },
  };
}
