// A service with a quota, in a process of its own: an exact sliding window by its own monotonic clock. Above it the answer
// is 429. It keeps a record of every call, and ends when the process that started it does.
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Call, type Plan, type ServiceRecord, WORK_MS } from "./plan.ts";
import { settingsOf } from "./processes.ts";

const { quota, windowMs } = settingsOf() as Pick<Plan, "quota" | "windowMs">;

const calls: Call[] = [];
/** When the calls of the current window were let in. */
const admitted: number[] = [];

function call(job: string, response: ServerResponse): void {
  const at = performance.now();
  while (admitted.length > 0 && at - admitted[0]! >= windowMs) admitted.shift();
  if (admitted.length >= quota) {
    calls.push({ at, job, status: 429 });
    response.writeHead(429, { "retry-after-ms": Math.ceil(admitted[0]! + windowMs - at) }).end("too many\n");
    return;
  }
  admitted.push(at);
  calls.push({ at, job, status: 200 });
  setTimeout(() => response.end("done\n"), WORK_MS);
}

const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://localhost");
  if (pathname === "/call") call(searchParams.get("job") ?? "", response);
  else if (pathname === "/warm-up") setTimeout(() => response.end("warm\n"), WORK_MS / 3);
  else if (pathname === "/record") response.end(JSON.stringify({ calls } satisfies ServiceRecord));
  else response.writeHead(404).end();
});

// Connections stay open from one window to the next.
server.keepAliveTimeout = 120_000;
server.listen({ port: 0, host: "127.0.0.1", backlog: 4096 }, () => {
  process.send?.({ port: (server.address() as AddressInfo).port });
});

// Ctrl-C reaches every process of the terminal; the demo still wants to ask for the record.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
process.on("disconnect", () => process.exit());
