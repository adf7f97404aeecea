import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { freePort } from "../../scripts/postgres-server.ts";
import { groundFloor } from "./folder.ts";

/** PgBouncer refuses to run as root. */
const UNPRIVILEGED = 65_534;
const READY_MS = 10_000;
const CONFIG = "pgbouncer.ini";

export interface PgBouncerOptions {
  /** The port of the server behind it. */
  readonly to: number;
  /** How many connections to the server all clients share. */
  readonly poolSize: number;
}

/** Is it installed? Debian has it as a package; npm does not. */
export function hasPgBouncer(): boolean {
  try {
    execFileSync("pgbouncer", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** A real PgBouncer in transaction mode between clients and a server on this computer. */
export class PgBouncer {
  readonly port: number;
  readonly #folder: string;
  #process: ChildProcess | undefined;

  private constructor(port: number, folder: string) {
    this.port = port;
    this.#folder = folder;
  }

  static async open({ to, poolSize }: PgBouncerOptions): Promise<PgBouncer> {
    const port = await freePort();
    // In a folder of its own, which the user that it runs as may enter.
    const folder = mkdtempSync(join(groundFloor(), "sluice-pgbouncer-"));
    chmodSync(folder, 0o755);
    const lines = [
      "[databases]",
      `postgres = host=127.0.0.1 port=${to} dbname=postgres user=postgres`,
      "[pgbouncer]",
      "listen_addr = 127.0.0.1",
      `listen_port = ${port}`,
      "unix_socket_dir =",
      "auth_type = any",
      "pool_mode = transaction",
      `default_pool_size = ${poolSize}`,
      "max_client_conn = 500",
      "server_login_retry = 1",
    ];
    writeFileSync(join(folder, CONFIG), `${lines.join("\n")}\n`);
    const bouncer = new PgBouncer(port, folder);
    await bouncer.start();
    return bouncer;
  }

  async start(): Promise<void> {
    const unprivileged = process.getuid?.() === 0 ? { uid: UNPRIVILEGED, gid: UNPRIVILEGED } : {};
    this.#process = spawn("pgbouncer", ["--quiet", CONFIG], { ...unprivileged, cwd: this.#folder, stdio: "ignore" });
    const end = performance.now() + READY_MS;
    while (!(await answers(this.port))) {
      if (performance.now() > end) throw new Error("PgBouncer did not start");
      await wait(20);
    }
  }

  /** Every client loses its connection, in whatever transaction it is. */
  async kill(): Promise<void> {
    const pooler = this.#process;
    if (pooler === undefined || pooler.exitCode !== null || pooler.signalCode !== null) return;
    const ended = once(pooler, "exit");
    pooler.kill("SIGKILL");
    await ended;
  }

  async close(): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

async function answers(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
