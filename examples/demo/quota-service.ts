// A service with a quota, in a process of its own: an exact sliding window and a bound on calls at the same time, by its
// own monotonic clock. Above either it answers 429 with Retry-After. It ends when the process that started it does.
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Quota, type ServiceRecord, WORK_MS } from "./quota.ts";

const { quota, windowMs, concurrency } = JSON.parse(process.argv[2] ?? "") as Quota;

const arrivals: number[] = [];
/** When the calls of the current window were let in. */
const admitted: number[] = [];
let refused = 0;
let atWork = 0;
let mostAtOnce = 0;

function call(response: ServerResponse): void {
  const now = performance.now();
  arrivals.push(now);
  while (admitted.length > 0 && now - admitted[0]! >= windowMs) admitted.shift();
  if (admitted.length >= quota) return refuse(response, admitted[0]! + windowMs - now);
  if (atWork >= concurrency) return refuse(response, WORK_MS);
  admitted.push(now);
  atWork += 1;
  mostAtOnce = Math.max(mostAtOnce, atWork);
  setTimeout(() => {
    atWork -= 1;
    response.end("done\n");
  }, WORK_MS);
}

function refuse(response: ServerResponse, retryInMs: number): void {
  refused += 1;
  response.writeHead(429, { "retry-after": String(Math.ceil(retryInMs / 1000)) }).end("too many\n");
}

const server = createServer((request, response) => {
  if (request.url === "/call") call(response);
  else if (request.url === "/warm-up") setTimeout(() => response.end("warm\n"), WORK_MS);
  else if (request.url === "/record") {
    response.end(JSON.stringify({ arrivals, refused, mostAtOnce } satisfies ServiceRecord));
  } else response.writeHead(404).end();
});

// Connections stay open from one window to the next.
server.keepAliveTimeout = 120_000;
server.listen({ port: 0, host: "127.0.0.1", backlog: 4096 }, () => {
  process.send?.((server.address() as AddressInfo).port);
});

// Ctrl-C reaches every process of the terminal; the demo still wants to ask for the record.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
process.on("disconnect", () => process.exit());
